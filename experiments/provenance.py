"""Whether a record can be trusted: was the code that made it committed, and did it stay the same?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from experiments.blocks import Bullets, Heading, Part, Text
from experiments.estimate import estimate
from experiments.results import Results
from experiments.study import Record


def is_clean(record: Record) -> bool:
    """Committed code at the start and at the end of the run, and the same."""
    provenance = record.get("provenance", {})
    stamps = _stamps(provenance)
    return not provenance.get("changed") and all(stamp.get("commit") and not stamp.get("dirty") for stamp in stamps)


def knows_its_start(record: Record) -> bool:
    """The first records were stamped only at their end, when the code may have been another than at their start."""
    return "start" in record.get("provenance", {})


def _stamps(provenance: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [provenance["start"], provenance["end"]] if "start" in provenance else [provenance]


def unfinished(results: Mapping[str, Results]) -> Part:
    """What the tables still miss, what fills it, and how long that takes."""
    lines = []
    for name, of_study in results.items():
        missing = of_study.missing()
        columns = Counter(cell.column for cell in missing)
        where = ", ".join(f"{column} {number}" for column, number in columns.items())
        if missing:
            known = [(cell, record["seconds"]) for cell in of_study.plan if (record := of_study.of(cell))]
            lines.append(
                f"`python -m experiments {name} --scale {of_study.scale}`: {estimate(missing, 1, known)}. "
                f"Of {len(of_study.plan)}: {where}."
            )
    text = "Planned runs without a record, by column: an empty cell above waits for machine time, not for code."
    return [Heading("What is not run yet", level=1), Text(text), Bullets(lines)] if lines else []


def statement(results: Mapping[str, Results]) -> Part:
    """How many of each study's records are not clean."""
    records = {name: found for name, of_study in results.items() if (found := of_study.records())}
    unclean = [f"{name} {sum(not is_clean(r) for r in found)} of {len(found)}" for name, found in records.items()]
    old = sum(not knows_its_start(record) for found in records.values() for record in found)
    text = (
        "A record is clean when it names the commit whose code made it: nothing uncommitted when the run started, "
        f"nothing when it ended, and the same code all the way. Not clean: {', '.join(unclean)}."
    )
    if old:
        text += f" {old} of the records are from before the start was looked at: for them only the end is known."
    return [Heading("Which code", level=1), Text(text)]
