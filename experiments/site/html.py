"""Blocks as HTML. The rows of a table that know their places link to the records they are made from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from experiments.atlas.heat_map import HeatMap
from experiments.blocks import Block, Bullets, Figure, Heading, Part, Table, Text
from experiments.figures import Lines
from experiments.numbers import human_duration
from experiments.results import Place, Results, training_time
from experiments.site.figures import heat_map, lines, picture

GOOD = ("holds", "agrees", "better", "ahead", "first")
BAD = ("does not hold", "worse", "behind")
MIXED = ("in part", "level", "no difference")
JUDGED = ("verdict", "is", "the bridge is")  # columns of words that are judgements
LONG = 16  # rows after which a table scrolls by itself
COMMAND = "command"


def inline(text: str) -> str:
    """`code`, **strong** and *emphasis* of a block's text."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"(?<![\w*])\*(\S[^*]*)(?<=\S)\*(?![\w*])", r"<em>\1</em>", text)


def anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@dataclass(frozen=True)
class Html:
    """A printer for a page in `folder` whose kept pictures are below `pictures`.

    Of a study's section it knows the name, which its anchors start with, and the command that makes it again.
    """

    folder: Path
    pictures: Path
    study: str = ""
    redo: str = ""

    def of(self, study: str, redo: str) -> Html:
        return replace(self, study=study, redo=redo)

    def parts(self, parts: Iterable[Part]) -> str:
        return "\n".join(self.block(block) for part in parts for block in part)

    def block(self, block: Block) -> str:
        match block:
            case Heading(text, level):
                tag = f"h{level + 2}"  # below the page's own parts
                return f'<{tag} id="{anchor(f"{self.study} {text}")}">{inline(text)}</{tag}>'
            case Text(text):
                return f"<p>{inline(text)}</p>"
            case Bullets(items):
                return "<ul>" + "".join(f"<li>{inline(item)}</li>" for item in items) + "</ul>"
            case Table():
                return self.table(block)
            case Figure():
                return self.figure(block)

    def figure(self, figure: Figure) -> str:
        match figure:
            case Lines():
                drawn = lines(figure)
            case HeatMap():
                drawn = heat_map(figure)
            case _:
                drawn = picture(figure, self.pictures)
        return drawn + self.footnote(figure.evidence)

    def table(self, table: Table) -> str:
        shown = [n for n, head in enumerate(table.header) if not (head == COMMAND and table.evidence)]
        heads = [table.header[n] for n in shown] + (["evidence"] if table.evidence else [])
        rows = []
        for number, row in enumerate(table.rows):
            cells = [self._cell(table.header[n], row[n], is_first=n == 0) for n in shown]
            if table.evidence:
                cells.append(f'<td data-head="evidence">{self.evidence(table.evidence[number])}</td>')
            rows.append(f"<tr>{''.join(cells)}</tr>")
        head = "".join(f'<th scope="col">{inline(text)}</th>' for text in heads)
        label = escape(table.caption or f"Table of {len(rows)} rows: {', '.join(table.header)}")
        note = self.footnote([place for places in table.evidence for place in places])
        kind = "scroll long" if len(rows) > LONG else "scroll"
        body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        return f'<div class="{kind}" tabindex="0" role="region" aria-label="{label}">{body}</div>{note}'

    def _cell(self, head: str, text: str, is_first: bool) -> str:
        if is_first:
            return f'<th scope="row">{inline(text)}</th>'
        label = f' data-head="{escape(head)}"'
        if head in JUDGED and text != "–":
            return f"<td{label}>{pill(text)}</td>"
        is_number = re.match(r"[-−+*]*\d", text) and len(text) < 28
        return f"<td{label}{' class=num' if is_number else ''}>{inline(text)}</td>"

    def evidence(self, places: Sequence[Place]) -> str:
        """The records of some places, and the commands that make them."""
        count = sum(len(place.records) for place in places)
        places = [place for place in places if place] or [place for place in places if place.overrides]
        if not places:
            return "–"
        items = "".join(f"<li>{self._source(place)}</li>" for place in places)
        what = {0: "to run it", 1: "1 record"}.get(count, f"{count} records")
        return f'<details class="evidence"><summary>{what}</summary><ul>{items}</ul></details>'

    def _source(self, place: Place) -> str:
        links = [
            f'<a href="{escape(os.path.relpath(file, self.folder))}">seed {seed}</a>'
            for seed, file in place.files.items()
        ]
        name = f"<b>{escape(place.name)}, {escape(place.column)}</b>: {', '.join(links)}"
        is_run = not (place.overrides and place.overrides[0].startswith("task="))  # the atlas has its own command
        return f"{name}<br><code>{escape(place.command)}</code>" if is_run else name

    def sources(self, results: Results) -> str:
        """What a whole section stands on: for its tables and figures that say nothing else."""
        folders = sorted({file.parent for place in results for file in place.files.values()})
        links = [f'<a href="{escape(os.path.relpath(folder, self.folder))}/">its records</a>' for folder in folders]
        return self.footnote(results, *links)

    def footnote(self, places: Iterable[Place], *more: str) -> str:
        """Hardware, time and the command of all records that something is made from, each counted once."""
        records = {place.files[seed]: record for place in places for seed, record in place.records.items()}.values()
        if not records:
            return ""
        machines = sorted({machine for record in records if (machine := hardware(record))})
        spent = f"{human_duration(sum(map(training_time, records)))} of training"
        again = f"again: <code>{escape(self.redo)}</code>" if self.redo else ""
        words = [f"{len(records)} run{'s' * (len(records) != 1)}", *machines, spent, again, *more]
        return f'<p class="note">{" · ".join(word for word in words if word)}</p>'


def hardware(record: dict) -> str:
    """Where a run was trained, as far as its record says."""
    stamp = record.get("provenance", {})
    stamp = stamp.get("end", stamp)
    if stamp.get("gpu"):
        return str(stamp["gpu"])
    if not stamp.get("processor"):
        return ""
    threads = record.get("threads", 1)
    return f"{stamp['processor']}, {threads} thread{'s' * (threads != 1)} of {stamp.get('cores', '?')} cores"


def pill(text: str) -> str:
    """A judgement, coloured by its first words; the words stay, for who does not see colours."""
    for kind, words in (("bad", BAD), ("good", GOOD), ("mixed", MIXED)):
        for word in words:
            if text.startswith(word):
                return f'<span class="pill {kind}">{word}</span>{inline(text.removeprefix(word))}'
    return f'<span class="pill open">{inline(text)}</span>'
