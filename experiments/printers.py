"""Blocks as Markdown, tables as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.blocks import Block, Bullets, Figure, Heading, Part, Table, Text

_LATEX = {"%": r"\%", "_": r"\_", "&": r"\&", "±": r"$\pm$", "–": "--", "·": r"$\cdot$", "→": r"$\to$", "#": r"\#"}


def markdown(parts: Sequence[Part]) -> str:
    """A blank line between blocks, two between parts; empty parts leave no trace."""
    return "\n\n\n".join("\n\n".join(map(_markdown, part)) for part in parts if part) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Text(text):
            return text
        case Bullets(lines):
            return "\n".join(f"- {line}" for line in lines)
        case Table(header, rows):
            lines = [header, ["---"] * len(header), *rows]
            return "\n".join("| " + " | ".join(line) + " |" for line in lines)
        case Figure():
            return f"![{block.alt}]({block.file})"


def latex(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(_escape, cells)) + r" \\"

    body = "\n".join(map(line, table.rows))
    return (
        f"\\begin{{table}}\n\\caption{{{_escape(table.caption)}}}\n"
        f"\\begin{{tabular}}{{{'l' * len(table.header)}}}\n\\hline\n"
        f"{line(table.header)}\n\\hline\n{body}\n\\hline\n\\end{{tabular}}\n\\end{{table}}\n"
    )


def _escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text.replace("`", "").replace("**", ""))
