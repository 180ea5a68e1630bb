"""Every option that a configuration can set, by its declaration; and values that it must refuse, drawn from that."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from hypothesis import strategies as st
from omegaconf import OmegaConf

from dab.engine.config import LoggerSchema, PathsSchema, Schema, TrainerSchema
from dab.engine.targets import COMPONENTS, settable
from dab.ranges import Constraint, NotEmpty, OneOf, Printable, Range, Text, hints_of

CONF = Path(__file__).resolve().parents[1] / "conf"


class Declared(NamedTuple):
    part: str  # "" for keys beside the groups
    option: str
    hint: Any
    node: dict[str, Any] | None = None  # of the component

    @property
    def key(self) -> str:
        return f"{self.part}.{self.option}".lstrip(".")


def declared() -> Iterator[Declared]:
    for part, schema in {"": Schema, "paths": PathsSchema, "trainer": TrainerSchema, "logger": LoggerSchema}.items():
        for option, hint in hints_of(schema).items():
            if not (part == "" and (option in (*COMPONENTS, "label", "budget", *schema_groups()))):
                yield Declared(part, option, hint)
    for part in COMPONENTS:
        for path in sorted((CONF / part).glob("*.yaml")):
            node = OmegaConf.to_container(OmegaConf.load(path))
            if "_target_" in node:
                node = {"_target_": node["_target_"]} | {k: v for k, v in node.items() if not is_interpolated(v)}
                for option, hint in settable(part, node).items():
                    yield Declared(part, option, hint, node)


def schema_groups() -> tuple[str, ...]:
    return "paths", "trainer", "logger"


def is_interpolated(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


BOOLS, NOTHING = st.booleans(), st.none()
ODD = st.sampled_from([math.nan, math.inf, -math.inf, 10**400, -(10**400)])
HOSTILE = ["nope", "", " ", "1e3", "true", "null", "../..", "${nope}", "\x00", "a\nb"]
WORDS = st.text(max_size=20) | st.sampled_from(HOSTILE)
NESTED = st.recursive(st.none() | BOOLS | st.integers() | WORDS, lambda item: st.lists(item), max_leaves=5)
GROUPS = st.dictionaries(st.text("abc", min_size=1), NESTED, max_size=2)
SHAPES = GROUPS | st.lists(st.lists(NESTED, min_size=1), min_size=1)


def bad(hint: Any) -> st.SearchStrategy[Any]:
    """Values that this hint does not allow: built against it, not filtered by what is tested."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated and args[0] is Any:
        return bad(args[1])
    if origin is Annotated:
        notes = [note for note in args[1:] if isinstance(note, Constraint)]
        wrong_type = _unnamed(notes) if _names(notes) else bad(args[0])
        return st.one_of(wrong_type, *(_outside(note, args[0]) for note in notes))
    if origin is Literal:
        return WORDS.filter(lambda w: w not in args) | SHAPES | ODD | st.floats(2, 3)
    if origin in (typing.Union, types.UnionType):
        said = [arm for arm in args if arm is not type(None) and says(arm)]
        return st.one_of(*map(bad, said)).filter(lambda v: not any(_belongs(v, arm) for arm in args))
    if origin in (tuple, list, Sequence):
        return _bad_list(args, fixed=origin is tuple and Ellipsis not in args)
    if hint is int:
        return NOTHING | BOOLS | ODD.filter(lambda v: isinstance(v, float)) | WORDS | SHAPES | st.floats(0.1, 0.9)
    if hint is float:
        return NOTHING | BOOLS | ODD | WORDS | SHAPES
    if hint is bool:
        return NOTHING | st.integers(2) | st.floats(0.1, 0.9) | WORDS | SHAPES
    return NOTHING | BOOLS | st.integers() | SHAPES  # a text


def says(hint: Any) -> bool:
    """Whether YAML can say anything of it: not of modules and tensors."""
    return get_origin(hint) is not None or hint in (int, float, bool, str)


def _names(notes: list[Constraint]) -> list[OneOf]:
    return [note for note in notes if isinstance(note, OneOf)]


def _unnamed(notes: list[Constraint]) -> st.SearchStrategy[Any]:
    return WORDS.filter(lambda w: w not in _names(notes)[0].names) | NOTHING | SHAPES | st.integers()


def _outside(note: Constraint, base: Any) -> st.SearchStrategy[Any]:
    match note:
        case NotEmpty():
            return st.just([])
        case Printable():
            return st.sampled_from(["", " ", "\n", "a\x00b", "a\nb"])
        case Range():
            return _beyond(note, base)
        case OneOf():
            return st.nothing()
    return st.sampled_from(["", ".", "..", "/tmp/x", "a/../b", "a//b", "a b", "a\nb", "~", "x" * 101, ".hidden"])


def _beyond(note: Range, base: Any) -> st.SearchStrategy[Any]:
    whole = base is int
    low = note.at_least if note.at_least is not None else note.above
    high = note.at_most if note.at_most is not None else note.below
    drawn: list[st.SearchStrategy[Any]] = []
    if low is not None:
        below = st.integers(max_value=int(low) - 1) if whole else st.floats(max_value=low, exclude_max=True)
        drawn += [below] + ([st.just(low)] if note.above is not None else [])
    if high is not None:
        above = st.integers(min_value=int(high) + 1) if whole else st.floats(min_value=high, exclude_min=True)
        drawn += [above] + ([st.just(int(high) if whole else high)] if note.below is not None else [])
    return st.one_of(*drawn)


def _bad_list(args: tuple[Any, ...], fixed: bool) -> st.SearchStrategy[Any]:
    item = bad(args[0]).filter(lambda v: not is_interpolated(v))
    one_bad = st.lists(item, min_size=len(args) if fixed else 1, max_size=len(args) if fixed else 3)
    wrong_length = st.lists(st.just(0.5), max_size=len(args) - 1) if fixed else st.nothing()
    return one_bad | wrong_length | NOTHING | st.integers() | WORDS | GROUPS


def _belongs(value: Any, arm: Any) -> bool:
    """To another arm of a union after all."""
    if arm is type(None):
        return value is None
    if arm == Text:
        return isinstance(value, str) and value.isprintable() and bool(value.strip())
    return get_origin(arm) is Literal and value in get_args(arm)
