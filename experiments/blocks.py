"""What a page is made of. `printers` turn it into Markdown and LaTeX; nothing here knows how.

A section is a list of parts, a part a list of blocks that belong together: a heading, its sentences, its table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.results import Place


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph; `code`, *emphasis* and **strong** as in Markdown, here and in the other blocks."""

    text: str


@dataclass(frozen=True)
class Bullets:
    lines: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows of text. With a `file`, a name without ending, it is printed into a file of its own as well.

    `evidence` has the places that each row is made from, where it says something of places.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    file: str = ""
    evidence: Sequence[Sequence[Place]] = ()


@dataclass(frozen=True)
class Figure(ABC):
    """A picture that knows how to draw itself; its fields say all that it shows, `evidence` what it is made from."""

    name: str
    alt: str
    evidence: Sequence[Place] = field(default=(), repr=False, compare=False, kw_only=True)

    @property
    def file(self) -> str:
        """Where it is, seen from the page."""
        return f"figures/{self.name}.png"

    @property
    @abstractmethod
    def drawn_by(self) -> tuple[Path, ...]:
        """The files whose code draws it: a change there draws it anew."""

    @abstractmethod
    def draw(self, path: Path) -> None: ...


Block = Heading | Text | Bullets | Table | Figure
Part = list[Block]


def part(*blocks: Block) -> Part:
    """Blocks that stand or fall together: nothing when a table or a list among them has no rows."""
    empty = [b for b in blocks if (isinstance(b, Table) and not b.rows) or (isinstance(b, Bullets) and not b.lines)]
    return [] if empty else list(blocks)
