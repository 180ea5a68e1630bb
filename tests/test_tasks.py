"""What a task may ask of the engine: whole splits, a diagnosis that moves nothing, pictures; and `dab.measure`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from dab.data.digits import DigitImages
from dab.engine import evaluation
from dab.engine.build import Job
from dab.engine.distributed import Workers
from dab.engine.exits import BAD_CONFIG
from dab.engine.grids import draw_grid
from dab.engine.launch import launch
from dab.engine.loggers import NoLogger
from dab.engine.loop import Loop
from dab.engine.progress import Silent
from dab.engine.run import Run
from dab.engine.schedules import Constant
from dab.engine.stop import Stop
from dab.measure import main, measure, report
from dab.predict import record
from dab.tasks.sorting import SortingTask
from dab.tasks.task import Grid, Task

pytestmark = pytest.mark.usefixtures("no_curves")

SMALL = ["model.latents=20", "model.encoder=[16]", "model.decoder=[16]", "task.iwae_samples=[5]"]


class Classify(Task):
    """Digits, through a batch norm, dropout and a generator of its own; nearest class means as a probe of the code."""

    select = "accuracy"

    def __init__(self, diagnoses: bool = False):
        torch.manual_seed(0)
        super().__init__(
            nn.Sequential(
                nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 10)
            )
        )
        self._diagnoses, self.random = diagnoses, torch.Generator().manual_seed(1)

    def loss(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        x, labels = batch
        noise = torch.randn(x.shape, generator=self.random)
        loss = nn.functional.cross_entropy(self.model(x + 0.1 * noise), labels)
        return loss, {"loss": loss.detach()}

    def measure(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        return {"accuracy": (self.model(batch[0]).argmax(1) == batch[1]).double()}

    @property
    def diagnoses(self) -> bool:
        return self._diagnoses

    def diagnose(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Tries a step, which moves statistics, generators, gradients and weights."""
        loss, _ = self(batch)
        loss.backward()
        before = self.model[1].weight.detach().clone()
        torch.optim.SGD(self.parameters(), lr=1.0).step()
        return {"move": (self.model[1].weight - before).norm().detach()}

    def examine(self, data, workers) -> dict[str, float]:
        def whole(split: str) -> tuple[Tensor, ...]:
            return tuple(workers.concatenate(torch.cat(parts)) for parts in zip(*data.batches(split)))

        (x, labels), (seen, wanted) = whole("train"), whole("test")
        means = torch.stack([self.model[:3](x)[labels == c].mean(0) for c in range(data.classes)])
        right = torch.cdist(self.model[:3](seen), means).argmin(1) == wanted
        self.model[1].weight.data.zero_()  # nobody must notice
        return {"test/probe": right.double().mean()}


def fit(config, name: str, **options) -> tuple[Loop, DigitImages]:
    made = config("trainer.steps=12", "trainer.eval_every=4", "trainer.batch_size=50", f"name={name}")
    data, task = DigitImages(seed=0, batch_size=50, eval_batch_size=100), Classify(**options)
    Run(made).dir.mkdir(parents=True)
    job = Job(data, task, torch.optim.Adam(task.parameters(), lr=1e-2), Constant())
    loop = Loop(job, Run(made), Workers(), Stop(), NoLogger(), Silent(12))
    loop.fit()
    return loop, data


def test_a_diagnosis_moves_nothing(config) -> None:
    without, _ = fit(config, "without")
    with_it, _ = fit(config, "with", diagnoses=True)
    rows = [json.loads(line) for line in (with_it.run.dir / "metrics.jsonl").read_text().splitlines()]
    assert sum(row.get("train/move", 0) > 0 for row in rows) == 3
    one, two = (loop.job.task for loop in (without, with_it))
    assert all(torch.equal(value, two.state_dict()[name]) for name, value in one.state_dict().items())
    assert torch.equal(one.random.get_state(), two.random.get_state())
    assert {name for name, _ in one.named_buffers()} >= {"model.2.running_mean", "model.2.num_batches_tracked"}
    torch.manual_seed(5)
    before = torch.get_rng_state()
    evaluation.diagnose(two, with_it.job.data, 0, 0, Workers())
    assert torch.equal(torch.get_rng_state(), before)


def test_no_batch_is_fetched_for_a_task_without_a_diagnosis() -> None:
    nowhere = None  # asking this for a batch would fail
    assert evaluation.diagnose(Classify(), nowhere, 0, 0, Workers()) == {}  # type: ignore[arg-type]
    assert not SortingTask(nn.Identity()).diagnoses


def test_what_a_task_finds_in_whole_splits_joins_its_metrics(config, monkeypatch) -> None:
    loop, data = fit(config, "examined")
    task = loop.job.task
    weights = {name: value.clone() for name, value in task.state_dict().items()}
    metrics = evaluation.final_metrics(task, data, Workers(), Stop())
    assert {"valid/accuracy", "test/accuracy", "test/probe"} == set(metrics) and metrics["test/probe"] > 0.5
    assert all(torch.equal(weights[name], value) for name, value in task.state_dict().items())
    assert evaluation.final_metrics(task, data, Workers(), Stop()) == metrics
    assert set(evaluation.final_metrics(task, data, Workers(), Stop(), only="valid")) == {"valid/accuracy"}
    monkeypatch.setattr(Classify, "examine", lambda self, data, workers: {"test/accuracy": 1.0})
    with pytest.raises(ValueError, match=r"Classify\.examine names test/accuracy, which .* already"):
        evaluation.final_metrics(task, data, Workers(), Stop())


@pytest.mark.parametrize(
    "options",
    [
        ["data.valid_size=500", "data.test_size=500"],
        ["experiment=binarized/rebar", *SMALL],
        ["experiment=binarized/reinmax", "recipe=rebar", "model.layers=2", "data.dynamic=true", *SMALL],
    ],
    ids=["sorting", "density", "two layers"],
)
def test_a_finished_run_measures_the_same_again(options, config) -> None:
    made = config(*options)
    assert launch(made) == 0
    result = Run(made).result
    assert measure(Run(made).dir) == result["metrics"]  # bit for bit: the draws are keyed
    alone = measure(Run(made).dir, "test")
    assert alone == {name: value for name, value in result["metrics"].items() if name.startswith("test/")}


def test_a_metric_added_later_is_measured_beside_the_recorded_ones(config, monkeypatch) -> None:
    made = config("data.valid_size=500", "data.test_size=500")
    assert launch(made) == 0
    monkeypatch.setattr(
        SortingTask, "examine", lambda self, data, workers: {"test/rows": float(len(list(data.batches("test"))))}
    )
    found = measure(Run(made).dir)
    assert found == {**Run(made).result["metrics"], "test/rows": 1.0}
    lines = report(Run(made).result, found, None).splitlines()
    assert lines[-1].split() == ["test/rows", "–", "1", "not", "measured", "then"]


def test_what_needs_the_approximator_cannot_be_measured_again_and_is_named(config) -> None:
    made = config("experiment=binarized/bridge_paper", *SMALL)
    assert launch(made) == 0
    result, found = Run(made).result, measure(Run(made).dir)
    lost = {name for name in result["metrics"] if "paper_bound" in name}
    assert len(lost) == 6 and found == {name: value for name, value in result["metrics"].items() if name not in lost}
    assert report(result, found, None).count("needs what only training has") == 6


def test_measure_from_the_command_line(config, tmp_path, monkeypatch, capsys) -> None:
    made = config("data.valid_size=500", "data.test_size=500")
    assert launch(made) == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["dab.measure", str(Run(made).dir), "--split", "test"])
    main()
    printed = capsys.readouterr().out
    assert "test/all_or_none" in printed and "valid/" not in printed
    monkeypatch.setattr(sys, "argv", ["dab.measure", str(tmp_path)])
    with pytest.raises(SystemExit) as error:
        main()
    assert error.value.code == BAD_CONFIG
    assert "holds no result.json: give the directory of a finished run" in capsys.readouterr().err


def test_what_keeps_a_run_from_being_measured_is_told_in_one_line(config, tmp_path, monkeypatch) -> None:
    made = config("data.valid_size=500", "data.test_size=500")
    assert launch(made) == 0
    folder = Run(made).dir
    with pytest.raises(ValueError, match="--split must be one of valid, test, given 'tset'"):
        measure(folder, "tset")
    weights = (folder / "model.safetensors").read_bytes()
    for content in (weights[: len(weights) // 2], b"nothing of the kind"):
        (folder / "model.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match="does not hold the weights of this run's model") as error:
            measure(folder)
        assert "\n" not in str(error.value)
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no model\.safetensors.*force=true"):
        measure(folder)
    monkeypatch.setattr("dab.data.binarized_mnist.AMAT_URL", "file:///nowhere/{}")
    result = {**record(folder), "config": config("experiment=binarized/reinmax", "data=binarized_mnist")}
    (folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(Exception, match=f"no data: looked in {tmp_path}/none .*--data FOLDER"):
        measure(folder, folder=f"{tmp_path}/none")


def pixels(path: Path) -> Tensor:
    return torch.from_numpy(np.array(Image.open(path))) / 255


def test_grids_are_drawn_in_grey_and_in_colour(tmp_path) -> None:
    grey = draw_grid(
        Grid(torch.tensor([0.0, 1.0, 0.5]).view(3, 1, 1).expand(3, 4, 5), columns=2), tmp_path / "grey.png", zoom=1
    )
    found = pixels(grey)
    assert found.shape == (2 * 6, 2 * 7, 3)
    assert found[1, 1].tolist() == [1, 1, 1] and found[1, 8].tolist() == [0, 0, 0]  # paper is white, ink is black
    assert found[7, 1].tolist() == pytest.approx([0.5] * 3, abs=0.01)
    assert (found[:, [0, 6, 7, 13]] == 1).all() and (
        found[6:, 7:] == 1
    ).all()  # frames, and the place that is left over
    same = draw_grid(
        Grid(torch.tensor([0.0, 1.0, 0.5]).view(3, 1, 1, 1).expand(3, 1, 4, 5), 2), tmp_path / "one.png", 1
    )
    assert torch.equal(found, pixels(same))
    colours = torch.eye(3).view(3, 3, 1, 1).expand(3, 3, 4, 5)
    found = pixels(draw_grid(Grid(colours, columns=3), tmp_path / "colour.png", zoom=2))
    assert found.shape == (6 * 2, 3 * 7 * 2, 3)
    assert [found[4, 14 * i + 4].tolist() for i in range(3)] == torch.eye(3).tolist()
    with pytest.raises(ValueError, match="1 or 3 channels, given 2"):
        draw_grid(Grid(torch.rand(3, 2, 4, 5)), tmp_path / "x.png")
