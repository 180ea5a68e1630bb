"""What the whole campaign at scale=paper costs, and how it would go on 8, 64 and 512 GPUs: arithmetic and simulation.

python scripts/simulate_campaign.py --plan      compose every cell at scale=paper, note its steps and its measured rate
python scripts/simulate_campaign.py             simulate from the noted plan, write the tables into docs/SCALING.md

There is no GPU here. A cell's GPU time is its steps times the larger of two times (`Job.step_seconds`):

    launches    4 ms, what a step of the authors' demo takes on their GPU (251 steps a second), however little it
                computes; for a row that takes longer on a CPU than its study's quickest, as many times longer (a
                recurrent net launches more kernels)
    arithmetic  batch * core-seconds a sample, from the committed records, / 200: 50 GFLOP/s of one core, as measured,
                against 10 TFLOP/s of a GPU

A record's processor seconds are those of its own network; where a network is wider at scale=paper (Resnet18), those of
one of width 16 (RESNET, measured once) times the ratio of multiplications. ImageNet is by the paper's own statement.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.blocks import Part, Table, Text
from experiments.numbers import human
from experiments.printers import markdown
from experiments.report import STUDIES
from experiments.runs import run_of
from experiments.study import COMMITTED, Cell

ROOT = Path(__file__).resolve().parents[1]
PLAN, PAGE = ROOT / "results/scaling/plan.json", ROOT / "docs/SCALING.md"
START, END = "<!-- simulated, generated -->", "<!-- end of simulated -->"

LAUNCHES = 1 / 251  # seconds a step of the demo, T = 10, batch 1024, by the log that the authors published
CORE, GPU = 50e9, 10e12  # FLOP a second: one core on dense layers and convolutions, as measured; a V100 in float32
RESNET = 0.634 / 128 * (64 / 16) ** 2  # core-seconds a sample: width 16, batch 128, measured; times 16 for width 64
IMAGENET = 1.5 * 3600 * 192 / 1_268_000  # seconds a step: an epoch took 1.5 h on 8 V100, says the paper
IMAGENET_GPUS = 8

FAILURES = 1 / (24 * 3600)  # of one GPU's job: pre-empted or broken once a day, more than most clusters do
RESTART = 60.0  # seconds until a lost job computes again: requeued (6 s on a quiet Slurm), imported, compiled
START_UP = 30.0  # seconds of a job before its first step
SIZES, DISPATCH = (8, 64, 512), (0.1, 1.0, 10.0)  # GPUs; seconds a launcher needs to start one job


@dataclass(frozen=True)
class Job:
    """One cell at scale=paper.

    core_seconds    of one sample, on one core
    slower          these over those of its study's quickest row
    """

    study: str
    name: str
    steps: int
    batch: int
    save_every: int
    core_seconds: float
    slower: float
    gpus: int = 1

    @property
    def step_seconds(self) -> float:
        if self.gpus > 1:
            return IMAGENET
        return max(LAUNCHES * self.slower, self.batch * self.core_seconds * CORE / GPU)

    @property
    def seconds(self) -> float:
        return START_UP + self.steps * self.step_seconds

    @property
    def gpu_hours(self) -> float:
        return self.seconds * self.gpus / 3600


# --- the plan: from the studies' own cells and the committed records


def plan() -> list[Job]:
    return [job for study in STUDIES.values() if study.name != "representation/search" for job in jobs_of(study.name)]


def jobs_of(name: str) -> list[Job]:
    study, records = STUDIES[name], COMMITTED.records(STUDIES[name], "cpu")
    cells = study.cells("paper")
    measured: dict[str, list[float]] = defaultdict(list)
    narrower = name.startswith("classification")  # the Resnet18 of its records; its dense nets are the same
    for cell in study.cells("cpu") if cells else ():
        record = None if narrower and not cell.row.startswith("Dense net") else records.of(cell)
        if record is not None and record.get("cpu_seconds") and record["steps"] > 1:
            measured[cell.row].append(record["cpu_seconds"] / record["samples"])
    of_row = {row: fmean(values) for row, values in measured.items()}
    return [_job(name, cell, of_row) for cell in cells]


def _job(study: str, cell: Cell, of_row: dict[str, float]) -> Job:
    trainer = run_of(cell, "paper").config["trainer"]
    resnet = RESNET if study.startswith("classification") else fmean(of_row.values()) if of_row else 1e-3
    core = of_row.get(cell.row, resnet)
    quickest = min(of_row.values()) if cell.row in of_row else core
    sizes = {"steps": trainer["steps"], "batch": trainer["batch_size"], "save_every": trainer["save_every"]}
    gpus = IMAGENET_GPUS if study == "imagenet" else 1
    return Job(study, cell.id, **sizes, core_seconds=float(f"{core:.3g}"), slower=round(core / quickest, 2), gpus=gpus)


def spread() -> list[float]:
    """Measured: how long a run took, over the mean of its place's seeds. Load and all: as on a shared cluster."""
    found = []
    for name, study in STUDIES.items():
        times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        records = COMMITTED.records(study, "cpu")
        for cell in study.cells("cpu") if name in ("sorting", "binarized") else ():
            if (record := records.of(cell)) is not None and record["steps"] > 1:
                times[cell.row, cell.column, cell.variant].append(record["train_seconds"])
        found += [t / fmean(of_place) for of_place in times.values() if len(of_place) > 1 for t in of_place]
    return sorted(round(ratio, 3) for ratio in found)


# --- the simulation


@dataclass
class Outcome:
    makespan: float  # seconds
    lost: float  # GPU-seconds computed again or spent starting again
    useful: float  # GPU-seconds
    failures: int
    idle_for_launcher: float  # GPU-seconds that a free GPU waited for its launcher
    total: float  # GPU-seconds there were


def simulate(jobs: Sequence[Job], gpus: int, dispatch: float, ratios: Sequence[float], seed: int = 0) -> Outcome:
    """Jobs start in order as GPUs become free, one launch after another; what fails goes on from its last checkpoint.

    The head of the queue waits for all of its GPUs. A failed job keeps its place at the head.
    """
    draw = random.Random(seed)
    # What is left of each. Its ratio is its own, whatever the order: then orders can be compared.
    own = {job: random.Random(f"{seed} {job.study} {job.name}").choice(ratios) for job in jobs}
    waiting = [(job, job.seconds * own[job]) for job in reversed(jobs)]
    running: list[tuple[float, int, Job, float, float]] = []  # end, number, job, computed until then, left after it
    free, now, launcher, number = gpus, 0.0, 0.0, 0
    found = Outcome(0.0, 0.0, 0.0, 0, 0.0, 0.0)
    while waiting or running:
        while waiting and waiting[-1][0].gpus <= free:
            job, left = waiting.pop()
            begin = max(now, launcher) + dispatch
            launcher = begin
            found.idle_for_launcher += (begin - now) * job.gpus
            survives = draw.expovariate(FAILURES * job.gpus)
            computed = min(survives, left)
            heapq.heappush(running, (begin + computed, number, job, computed, left - computed))
            free, number = free - job.gpus, number + 1
        now, _, job, computed, left = heapq.heappop(running)
        free += job.gpus
        saved = computed
        if left > 0:
            saved -= min(computed, draw.uniform(0, job.save_every * job.step_seconds))
            found.failures += 1
            found.lost += (computed - saved + RESTART) * job.gpus
            waiting.append((job, left + computed - saved + RESTART))
            saved -= RESTART  # of what is computed next time, so much is starting again
        found.useful += saved * job.gpus
    found.makespan, found.total = now, now * gpus
    return found


def tolerable(jobs: Sequence[Job], gpus: int, ratios: Sequence[float]) -> float:
    """Seconds a launch may take before the campaign takes a tenth longer."""
    at_best, low, high = simulate(jobs, gpus, 0.0, ratios).makespan, 0.0, 1e5
    while high - low > 0.05 * high:
        middle = (low + high) / 2
        fits = simulate(jobs, gpus, middle, ratios).makespan <= 1.1 * at_best
        low, high = (middle, high) if fits else (low, middle)
    return low


# --- what is written about it


def costs(jobs: Iterable[Job]) -> Table:
    rows = []
    of_study = defaultdict(list)
    for job in jobs:
        of_study[job.study].append(job)
    for study, found in of_study.items():
        steps = sorted({job.steps for job in found if job.steps > 1})
        by_launches = fmean(job.step_seconds <= LAUNCHES * job.slower for job in found)
        limit = "the paper's statement" if found[0].gpus > 1 else f"launches in {by_launches:.0%} of the runs"
        longest = max(found, key=lambda job: job.seconds)
        counts = "–".join(human(n) for n in dict.fromkeys((steps[0], steps[-1])))
        line = [f"`{study}`", str(len(found)), counts, limit, f"{1000 * longest.step_seconds:.3g}"]
        rows.append([*line, f"{longest.seconds / 3600:.1f}", f"{sum(job.gpu_hours for job in found):,.0f}"])
    total = [job for found in of_study.values() for job in found]
    rows.append(["all", str(len(total)), "", "", "", "", f"{sum(job.gpu_hours for job in total):,.0f}"])
    header = ("table", "runs", "steps a run", "what sets the time", "longest run: ms a step", "hours", "GPU hours")
    return Table(header, rows)


def rows_of(jobs: Sequence[Job], order: str, ratios: Sequence[float]) -> list[list[str]]:
    rows = []
    for gpus in SIZES:
        found = simulate(jobs, gpus, DISPATCH[1], ratios)
        others = [simulate(jobs, gpus, d, ratios).makespan / 3600 for d in (DISPATCH[0], DISPATCH[2])]
        line = [f"{gpus}", order, f"{found.makespan / 3600:,.1f}", f"{found.useful / found.total:.0%}"]
        line += [str(found.failures), f"{found.lost / 3600:.1f} ({found.lost / found.useful:.2%})"]
        line += [f"{found.idle_for_launcher / 3600:.1f}", " / ".join(f"{hours:,.1f}" for hours in others)]
        rows.append([*line, f"{tolerable(jobs, gpus, ratios):,.0f} s"])
    return rows


HEADER = (
    "GPUs",
    "order",
    "makespan, h",
    "in use",
    "failures",
    "lost GPU h (of the useful)",
    "GPU h waiting for the launcher",
    "makespan at 0.1 / 10 s a launch",
    "a launch may take",
)


def sections(jobs: Sequence[Job], ratios: Sequence[float]) -> list[Part]:
    longest = sorted(jobs, key=lambda job: -job.seconds)
    small = [job for job in jobs if job.gpus == 1]
    quick = [replace(job, steps=round(job.steps / 100)) for job in small]
    table = rows_of(jobs, "as planned", ratios) + rows_of(longest, "longest first", ratios)
    table += rows_of(sorted(small, key=lambda job: -job.seconds), "longest first, without ImageNet", ratios)
    table += rows_of(sorted(quick, key=lambda job: -job.seconds), "the same, a hundredth of the steps", ratios)
    percentiles = [ratios[round(share * (len(ratios) - 1))] for share in (0.05, 0.5, 0.95)]
    said = (
        f"{len(jobs)} runs, each as long as the cost table says times a ratio drawn from {len(ratios)} measured ones "
        f"(a run's time over the mean of its seeds; 5 %, 50 %, 95 %: {', '.join(f'{p:.2f}' for p in percentiles)}). "
        f"Every GPU's job fails once in {1 / FAILURES / 3600:.0f} h on average, loses what it has computed since its "
        f"last checkpoint and {RESTART:.0f} s; one launcher starts one job at a time, {DISPATCH[1]:.0f} s each unless "
        "said; *a launch may take* so long before the campaign takes a tenth longer."
    )
    return [[Text("### Cost"), costs(jobs)], [Text("### Simulated"), Text(said), Table(HEADER, table)]]


def page(text: str, jobs: Sequence[Job], ratios: Sequence[float]) -> str:
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{markdown(sections(jobs, ratios))}\n{END}{after}"


def noted() -> tuple[list[Job], list[float]]:
    content: dict[str, Any] = json.loads(PLAN.read_text())
    return [Job(*job) for job in content["jobs"]], content["ratios"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", action="store_true", help="compose the plan anew (a minute or two)")
    if parser.parse_args().plan:
        PLAN.parent.mkdir(parents=True, exist_ok=True)
        jobs = ",\n".join(json.dumps(astuple(job)) for job in plan())
        PLAN.write_text(f'{{"ratios": {json.dumps(spread())},\n"jobs": [\n{jobs}\n]}}\n')
    PAGE.write_text(page(PAGE.read_text(), *noted()))
    print(PAGE)


if __name__ == "__main__":
    main()
