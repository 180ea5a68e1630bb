"""Rows of text as Markdown and as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

_LATEX = {"%": r"\%", "_": r"\_", "&": r"\&", "±": r"$\pm$", "–": "--", "·": r"$\cdot$", "→": r"$\to$", "#": r"\#"}


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def latex(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(_escape, cells)) + r" \\"

    body = "\n".join(map(line, rows))
    return (
        f"\\begin{{table}}\n\\caption{{{_escape(caption)}}}\n\\begin{{tabular}}{{{'l' * len(header)}}}\n\\hline\n"
        f"{line(header)}\n\\hline\n{body}\n\\hline\n\\end{{tabular}}\n\\end{{table}}\n"
    )


def _escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text.replace("`", "").replace("**", ""))


def human(count: float) -> str:
    """1_280_000 → 1.28 M"""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g}"


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
