"""Where Hydra looks for launchers. It imports all files here whenever it starts: what they need comes later."""

from __future__ import annotations

from collections.abc import Sequence

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class ExecutorLauncher(Launcher):
    """The jobs of a sweep on what `cluster=` names: experiments/launcher.py"""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from experiments.launcher import launch

        return launch(self.config, job_overrides, initial_job_idx)
