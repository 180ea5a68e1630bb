"""The scripts a person runs by hand do their work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dab.data.digits import digits
from dab.engine.launch import launch
from dab.engine.run import Run

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import bench  # noqa: E402
import bench_classification  # noqa: E402
import bench_compress  # noqa: E402
import bench_images  # noqa: E402
import calibrate_pyepo  # noqa: E402
import codec_floor  # noqa: E402
import demo  # noqa: E402
import diagnose_sorter  # noqa: E402
import export_sorter  # noqa: E402
import figure_bridge  # noqa: E402
import figure_toy_variance  # noqa: E402


def test_toy_figure_gradient_grows_two_bumps_at_eps(tmp_path: Path) -> None:
    seen = figure_bridge.train({"near the start": 30, "at the end": 1500})
    x, _, gradient = (t.squeeze() for t in seen["at the end"])
    at_eps, elsewhere = (x.abs() - 0.5).abs() < 0.05, (x.abs() < 0.3) | (x.abs() > 0.8)
    assert gradient[at_eps].mean() > 4 * gradient[elsewhere].abs().mean()
    path = tmp_path / "bridge.png"
    figure_bridge.draw(seen, path)
    assert path.stat().st_size > 10_000


def test_toy_variance_figure_shows_control_variates_at_work(tmp_path: Path) -> None:
    made = {name: figure_toy_variance.ESTIMATORS[name] for name in ("REINFORCE", "RELAX")}
    curves = {name: figure_toy_variance.train(make(), lr, steps=500) for name, (make, lr) in made.items()}
    (_, plain_loss, plain), (_, loss, variance) = (rows[-1] for rows in curves.values())
    assert variance < plain / 50 and loss < plain_loss < curves["REINFORCE"][0][1]
    path = tmp_path / "toy.png"
    figure_toy_variance.draw(curves, path)
    assert path.stat().st_size > 10_000


def test_layers_for_solvers_learn_in_the_setting_of_pyepo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate_pyepo, "theirs", lambda seed: {})  # theirs: tests/test_calibration_pyepo.py
    before = calibrate_pyepo.measure(seeds=1, epochs=0)["regret"]["ours"]
    after = calibrate_pyepo.measure(seeds=1, epochs=3)["regret"]["ours"]
    assert set(after) == set(calibrate_pyepo.PRINTED)
    assert all(after[name][0] < 0.8 * before[name][0] for name in after), (before, after)


def test_diagnosis_of_a_network_whose_comparators_are_known(config) -> None:
    made = config("experiment=sorting/constructed", "data.length=5", "model.slope=100")
    assert launch(made) == 0
    found = diagnose_sorter.diagnose(Run(made).dir, sequences=20_000)
    assert found["accuracy"] == pytest.approx(Run(made).result["metrics"]["test/all_or_none"], abs=0.005)
    assert found["failing sequences whose smallest gap is above 1e-3"] < 0.01  # only close pairs can go wrong
    # slope 100, then twice STEEPER; the last one sees half of the comparator
    assert found["steepest slope at a tie (median)"] == pytest.approx(100 * 4 * 4 / 2, rel=0.1)
    assert found["units that never change"] == 256 - 5 * 4


def test_bench_ratios_are_the_right_way_up() -> None:
    times = {"fast": [1.0, 1.1, 0.9], "slow": [2.0, 2.2, 1.8]}
    assert bench.ratio(times, "fast", "slow") == pytest.approx(2)


def test_bench_floor_has_the_products_of_a_step() -> None:
    config = bench.configuration("trainer.batch_size=8")
    products = bench.matmul_floor(config)
    with FlopCounterMode(display=False) as floor:
        products()
    job = bench.build(config, bench.Workers())
    with FlopCounterMode(display=False) as step:
        bench.bare_step(job, job.data.batch(0))
    assert floor.get_total_flops() == step.get_total_flops()


def test_bench_compares_two_steps_of_the_same_products() -> None:
    with FlopCounterMode(display=False) as ours:
        bench.density_loop("straight_through")()
    with FlopCounterMode(display=False) as by_hand:
        bench.plain_vae()()
    assert ours.get_total_flops() == by_hand.get_total_flops() > 0


def test_bench_of_photos_measures_all_three_ways(monkeypatch) -> None:
    monkeypatch.setattr(bench_images, "SIZE", 32)
    monkeypatch.setattr(bench_images, "BATCH", 8)
    measured = bench.measure_images(2)  # how fast is not for a test
    assert len(measured) == 3 and all(value > 0 for value in measured.values())


def test_bench_times_what_examines_a_run() -> None:
    times = bench.measure_metrics(torch.get_num_threads(), codes=200, units=9, images=20)
    assert len(times) == 5 and all(value > 0 for value in times.values())


def test_bench_of_compression_goes_there_and_back() -> None:
    assert all(seconds > 0 for seconds in bench_compress.measure_compress(count=3).values())


def test_codecs_at_their_floor_are_measured_with_and_without_headers() -> None:
    flat = np.full((1, 32, 32), 128, np.uint8)
    assert codec_floor.jpeg(flat)[1] == 12  # 16 blocks of 6 bits: nothing new in the mean, and the end of the block
    images = digits()[0][:4, None]
    found = codec_floor.measure("digits", images)
    for marks in found["codecs"].values():
        assert 0 < marks["bpp_without_header"] < marks["bpp"]
        assert marks["bytes"]["smallest"] <= marks["bpp"] * 64 / 8 <= marks["bytes"]["largest"]
        assert 0 < marks["msssim_shrink"] < 1 and marks["psnr"] > 5
    colour = codec_floor.measure("colour", np.repeat(images, 3, 1))
    assert colour["codecs"]["webp"]["bpp"] == pytest.approx(found["codecs"]["webp"]["bpp"] / 3)  # grey is colour to it


def test_install_script_is_valid_shell() -> None:
    assert subprocess.run(["bash", "-n", str(ROOT / "scripts/install.sh")]).returncode == 0


def test_bench_of_codes_compares_with_the_bare_model() -> None:
    speed, against_bare = bench.measure_codes(1, torch.get_num_threads()).values()
    assert speed > 0 and against_bare > 0


def test_bench_of_classification_measures_steps_functions_and_k_means(monkeypatch) -> None:
    few = {name: bench_classification.ROWS[name] for name in ("no hard function", "sort, matched")}
    monkeypatch.setattr(bench_classification, "ROWS", few)
    monkeypatch.setattr(bench_classification, "resnet", small_resnet)
    steps = bench_classification.measure_resnet(1, torch.get_num_threads())
    functions = bench_classification.measure_functions(1, torch.get_num_threads(), batch=2, channels=3)
    assert (
        len(steps) == 3 and len(functions) == 5 and all(value > 0 for value in (*steps.values(), *functions.values()))
    )
    clusters = bench_classification.measure_kmeans(torch.get_num_threads(), batch=8, channels=16)
    assert all(value == pytest.approx(1, abs=0.25) for name, value in clusters.items() if "inertia" in name)


def small_resnet(words: str) -> dict:
    return bench.configuration(
        "experiment=classification/cifar10", "trainer.batch_size=4", "model.width=1", *words.split()
    )


def test_a_sorter_is_exported_with_all_its_weights_and_nothing_else_is(config) -> None:
    made = config("scale=smoke", "model.widths=[6,8]")
    assert launch(made) == 0
    net = export_sorter.exported(Run(made).dir)
    assert [len(layer["bias"]) for layer in (*net["layers"], net["read_out"])] == [6, 8, 25]
    assert net["accuracy"] == Run(made).result["metrics"]["test/all_or_none"] and "[6,8]" in net["command"]
    other = config("scale=smoke", "experiment=sorting/elu_dense")
    assert launch(other) == 0
    with pytest.raises(ValueError, match="Tanh layers and a signum"):
        export_sorter.exported(Run(other).dir)


def test_the_tour_shows_a_sort_before_and_after_and_a_digit_as_bytes(capsys, no_curves, monkeypatch) -> None:
    monkeypatch.setattr(demo, "SORTER", ["trainer.steps=5", "trainer.batch_size=8", "data.test_size=50"])
    monkeypatch.setattr(demo, "CODE", [*demo.CODE, "trainer.steps=5"])
    demo.main()
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines.count("before") == lines.count("after") == 3 and "64" in lines and lines[-2] == "That"
