"""What stands where on the page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from html import escape
from pathlib import Path
from string import Template

from experiments import paper, report
from experiments.atlas.heat_map import HeatMap
from experiments.atlas.plan import ALL as FUNCTIONS
from experiments.atlas.plan import ROWS as ESTIMATORS
from experiments.blocks import Block, Bullets, Heading
from experiments.leaderboard import leaderboard
from experiments.numbers import human, human_duration
from experiments.paper.claim import BUDGET, FAILS, FEW, HOLDS, LEVEL, NOT_RUN, PARTLY, RULE, claim_table
from experiments.provenance import is_clean, statement, unfinished
from experiments.results import Results, training_time
from experiments.site.figures import colours, script
from experiments.site.html import Html, anchor, inline
from experiments.study import COMMITTED, ROOT, SCALES, Store

HERE = Path(__file__).parent
SORTER = ROOT / "results" / "sorter" / "five.json"
FIRST_MAP = "atlas_recover"  # of the atlas: what the page begins with
MENU = {
    "atlas": "Which gradient",
    "paper": "The paper",
    "sorter": "Try it",
    "leaderboard": "Leaderboard",
    "results": "Results",
    "open": "Left open",
    "code": "Which code",
}
TITLES = {
    "sorting": "Sorting",
    "binarized": "Density estimation",
    "representation/fashion_mnist": "Representations: FashionMNIST",
    "representation/cifar10": "Representations: CIFAR10",
    "representation/search": "Representations: the search",
    "imagenet": "ImageNet",
    "classification/cifar10": "Classification: CIFAR10",
    "classification/ablation": "Classification: case studies",
    "atlas": "The atlas, in full",
}


def write(folder: Path, scale: str = "cpu", store: Store = COMMITTED) -> Path:
    """index.html, from the records of one scale."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    path.write_text(page(report.load(scale, store), folder, scale))
    return path


def page(results: Mapping[str, Results], folder: Path, scale: str) -> str:
    html = Html(folder, ROOT / "docs")
    again = html.of("leaderboard", f"make reproduce SCALE={scale} FRESH=1")
    parts = {
        "atlas": ("Which gradient for which function?", atlas(results["atlas"], html)),
        "paper": ("Does the paper hold?", holds(results, html)),
        "sorter": ("Try it: a network with a hard layer sorts", sorter()),
        "leaderboard": ("Leaderboard of estimators", again.parts([leaderboard(results)[1:]])),
        "results": ("Every table and figure", studies(results, html)),
        "open": ("What the paper leaves open", left_open(results, html)),
        "missing": ("What is not run yet", html.parts([unfinished(results)[1:]])),
        "code": ("Which code made this", html.parts([statement(results)[1:]])),
    }
    written = ((name, title, body) for name, (title, body) in parts.items() if body)
    sections = [f'<section id="{name}"><h2>{title}</h2>{body}</section>' for name, title, body in written]
    return _template(
        "page.html",
        style=colours() + _file("style.css"),
        script=_file("sorter.js") + _file("page.js"),
        idea=_file("idea.svg"),
        menu="".join(f'<a href="#{name}">{text}</a>' for name, text in MENU.items()),
        facts=facts(results),
        scale="" if scale == "paper" else f"All of it at <code>scale={scale}</code>, a reduced setting.",
        body="\n".join(sections),
    )


def _file(name: str) -> str:
    return (HERE / name).read_text()


def _template(name: str, **values: object) -> str:
    return Template(_file(name)).substitute(values)


def facts(results: Mapping[str, Results]) -> str:
    """How much the page stands on, and what it comes to."""
    records = [record for of_study in results.values() for record in of_study.records()]
    time = sum(map(training_time, records))
    words = Counter(c.verdict.partition(" (")[0] for of_study in paper.claims(results).values() for c in of_study)
    shown = {
        "runs": f"{len(records):,}",
        "of training": human_duration(time),
        '<a href="#paper">of the paper\'s claims</a> hold': words[HOLDS],
        "hold in part": words[PARTLY],
        "do not hold": words[FAILS] + words[LEVEL],
        "not settled": words[NOT_RUN] + words[BUDGET] + words[FEW],
    }
    return f"<dl class=facts>{''.join(f'<div><dt>{k}</dt><dd>{v}</dd></div>' for k, v in shown.items())}</dl>"


def command(results: Results, name: str) -> str:
    return f"python -m experiments {name} --scale {results.scale}"


def atlas(results: Results, html: Html) -> str:
    """The answer in a table, the map it comes from, or how to get them."""
    maps = [b for part in report.STUDIES["atlas"].render(results) for b in part if isinstance(b, HeatMap)]
    if not maps:
        scale = results.scale if report.STUDIES["atlas"].cells(results.scale) else "cpu"
        return _template(
            "unrun_atlas.html",
            functions=len(FUNCTIONS),
            estimators=len(ESTIMATORS),
            scale=scale,
        )
    more = '<p class="note">The other maps, and what was searched: <a href="#study-atlas">the atlas, in full</a>.</p>'
    first = next(m for m in maps if m.name == FIRST_MAP)
    own = html.of("atlas", f"{command(results, 'atlas')} --fresh")
    answer = report.STUDIES["atlas"].headline(results)
    return (own.table(answer) if answer.rows else "") + own.block(first) + more


def holds(results: Mapping[str, Results], html: Html) -> str:
    """The claims, study by study."""
    made = []
    for name, claims in paper.claims(results).items():
        table = html.of(name, f"{command(results[name], name)} --fresh").table(claim_table(claims))
        made.append(f'<h3><a href="#study-{anchor(name)}">{TITLES[name]}</a></h3>{table}')
    return f"<p>{inline(RULE)}</p><div class=claims>{''.join(made)}</div>"


def sorter() -> str:
    """Five numbers, sorted in the page by weights that train.py made (scripts/export_sorter.py)."""
    net = json.loads(SORTER.read_text())
    sizes = [net["length"], *(len(layer["bias"]) for layer in net["layers"])]
    return _template(
        "sorter.html",
        length=net["length"],
        widths=" → ".join(map(str, sizes)),
        command=escape(net["command"]),
        seconds=net["seconds"],
        samples=human(net["samples"]),
        accuracy=f"{100 * net['accuracy']:.1f}",
        net=script(net),
    )


def studies(results: Mapping[str, Results], html: Html) -> str:
    """Every study as docs/RESULTS.md has it, in a section that opens."""
    return "".join(study(name, of_study, html) for name, of_study in results.items())


def study(name: str, results: Results, html: Html) -> str:
    redo, records, planned = command(results, name), results.records(), report.STUDIES[name].cells(results.scale)
    parts = report.STUDIES[name].render(results) if records else []
    below = [[b for b in part if not _stands_above(b)] for part in parts]
    others = [scale for scale in SCALES if report.STUDIES[name].cells(scale)]
    why = (
        f"None of {len(planned)} runs is recorded."
        if planned
        else f"It is planned at scale={' and '.join(others)} alone."
    )
    how = f"<pre><code>{redo}</code></pre>" if planned else ""
    meta = f"{len(records)} of {len(planned)} runs, {sum(map(is_clean, records))} of them by committed code alone"
    own = html.of(name, f"{redo} --fresh")
    body = own.parts(below)
    body = own.sources(results) + body if body else f'<div class="empty"><p>{why}</p>{how}</div>'
    return (
        f'<details class="study" id="study-{anchor(name)}"{" open" * (name == "sorting")}>'
        f"<summary><h3>{TITLES[name]}</h3><span>{meta if records else why}</span></summary>{body}</details>"
    )


def _stands_above(block: Block) -> bool:
    """A study's title, and the map that the page begins with."""
    return (isinstance(block, Heading) and block.level == 1) or (isinstance(block, HeatMap) and block.name == FIRST_MAP)


def left_open(results: Mapping[str, Results], html: Html) -> str:
    cards = []
    for name, gaps in paper.gaps(results).items():
        for gap in gaps:
            found = html.block(Bullets(gap.found or [f"Not run yet: `{command(results[name], name)}`."]))
            evidence = html.evidence(gap.evidence) if gap.evidence else ""
            cards.append(
                f'<article class="card"><h3>{escape(gap.title)}</h3>'
                f'<p class="kind">{TITLES[name].partition(":")[0]}</p>'
                f"<p>{inline(gap.printed)}</p>{found}{evidence}</article>"
            )
    return f'<div class="cards">{"".join(cards)}</div>'
