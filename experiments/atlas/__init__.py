"""The atlas: which gradient for which function.

plan.py         functions with their traits, rows, budgets, cells
functions.py    the functions themselves
tasks.py        recover, use, match and the yardstick
work.py         from a cell to its record
scores.py       records as numbers between 0 and 1; who is first where
guide.py        the sentences, each with the cells that support it
page.py         the section of the results page
heat_map.py     the figure
solvers.py      our layers for solvers beside PyEPO's
"""

from __future__ import annotations

from experiments.atlas.page import headline, render
from experiments.atlas.plan import cells
from experiments.study import Cell, Record, Study


def work(cell: Cell, scale: str) -> Record:
    from experiments.atlas.work import record  # here: it needs torch, rendering does not

    return record(cell, scale)


STUDY = Study("atlas", cells, render, headline, work)
__all__ = ["STUDY"]
