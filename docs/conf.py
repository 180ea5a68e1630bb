"""Sphinx: these Markdown files and the docstrings as a site. `make docs` builds it, offline; a warning is an error."""

from __future__ import annotations

import re
from typing import Any

import dab

project, author, release = "dab", "the dab developers", dab.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme, html_title = "furo", f"dab {release}"
html_static_path, html_css_files = ["_static"], ["wide.css"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types and ranges of options are written in docstrings, for people
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False  # torch's own of forward
add_module_names = False


def as_they_stand(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are laid out for a terminal, with tables by columns: shown as they are, not as reStructuredText."""
    text = [f"   {line}" for line in lines]
    lines[:] = ["::", "", *text, ""] if any(line.strip() for line in lines) else []


def one_title(app: object, page: str, source: list[str]) -> None:
    """The results have a first heading for each study, and are one entry of the menu."""
    if page == "RESULTS":
        source[0] = "# Results\n\n" + re.sub(r"^(?=#+ )", "#", source[0], flags=re.MULTILINE)


def setup(app: Any) -> None:
    app.connect("source-read", one_title)
    app.connect("autodoc-process-docstring", as_they_stand)
