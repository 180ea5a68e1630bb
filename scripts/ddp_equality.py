"""One worker with batch B against two with B/2: how far their losses and metrics part, for every task.

python scripts/ddp_equality.py [--only WORD] [--write]

Both see the same batches. Noise is what a run keys by rank, so that here, and only here, two workers draw that of one:
each draws the global batch's and keeps its rows. What is left is the order in which floats are added.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dab.engine import finish, loop
from dab.engine.compose import resolve
from dab.engine.distributed import Workers, join_workers, leave_workers
from dab.engine.launch import work
from dab.engine.records import read_metrics
from dab.engine.run import Run
from dab.keys import key

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/SCALING.md"
START, END = "<!-- equality, generated -->", "<!-- end of equality -->"
BATCH, STEPS, WORLD = 24, 8, 2
COMMON = f"scale=smoke logger=none trainer.threads=1 trainer.batch_size={BATCH} trainer.steps={STEPS}"
COMMON += " trainer.log_every=1 trainer.eval_every=4 trainer.eval_batch_size=50"
SORTING = "data.length=4 data.valid_size=301 data.test_size=151 model.widths=[16,16]"
DENSITY = "model.latents=10 model.encoder=[16] model.decoder=[16] task.iwae_samples=[2] task.variance_draws=2"
# Not Adam: it moves a bias before a batch norm, whose gradient is rounding alone, as far as any other weight.
IMAGES = "experiment=representation/fashion_mnist model.bpp=0.5 optimizer=sgd optimizer.lr=1e-4"
RESNET = "experiment=classification/cifar10"
CASES = {
    "sorting, bridge": SORTING,
    "sorting, bridge, clipped, in two parts": f"{SORTING} trainer.clip_norm=1 trainer.accumulate=2",
    "sorting, pointer network": "experiment=sorting/pointer_network data.length=4 data.valid_size=31 data.test_size=31",
    "density, bridge": f"experiment=binarized/bridge_dense {DENSITY}",
    "density, REBAR, two layers": f"experiment=binarized/rebar {DENSITY} model.layers=2",
    "density, RELAX": f"experiment=binarized/relax {DENSITY} data.dynamic=true",
    "representation, bridge, batch norm": IMAGES,
    "representation, fitted bridge": f"{IMAGES} estimator=fitted",
    "representation, codebook": f"{IMAGES} hard=nearest estimator=vector_quantization hard.words=8",
    "representation, Gumbel": f"{IMAGES} hard=bernoulli estimator=gumbel",
    "classification, Resnet18, bridge": f"{RESNET} hard=sort",
    "classification, Resnet18, no gradient": f"{RESNET} hard=sort estimator=detached",
    "classification, dense, cutout, mixup": "experiment=classification/dense data.cutout=2 data.mixup=0.4",
}
# What is measured without a draw, where evaluation draws as well; elsewhere all metrics are compared.
DRAWLESS = {
    "density, bridge": ("kl", "active_units"),
    "density, RELAX": ("kl", "active_units"),
    "density, REBAR, two layers": ("active_units",),
    "representation, Gumbel": ("probe_before", "nominal_bits"),
}
DRAWS = {torch.rand: torch.rand, torch.rand_like: torch.rand, torch.randn: torch.randn, torch.randn_like: torch.randn}


class SharedNoise(TorchFunctionMode):
    """Where random numbers are drawn for this worker's rows, those of all rows are drawn, and its own kept."""

    def __init__(self, rank: int, world: int):
        super().__init__()
        self.rank, self.world, self.rows = rank, world, BATCH // world

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function not in DRAWS or "generator" in kwargs or self.rows not in (shape := _shape(args)):
            return function(*args, **kwargs)
        place = shape.index(self.rows)
        whole = [n * self.world if i == place else n for i, n in enumerate(shape)]
        dtype = kwargs.get("dtype") or (args[0].dtype if isinstance(args[0], Tensor) else None)
        drawn = DRAWS[function](whole, dtype=dtype)
        return drawn.index_select(place, torch.arange(self.rank, self.rows * self.world, self.world))


def _shape(args: tuple[Any, ...]) -> list[int]:
    """What torch.rand(2, 3), torch.rand([2, 3]) and torch.rand_like(x) are asked for."""
    first = args[0]
    return list(first.shape if isinstance(first, Tensor) else first if isinstance(first, Sequence) else args)


def config(case: str, folder: Path, world: int) -> dict[str, Any]:
    words = [*COMMON.split(), *CASES[case].split(), f"paths.runs={folder}/{world}", f"trainer.devices={world}"]
    return resolve(ROOT / "conf", words)


def train(cases: Sequence[str], folder: Path, workers: Workers) -> None:
    """Every case, one after another, with the noise of one worker."""
    kept = loop.key, finish.draw_curves
    loop.key = lambda *parts: key(*parts[:-1], 0)  # type: ignore[assignment]  # the last part is the rank
    finish.draw_curves = lambda rows, select, path: path  # type: ignore[assignment]  # takes longer than the training
    try:
        for case in cases:
            with SharedNoise(workers.rank, workers.world), contextlib.redirect_stdout(io.StringIO()):
                code = work(workers, config(case, folder, workers.world))
            assert code == 0, f"{case} ends with {code}"
    finally:
        loop.key, finish.draw_curves = kept


def worker(rank: int, cases: Sequence[str], folder: Path) -> None:
    train(cases, folder, join_workers("cpu", rank, WORLD, rank, f"file://{folder}/rendezvous"))
    leave_workers(0)


def compare(case: str, folder: Path) -> dict[str, float]:
    """The largest relative difference of the losses of all steps, and of what is measured at the end."""
    one, two = (Run(config(case, folder, world)) for world in (1, WORLD))
    rows = [[row for row in read_metrics(run.dir / "metrics.jsonl") if "train/loss" in row] for run in (one, two)]
    losses = [(a["train/loss"], b["train/loss"]) for a, b in zip(*rows)]
    assert len(losses) == STEPS and one.result and two.result
    names = [name for name in one.result["metrics"] if name.endswith(DRAWLESS.get(case, ""))]
    metrics = [(one.result["metrics"][name], two.result["metrics"][name]) for name in names]
    return {"losses": _largest(losses), "metrics": _largest(metrics)}


def _largest(pairs: Sequence[tuple[float, float]]) -> float:
    return max(abs(a - b) / max(abs(a), 1e-3) for a, b in pairs)


def table(found: dict[str, dict[str, float]]) -> str:
    head = "| task | losses of 8 steps | metrics at the end |\n| --- | --- | --- |\n"
    return head + "".join(f"| {case} | {f['losses']:.0e} | {f['metrics']:.0e} |\n" for case, f in found.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--write", action="store_true", help="the table into docs/SCALING.md")
    options = parser.parse_args()
    cases = [case for case in CASES if options.only in case]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mp.spawn(worker, (cases, folder), WORLD)
        train(cases, folder, Workers())
        found = table({case: compare(case, folder) for case in cases})
    print(found)
    if options.write:
        before, _, rest = PAGE.read_text().partition(START)
        PAGE.write_text(f"{before}{START}\n\n{found}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
