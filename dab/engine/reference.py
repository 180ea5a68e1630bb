"""What can be configured: the files of conf/ and their comments, beside the ranges that the classes declare.

docs/CONFIG.md and `python train.py --help` are made of it.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dab.engine.compose import all_choices, resolve
from dab.engine.config import ClusterSchema, LoggerSchema, PathsSchema, Schema, TrainerSchema
from dab.engine.exits import EXITS
from dab.engine.targets import COMPONENTS, locate, settable
from dab.ranges import When, described, hints_of

SCHEMAS: dict[str, type] = {
    "": Schema,
    "paths": PathsSchema,
    "trainer": TrainerSchema,
    "logger": LoggerSchema,
    "cluster": ClusterSchema,
}
LINE = re.compile(r"( *)(\w+):(?: +(.*?))??(?: +#+ (.*))?$")  # indentation, key, value, comment
PAGE = """\
# Configuration

Every group, file and key of `conf/`, with its default and what it may be. Made by `make config-reference` from the YAML
files, their comments and the annotations of the classes they name; a value out of its range is refused in one line
before anything is built. `python train.py --help` prints the same for one command line.

A whole number in [1, 2^31) is at least 1 and less than 2^31; `null` is nothing; all numbers are finite."""


class Option(NamedTuple):
    key: str
    default: str
    allowed: str
    note: str


class Written(NamedTuple):
    """A key as a YAML file has it."""

    value: str
    comment: str


def page(conf: Path) -> str:
    """docs/CONFIG.md"""
    parts = [PAGE, exits(), "## Beside the groups", table(plain_options(conf))]
    for folder in sorted(path for path in conf.iterdir() if path.is_dir() and path.name != "hydra"):
        parts += [f"## {folder.name}", *group(folder)]
    return "\n\n".join(parts) + "\n"


def exits() -> str:
    rows = "\n".join(f"| {code}{'+' * (code == max(EXITS))} | {what} |" for code, what in EXITS.items())
    return f"## Exit codes\n\n| code | |\n| ---: | --- |\n{rows}"


def plain_options(conf: Path) -> list[Option]:
    """The keys of config.yaml itself."""
    written = keys_of(conf / "config.yaml")
    found = []
    for part in ("", "paths"):
        for name, hint in hints_of(SCHEMAS[part]).items():
            key = f"{part}.{name}".lstrip(".")
            if key in written and described(hint):
                found.append(option(key, hint, written[key]))
    return found


def group(folder: Path) -> Iterator[str]:
    files = sorted(path for path in folder.rglob("*.yaml") if not path.name.startswith("_"))
    if folder.name not in (*COMPONENTS, *SCHEMAS):  # files that set keys of other groups
        rows = [f"| `{path.relative_to(folder).with_suffix('')}` | {cell(said(path))} |" for path in files]
        yield "\n".join([f"| `{folder.name}=` | |", "| --- | --- |", *rows])
        return
    for path in files:
        yield "\n\n".join(filter(None, [f"### {folder.name}={path.stem}", said(path), table(file_options(path))]))


def file_options(path: Path) -> list[Option]:
    """All that can be set with this file chosen; where it only changes another file, what it changes."""
    written, (hints, defaults) = keys_of(path), declared(path)
    part = path.parent.name
    rows = [option(f"{part}.{key}", hints[key], written[key]) for key in hints if key in written]
    unwritten = [] if "defaults" in written else [key for key in defaults if key not in written]
    return rows + [option(f"+{part}.{key}", hints[key], Written(shown(defaults[key]), "")) for key in unwritten]


def declared(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Hints and defaults, by key, of the class that a file or the file it starts from names."""
    name, written = path.parent.name, keys_of(path)
    if name in SCHEMAS:
        return hints_of(SCHEMAS[name]), {}
    if "_target_" not in written:
        return declared(path.with_name(f"{written['defaults'].value.strip('[]')}.yaml"))
    node = {"_target_": written["_target_"].value}
    parameters = inspect.signature(locate(name, node)).parameters
    hints = {key: hint for key, hint in settable(name, node).items() if described(hint)}
    known = {key: parameters[key].default for key in hints}
    return hints, {} if name == "optimizer" else {k: v for k, v in known.items() if v is not inspect.Parameter.empty}


def option(key: str, hint: Any, written: Written) -> Option:
    needs = [f"with {note}" for note in getattr(hint, "__metadata__", ()) if isinstance(note, When)]
    return Option(key, written.value, described(hint), "; ".join(filter(None, [written.comment, *needs])))


def keys_of(path: Path) -> dict[str, Written]:
    """By dotted key, in their order."""
    found: dict[str, Written] = {}
    above: list[tuple[int, str]] = []
    for line in path.read_text().splitlines():
        if match := LINE.match(line):
            indent, key, value, comment = match.groups(default="")
            above = [(width, name) for width, name in above if width < len(indent)]
            found[".".join([*(name for _, name in above), key])] = Written(value, comment)
            above.append((len(indent), key))
    return found


def said(path: Path) -> str:
    """The comment that a file opens with, and what it starts from."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    text = " ".join(line for line in lines if not line.startswith("@package"))
    written = keys_of(path)
    base = written["defaults"].value.strip("[]") if "defaults" in written else ""
    changed = ", but for what follows" if len(written) > 1 else ""
    return " ".join(filter(None, [text, f"As `{base}`{changed}." * bool(base)]))


def table(options: Sequence[Option]) -> str:
    if not options:
        return ""
    rows = [f"| `{o.key}` | `{o.default}` | {cell(o.allowed)} | {cell(o.note)} |".replace(" `` ", " ") for o in options]
    return "\n".join(["| key | default | may be | |", "| --- | --- | --- | --- |", *rows])


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def shown(value: Any) -> str:
    """As YAML would have it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def help_text(conf: Path, overrides: Sequence[str]) -> str:
    """The answer to --help: what this command line would use, and what else it could say."""
    config, choices = resolve(conf, overrides), all_choices(conf)
    lines = ["python train.py [KEY=VALUE ...] [-m]", "  -m: one run for every combination of KEY=VALUE,VALUE,...", ""]
    lines += [
        "GROUP=NAME:",
        *(f"  {name}: {', '.join(names)}" for name, names in choices.items()),
        "",
    ]
    lines += ["Keys as this command line sets them, and what they may be (docs/CONFIG.md says", "what they mean):"]
    lines += [f"  {f'{key}={shown(value)}':<38} {described(hint)}" for key, value, hint in in_use(config)]
    lines += ["", "Exit codes:", *(f"  {code:<4} {what}" for code, what in EXITS.items())]
    return "\n".join(line if len(line) <= 80 else wrap(line) for line in lines)


def wrap(line: str) -> str:
    return textwrap.fill(line, 80, subsequent_indent="      ", replace_whitespace=False, break_on_hyphens=False)


def in_use(config: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Key, value and hint of everything a config sets."""
    for part, schema in SCHEMAS.items():
        if part == "cluster":
            continue  # of a sweep, not of a run
        values = config[part] if part else config
        for name, hint in hints_of(schema).items():
            if described(hint) and name != "label":
                yield f"{part}.{name}".lstrip("."), values[name], hint
    for part in COMPONENTS:
        hints = settable(part, config[part])
        yield from (
            (f"{part}.{name}", value, hints[name]) for name, value in config[part].items() if name != "_target_"
        )
