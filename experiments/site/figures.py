"""Figures of the page: lines as data that page.js draws, heat maps as tables of colours, pictures as they are."""

from __future__ import annotations

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

from experiments.atlas.heat_map import HeatMap
from experiments.blocks import Figure
from experiments.figures import Lines
from experiments.methods import METHODS, NEUTRAL, Method, looks, method_of
from experiments.statistics import Band

DARK_FROM = 0.66  # scores whose colour asks for light letters


def lines(figure: Lines) -> str:
    """An empty plot beside its data; the last points stand below as a table, for who cannot see or hover."""
    ends = "".join(
        f"<tr><th scope=row>{escape(label)}</th><td>{points[-1][0]:g}</td><td>{points[-1][1].text(4)}</td></tr>"
        for label, points in figure.series.items()
    )
    numbers = (
        f"<details class=numbers><summary>Where the lines end, as a table</summary><div class=scroll tabindex=0>"
        f"<table><thead><tr><th scope=col>row</th><th scope=col>{escape(figure.xlabel)}</th>"
        f"<th scope=col>{escape(figure.ylabel)} (seeds)</th></tr></thead><tbody>{ends}</tbody></table></div></details>"
    )
    return (
        f'<figure class="lines" id="figure-{figure.name}"><figcaption><b>{escape(figure.title)}.</b> '
        f'{escape(figure.alt)}</figcaption><div class="chips" role="group" aria-label="Rows shown"></div>'
        f'<div class="plot"></div><script type="application/json">{script(data(figure))}</script>{numbers}</figure>'
    )


def data(figure: Lines) -> dict[str, Any]:
    seen = looks(figure.series)
    return {
        "label": figure.alt,
        "x": figure.xlabel,
        "y": figure.ylabel,
        "log": figure.axis.get("xscale") == "log",
        "xlim": figure.axis.get("xlim"),
        "ylim": figure.axis.get("ylim"),
        "levels": figure.levels,
        "series": [
            {
                "row": row.replace("`", ""),
                "colour": variable(seen[row].method),
                "dash": seen[row].number,
                "points": points(band),
            }
            for row, band in figure.series.items()
        ],
    }


def points(band: Band) -> list[list[float]]:
    """[x, mean, standard deviation, seeds]"""
    return [[short(x), short(s.mean), short(s.std) if s.n > 1 else 0, s.n] for x, s in band]


def short(value: float) -> float:
    return float(f"{value:.5g}")


def script(content: Any) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")


def variable(method: Method) -> str:
    """The name of its colour in the style sheet."""
    return f"--m{(*METHODS, *NEUTRAL).index(method)}"


def colours() -> str:
    """Every method's colour, on light and on dark."""
    light, dark = (
        ";".join(f"{variable(method)}:{colour(method)}" for method in (*METHODS, *NEUTRAL))
        for colour in (lambda method: method.colour, lambda method: method.dark)
    )
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"


def heat_map(figure: HeatMap) -> str:
    heads = "".join(f'<th scope="col"><span>{_named(column)}</span></th>' for column in figure.across)
    rows = []
    for i, name in enumerate(figure.down):
        best = max((value for value in figure.values[i] if value is not None), default=None)
        cells = [
            _coloured(figure, i, j, is_best=value is not None and value == best)
            for j, value in enumerate(figure.values[i])
        ]
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    scale = "".join(f'<i style="--v:{value}"></i>' for value in (0, 0.25, 0.5, 0.75, 1))
    return (
        f'<figure class="heat" id="figure-{figure.name}"><figcaption><b>{escape(figure.title)}.</b> Score of every '
        f'estimator on every function; <span class="key">{scale}</span> {escape(figure.label)}; orange below 0, '
        "<i>fails</i> at −1, framed the best of a line. In brackets: calls of the function for a sample and step. "
        "Hover, or move with the arrow keys, for the spread, or for why there is none.</figcaption>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(figure.title)}">'
        f"<table><thead><tr><td></td>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></figure>"
    )


def _named(column: str) -> str:
    method = method_of(column)
    dot = f'<i class="dot" style="background:var({variable(method)})"></i>' if method else ""
    return f"{dot}{escape(column)}"


def _coloured(figure: HeatMap, i: int, j: int, is_best: bool) -> str:
    value, spread = figure.values[i][j], figure.spreads[i][j]
    if value is None:
        why = f"{figure.across[j]} on {figure.down[i]}: {figure.empty[i][j]}"
        return f'<td class="cell none" tabindex="-1" data-tip="{escape(why)}">–</td>'
    spread_text = f" ± {spread:.3f}" if spread == spread else " (one seed)"
    tip = f"{figure.across[j]} on {figure.down[i]}: {value:.3f}{spread_text}{', the best here' if is_best else ''}"
    kind = "".join((" dark" if value > DARK_FROM else "", " best" if is_best else "", " below" if value < 0 else ""))
    look = f'class="cell{kind}" style="--v:{min(max(abs(value), 0), 1):.3f}" tabindex="-1"'
    return f'<td {look} data-tip="{escape(tip)}">{figure.text(value)}</td>'


def picture(figure: Figure, folder: Path) -> str:
    """Within the page: it is one file."""
    path = folder / figure.file
    if not path.exists():
        return ""
    content = base64.b64encode(path.read_bytes()).decode()
    return (
        f'<figure class="picture" id="figure-{figure.name}"><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(figure.alt)}"><img alt="{escape(figure.alt)}" '
        f'src="data:image/png;base64,{content}"></div>'
        f"<figcaption>{escape(figure.alt)}.</figcaption></figure>"
    )
