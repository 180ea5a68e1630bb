"""What an option may be, said once, where the option is declared:

    @ranged
    def __init__(self, eps: NotNegative = 0.5): ...

`ranged` refuses other values whoever calls; the engine refuses them before it builds anything; docs/CONFIG.md and
`python train.py --help` print them. A function without such annotations needs nothing of this file.
"""

import math
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from inspect import isclass, signature
from numbers import Integral, Real
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_args, get_origin

P = ParamSpec("P")
R = TypeVar("R")


class Constraint:
    """Of a value that has the right type already; as a text, what may follow "a number" or "a list"."""

    def allows(self, value: Any) -> bool:
        raise NotImplementedError


@dataclass(frozen=True)
class Range(Constraint):
    """Finite numbers between two ends."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def allows(self, value: Any) -> bool:
        return (
            is_finite(value)
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        low = self.above if self.at_least is None else self.at_least
        high = self.below if self.at_most is None else self.at_most
        if low is None or high is None:
            ends = {">=": self.at_least, ">": self.above, "<=": self.at_most, "<": self.below}
            return (
                "".join(f"{sign} {_number(end)}" for sign, end in ends.items() if end is not None) or "that is finite"
            )
        left, right = "(" if self.at_least is None else "[", ")" if self.at_most is None else "]"
        return f"in {left}{_number(low)}, {_number(high)}{right}"


@dataclass(frozen=True)
class OneOf(Constraint):
    """One of these names; for a closed set that no other code asks for, typing.Literal does as well."""

    names: tuple[str, ...]

    def allows(self, value: Any) -> bool:
        return value in self.names


class NotEmpty(Constraint):
    def allows(self, value: Any) -> bool:
        return len(value) > 0

    def __str__(self) -> str:
        return "(at least one)"


class Printable(Constraint):
    def allows(self, value: Any) -> bool:
        return value.isprintable() and bool(value.strip())

    def __str__(self) -> str:
        return "of printable characters"


@dataclass(frozen=True)
class When:
    """Not a constraint on a value: the option has an effect only where another one is set so.

    values      of the other option; none: anything but null, zero, false and empty
    """

    option: str
    values: tuple[Any, ...] = ()

    def holds(self, options: dict[str, Any]) -> bool:
        value = options.get(self.option)
        return value in self.values if self.values else bool(value)

    def __str__(self) -> str:
        return f"{self.option}={' or '.join(map(str, self.values))}" if self.values else f"a {self.option}"


LIMIT = 2**31  # of whole numbers: beyond it no size is meant, and below it no counter of torch overflows

Finite = Annotated[float, Range()]
Positive = Annotated[float, Range(above=0)]
NotNegative = Annotated[float, Range(at_least=0)]
Share = Annotated[float, Range(at_least=0, at_most=1)]
ShareBelow1 = Annotated[float, Range(at_least=0, below=1)]
ShareAbove0 = Annotated[float, Range(above=0, at_most=1)]
ShareWithin = Annotated[float, Range(above=0, below=1)]
Count = Annotated[int, Range(at_least=1, below=LIMIT)]
CountOr0 = Annotated[int, Range(at_least=0, below=LIMIT)]
Counts = Annotated[Sequence[Count], NotEmpty()]
Several = Annotated[int, Range(at_least=2, below=LIMIT)]
Key = Annotated[int, Range(at_least=0, below=2**63)]  # of random draws
Text = Annotated[str, Printable()]


def ranged(function: Callable[P, R]) -> Callable[P, R]:
    """The function, refusing arguments that are not what their annotations say."""

    @cache  # at the first call: annotations may name what is defined further down
    def declared() -> dict[str, Any]:
        return {name: hint for name, hint in hints_of(function).items() if is_declared(hint)}

    parameters = signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in parameters.bind(*args, **kwargs).arguments.items():
            if name in declared() and not fits(value, declared()[name]):
                raise ValueError(refusal(name, value, declared()[name]))
        return function(*args, **kwargs)

    return checked


def refusal(name: str, value: Any, hint: Any) -> str:
    given = repr(value)
    return f"{name} must be {described(hint)}, given {given if len(given) < 100 else given[:90] + '...'}"


@cache
def hints_of(target: Any) -> dict[str, Any]:
    """Annotations by name, of a function or of a class's constructor or, for a dataclass, of its fields."""
    if isclass(target) and not hasattr(target, "__dataclass_fields__"):
        target = target.__init__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError):
        return {}  # of foreign classes: what does not resolve is not checked


def is_declared(hint: Any) -> bool:
    """Whether a hint says more than a type."""
    if get_origin(hint) is Literal or get_origin(hint) is Annotated:
        return True
    return any(is_declared(part) for part in get_args(hint))


def fits(value: Any, hint: Any) -> bool:
    """Whether a value can serve where `hint` is asked for."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        base, *notes = args
        if base is Any:  # a union that OmegaConf has no word for
            return fits(value, notes[0])
        return fits(value, base) and all(note.allows(value) for note in notes if isinstance(note, Constraint))
    if origin is Literal:
        return any(type(value) is type(name) and value == name for name in args)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, option) for option in args)
    if origin in (tuple, list, Sequence):
        return isinstance(value, list | tuple) and _items_fit(value, args, fixed=origin is tuple)
    if origin is dict:
        return isinstance(value, dict)
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, Real) and not isinstance(value, bool) and is_finite(value)
    # A tensor, a module: nothing that YAML can say. Hints that are no classes (a type variable) accept anything.
    return isinstance(value, hint) if isclass(hint) else origin is None


def is_finite(number: Real | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number of more than 300 digits
        return False


def _items_fit(values: Sequence[Any], hints: tuple[Any, ...], fixed: bool) -> bool:
    if not fixed or Ellipsis in hints:
        return all(fits(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(fits, values, hints))


NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}


def described(hint: Any) -> str:
    """What a configuration can say there, in words: "a number > 0, or null"."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(*args)
    if origin is Literal:
        return _written(args[0]) if len(args) == 1 else f"one of {', '.join(map(_written, args))}"
    if origin in (typing.Union, types.UnionType):
        return ", or ".join(text for text in map(described, args) if text)
    if origin is tuple and Ellipsis not in args:
        return f"a list of {len(args)}: {', '.join(map(described, args))}"
    if origin in (tuple, list, Sequence):
        return f"a list of {_plural(described(args[0]))}"
    return NAMES.get(hint, "")


def _annotated(base: Any, *notes: Any) -> str:
    if base is Any:
        return described(notes[0])
    names = [note for note in notes if isinstance(note, OneOf)]
    text = f"one of {', '.join(names[0].names)}" if names else described(base)
    others = [str(note) for note in notes if isinstance(note, Constraint) and note not in names]
    return " ".join(filter(None, [text, *others]))


def _plural(item: str) -> str:
    for one, many in (("a whole number", "whole numbers"), ("a number", "numbers"), ("a text", "texts")):
        if item.startswith(one):
            return many + item.removeprefix(one)
    return item


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(end: float) -> str:
    power = math.log2(end) if end >= LIMIT else 0.5
    return f"2^{power:.0f}" if power.is_integer() else f"{end:g}"
