"""docs/SCALING.md: the simulated campaign is what its noted plan says, and what simulated campaigns must obey."""

from __future__ import annotations

import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import simulate_campaign
from simulate_campaign import Job, noted, simulate

HOUR = Job("study", "cell", steps=900_000, batch=1, save_every=500, core_seconds=1e-9, slower=1.0)  # about an hour


def test_the_page_is_not_stale() -> None:
    """`python scripts/simulate_campaign.py` writes it."""
    text = simulate_campaign.PAGE.read_text()
    jobs, _ = noted()
    assert text == simulate_campaign.page(text, *noted()) and f"| all | {len(jobs)} |" in text


@pytest.mark.slow
def test_the_plan_is_that_of_the_studies() -> None:
    """`python scripts/simulate_campaign.py --plan` notes it."""
    assert [(j.name, j.steps, j.batch) for j in noted()[0]] == [
        (j.name, j.steps, j.batch) for j in simulate_campaign.plan()
    ]


def test_without_failures_work_and_time_add_up(monkeypatch) -> None:
    monkeypatch.setattr(simulate_campaign, "FAILURES", 1e-30)
    jobs = [HOUR] * 20
    for gpus, rounds in ((1, 20), (4, 5), (8, 3), (100, 1)):
        found = simulate(jobs, gpus, 0.0, [1.0])
        assert found.makespan == pytest.approx(rounds * HOUR.seconds) and found.failures == found.lost == 0
        assert found.useful == pytest.approx(20 * HOUR.seconds)
    slow = simulate(jobs, 20, 100.0, [1.0])  # one launch after another
    assert slow.makespan == pytest.approx(HOUR.seconds + 20 * 100) and slow.idle_for_launcher == 100 * 210


def test_with_failures_nothing_is_lost_but_what_was_not_saved(monkeypatch) -> None:
    monkeypatch.setattr(simulate_campaign, "FAILURES", 1 / 600)  # six an hour
    found = simulate([HOUR] * 50, 10, 0.0, [1.0])
    assert found.failures > 200
    assert found.useful == pytest.approx(50 * HOUR.seconds, rel=1e-6)  # each run whole, once
    restarts = found.failures * simulate_campaign.RESTART
    assert 0 < found.lost - restarts < found.failures * HOUR.save_every * HOUR.step_seconds


def test_a_job_of_eight_gpus_has_them_at_once() -> None:
    wide = Job("imagenet", "cell", 1000, 192, 500, 1.0, 1.0, gpus=8)
    one, two = (simulate([wide] * 4, gpus, 0.0, [1.0]) for gpus in (8, 31))
    assert one.makespan > 4 * wide.seconds - 1 and two.makespan > 2 * wide.seconds - 1
    assert two.makespan < one.makespan
