"""`dab-advise my_module:my_function --shape 64`: which gradient to train through your function with.

Probes the function, tries every estimator that fits on a short task in its shape, and prints which one to take, why,
and the code that uses it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from dab.advise.advice import Advice, advise, trainings
from dab.advise.function import FunctionError, Named, named
from dab.advise.traits import Traits, traits_of

WRONG = 2  # the exit code of wrong input


def main(arguments: list[str] | None = None) -> int:
    given = parse(arguments)
    torch.set_num_threads(1)  # small layers: a second thread costs more than it brings
    start = time.monotonic()
    try:
        function = named(given.function, given.shape, given.scale)
        traits = traits_of(function.hard, given.shape, given.scale)
    except FunctionError as error:
        print(error, file=sys.stderr)
        return WRONG
    left = max(given.seconds - (time.monotonic() - start), 1.0)
    with progress(trainings(function.hard, traits)) as tell:
        advice = advise(function.hard, traits, left, given.scale, tell)
    code = snippet(function, advice)
    print(json.dumps({**advice.as_dict(), "code": code}, indent=2) if given.json else page(function, advice, code))
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dab-advise", description=__doc__.splitlines()[0])
    parser.add_argument("function", help="module:function, torch or numpy, a batch [B, ...] → [B, ...]")
    parser.add_argument("--shape", type=shape, required=True, help="of one sample, e.g. 64 or 3x8x8")
    parser.add_argument("--seconds", type=positive, default=60.0, help="how long to try (default 60)")
    parser.add_argument("--scale", type=positive, default=1.0, help="how large its inputs are (default 1)")
    parser.add_argument("--json", action="store_true", help="for programs: everything on stdout as JSON")
    return parser.parse_args(arguments)


def shape(text: str) -> tuple[int, ...]:
    sizes = text.replace(",", "x").split("x")
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"must be sizes of at least 1, like 64 or 3x8x8, given {text!r}")
    return tuple(map(int, sizes))


def positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, given {text!r}")
    return number


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal, nothing elsewhere or without rich; on stderr, because stdout is for the answer."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("trying", total=total)
        yield lambda text: bar.update(task, advance=1, description=text or "trying")


def page(function: Named, advice: Advice, code: str) -> str:
    parts = [described(function, advice.traits), table(advice), *notes(advice), advice.sentences(), code]
    return "\n\n".join(parts)


def described(function: Named, traits: Traits) -> str:
    """What was found out, in a paragraph."""
    gradient = {"none": "nothing", "zero": "a gradient of zero", "some": "a gradient"}[traits.gradient]
    words = [
        "keeps the shape" if traits.keeps_shape else "changes the shape",
        "deterministic" if traits.deterministic else "draws its output",
        f"{traits.pieces} pieces ({100 * traits.flat:.0f} % of the outputs do not move with a small step)",
        "rises or falls throughout" if traits.monotone else "rises and falls",
        "bounded" if traits.bounded else "not bounded",
        f"autograd finds {gradient}",
        f"outputs of size {traits.size:.3g}",
        f"{1e6 * traits.seconds:.3g} µs a sample",
        f"a dense net explains {100 * traits.explained:.0f} % of it",
    ]
    before, after = (list(s) for s in (traits.in_shape, traits.out_shape))
    return f"{function.name}: {before} → {after}\n  " + "\n  ".join(words)


def table(advice: Advice) -> str:
    rows = [("estimator", "score", "spread", "calls", "seconds")]
    for one in advice.tried:
        spread = f"{one.spread:.2f}" if math.isfinite(one.spread) else "–"
        rows.append((one.candidate.name, f"{one.score:.2f}", spread, f"{one.calls:.0f}", f"{one.seconds:.1f}"))
    width = max(len(row[0]) for row in rows)
    lines = [f"  {name:{width}}" + "".join(f"{cell:>9}" for cell in cells) for name, *cells in rows]
    seeds = max(len(one.scores) for one in advice.tried)
    of = f"{advice.steps} steps of 128, {seeds} seed{'s' * (seeds > 1)}"
    meaning = f"  score: 0 an encoder that never learned, 1 the teacher ({of}); calls: for a sample and step"
    return "\n".join([*lines, meaning])


def notes(advice: Advice) -> list[str]:
    """Who was not tried."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in advice.unfit.items():
        by_reason.setdefault(reason, []).append(name)
    lines = [f"  not tried ({reason}): {'; '.join(names)}" for reason, names in by_reason.items()]
    if advice.left_out:
        lines.append(f"  left out, too slow for the time: {'; '.join(advice.left_out)} (more with --seconds)")
    return ["\n".join(lines)] if lines else []


def snippet(function: Named, advice: Advice) -> str:
    """Ten lines that run as they are, from the folder this command ran in."""
    in_shape, taken = advice.traits.in_shape, advice.taken.candidate
    setting = taken.settings[0]
    units = math.prod(in_shape)
    unflatten = "" if len(in_shape) == 1 else f", torch.nn.Unflatten(1, {in_shape})"
    after = list(advice.traits.out_shape)
    return f"""\
import torch
import dab
{function.imports}

{function.code}  # [B, {", ".join(map(str, in_shape))}] → [{", ".join(map(str, ("B", *after)))}]
layer = {taken.code(in_shape, setting)}
encoder = torch.nn.Sequential(torch.nn.Linear(8, {units}){unflatten})  # your network before the function
optimizer = torch.optim.Adam([*encoder.parameters(), *layer.parameters()], lr={setting.rate:g})
y, penalty = layer(encoder(torch.randn(128, 8)))  # y is the function's own output in training and in evaluation
loss = y.square().mean() + penalty.mean()  # your loss of y, and what the layer asks for
optimizer.zero_grad(), loss.backward(), optimizer.step()"""


if __name__ == "__main__":
    sys.exit(main())
