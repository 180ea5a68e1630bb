"""From a command line to a checked config with a name, and from a mistake to one clear line."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from dab.engine.config import ConfigError, TrainerSchema, allowed, check_cluster, first_line, omegaconf_line, plain
from dab.engine.run import ELSEWHERE, OPTIONS_ELSEWHERE
from dab.engine.targets import COMPONENTS, locate, options_of, settable, takes
from dab.engine.trust import trust
from dab.estimators.rebar import Rebar
from dab.estimators.why_not import has_hard
from dab.ranges import When, hints_of

OF_A_CLONE = "hydra_plugins.dab_launcher.ExecutorLauncher"
LAUNCHERS = (
    OF_A_CLONE,
    "hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher",
)
NAME_LENGTH = 100  # a run's directory must fit into a file system; the hash tells long ones apart


def resolve(config_dir: Path, overrides: Sequence[str], config_name: str = "config") -> dict[str, Any]:
    """The checked config of one command line; raises ConfigError."""
    parsed = parse(overrides)
    for override in parsed:
        if override.is_sweep_override():
            raise ConfigError(f"{override.input_line} names several values: add -m to train one run for each")
        if override.key_or_group.partition(".")[0] == "cluster":
            raise ConfigError(f"{override.input_line} has no effect without -m: a single run is trained here")
    with initialize_config_dir(str(config_dir.resolve()), version_base="1.3"):
        return settle(_own(config_name, overrides), overrides, config_name)


def resolve_job(overrides: Sequence[str], config_name: str = "config") -> dict[str, Any]:
    """The same of one job of a sweep that was checked as a whole. Hydra must be initialised."""
    return settle(_compose(config_name, overrides), overrides, config_name)


def searched(folder: str | None) -> list[str]:
    """The override that lets experiments of the user's own be found beside those of conf/."""
    if folder is None:
        return []
    if not Path(folder).is_dir():
        raise ConfigError(f"--config-dir {folder} is no folder; give one that holds, say, experiment/mine.yaml")
    path = str(Path(folder).resolve()).replace("\\", "\\\\").replace("'", "\\'")
    return [f"hydra.searchpath=['file://{path}']"]


def settle(cfg: DictConfig, overrides: Sequence[str], config_name: str = "config") -> dict[str, Any]:
    """The checked config of what Hydra composed from these overrides. Hydra must be initialised."""
    parsed = parse(overrides)
    _trust(cfg, parsed)
    with open_dict(cfg):
        cfg.pop("cluster", None)  # where a run is trained is no part of it
    config = plain(cfg)
    for override in parsed:
        if reason := without_effect(config, override):
            raise ConfigError(f"{override.input_line} has no effect: {reason}")
    config["label"] = label(config, parsed, config_name)
    return config


def check_sweep(config_dir: Path, overrides: Sequence[str], config_name: str = "config") -> None:
    """Compose every value of a sweep once and raise ConfigError where one does not exist.

    What a job refuses later, an impossible combination say, is that job's failure alone. Hydra itself would report a
    misspelt name over several lines, and without those that are allowed.
    """
    with initialize_config_dir(str(config_dir.resolve()), version_base="1.3"):
        parsed = parse(overrides)
        values = [_swept(o) if o.is_sweep_override() else [] for o in parsed]
        base = [f"{o.get_key_element()}={v[0]}" if v else str(o.input_line) for o, v in zip(parsed, values)]
        swept = ((i, f"{o.get_key_element()}={v}") for i, (o, vs) in enumerate(zip(parsed, values)) for v in vs[1:])
        variants: Iterator[list[str]] = chain([base], ([*base[:i], line, *base[i + 1 :]] for i, line in swept))
        for variant in variants:
            _own(config_name, variant)


def cluster_options(config_dir: Path, name: str, options: Sequence[str]) -> dict[str, Any]:
    """What conf/cluster/NAME.yaml says, with KEY=VALUE of one's own; raises ConfigError."""
    with initialize_config_dir(str(config_dir.resolve()), version_base="1.3"):
        return check_cluster(_own("config", [f"cluster={name}", *(f"cluster.{option}" for option in options)]))


def _own(config_name: str, overrides: Sequence[str]) -> DictConfig:
    """What these overrides compose to, if no file says anything of Hydra itself.

    Its keys name classes, write directories and set the environment; they belong to the command line and config.yaml.
    The file of `cluster=` may choose one of LAUNCHERS, none of which can be told to do more than to run jobs.
    """
    cfg = _compose(config_name, overrides, hydra=True)
    check_cluster(cfg)
    said = [word for word in overrides if re.match(r"[+~]*hydra[./]", word)]
    cluster = [word for word in overrides if word.startswith("cluster=")]
    if engines := [word for word in overrides if word.startswith("cluster.engine=")]:
        raise ConfigError(f"{engines[0]}: an engine comes with its options, so choose cluster=NAME")
    ours, theirs = _raw(_baseline(config_name, "~experiment", *said).hydra), _raw(cfg.hydra)
    if theirs["launcher"]["_target_"] == OF_A_CLONE and not _is_there(OF_A_CLONE):
        raise ConfigError(
            f"cluster={cfg.cluster.engine} needs the launcher of a clone of the repository, which the installed "
            "package has not: sweep from there, or without cluster= for one job after another"
        )
    if cluster and theirs["launcher"]["_target_"] in LAUNCHERS:
        ours["launcher"] = _raw(_baseline(config_name, "~experiment", *said, *cluster).hydra)["launcher"]
    if touched := [name for name in theirs if theirs[name] != ours.get(name)]:
        raise ConfigError(
            f"a configuration file sets hydra.{touched[0]}, which only the command line may: take it out of the file"
        )
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg


def _is_there(target: str) -> bool:
    try:
        return find_spec(target.rpartition(".")[0]) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False


def _raw(hydra: DictConfig) -> dict[str, Any]:
    """As it is written: nothing is looked up. What tells of this command alone is left out."""
    content = typing.cast(dict[str, Any], OmegaConf.to_container(hydra, resolve=False))
    content["job"].pop("override_dirname", None)
    return {name: part for name, part in content.items() if name not in ("runtime", "overrides")}


def _trust(cfg: DictConfig, overrides: Sequence[Override]) -> None:
    """Take over `trust=` of the command line, and nothing that a file says of it."""
    asked = [o.value() for o in overrides if o.key_or_group == "trust"]
    written = typing.cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=False))
    if written.get("trust") is not None and not asked:
        raise ConfigError("a configuration file says trust, which only the command line may: take it out of the file")
    packages: Any = asked[-1] if asked else []
    try:
        trust(packages if isinstance(packages, list) else [packages])
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _swept(override: Override) -> list[str]:
    if isinstance(override.value(), Glob) and override.key_or_group not in _groups():
        raise ConfigError(f"{override.input_line}: glob(...) is for the groups {', '.join(_groups())}")
    if values := list(override.sweep_string_iterator()):
        return values
    raise ConfigError(f"{override.input_line} matches nothing; allowed: {', '.join(choices(override.key_or_group))}")


def parse(overrides: Sequence[str]) -> list[Override]:
    loader = GlobalHydra.instance().config_loader() if GlobalHydra.instance().is_initialized() else None
    try:
        parsed = OverridesParser.create(loader).parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise ConfigError(f"{error.override!r} cannot be read ({first_line(error)}): write key=value") from error
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"the command line cannot be read: {first_line(error)}") from error
    for override in parsed:
        if not override.key_or_group:
            raise ConfigError(f"{override.input_line!r} names no key: write key=value")
    return parsed


def without_effect(config: dict[str, Any], override: Override) -> str | None:
    """Why something that was asked for would change nothing, or None."""
    key, _, option = override.key_or_group.partition(".")
    estimator = locate("estimator", config["estimator"])
    of_approximator = key == "trainer" and option.startswith("approximator_")
    if (key == "approximator" or of_approximator) and not takes("estimator", config["estimator"], "approximator"):
        return f"{estimator.__name__} has no approximator; leave it out, or choose estimator=bridge"
    if of_approximator and config["approximator"].get("frozen", False):
        return "a frozen approximator is not trained; leave it out, or set approximator.frozen=false"
    if of_approximator and getattr(estimator, "fits_itself", False):
        return f"{estimator.__name__} fits its approximator itself: see estimator.lr"
    if (key, option) == ("trainer", "control_lr_scale") and not issubclass(estimator, Rebar):
        return f"{estimator.__name__} has no control variate; rebar and relax have"
    if key == "hard" and not has_hard(estimator):
        return f"{estimator.__name__} has no hard function; leave it out, or choose another estimator"
    return _idle(config, key, option)


def _idle(config: dict[str, Any], part: str, option: str) -> str | None:
    """What an option's own declaration says: it needs another one."""
    if part in COMPONENTS:
        hints, options = settable(part, config[part]), options_of(part, config[part])
    elif part == "trainer":
        hints, options = hints_of(TrainerSchema), config[part]
    else:
        return None
    needed = [note for note in getattr(hints.get(option), "__metadata__", ()) if isinstance(note, When)]
    return next((f"it needs {note}" for note in needed if not note.holds(options)), None)


def label(config: dict[str, Any], overrides: Sequence[Override], config_name: str = "config") -> str:
    """What tells a run from its experiment, for people: "+lstm_sorter+length=10". Hydra must be initialised.

    An override that asks for what the experiment has anyway is left out, so that one run has one name.
    """
    asked = [o for o in overrides if _tells(o.key_or_group)]
    if not asked:
        return ""
    groups = set(_groups())
    start = [str(o.input_line) for o in overrides if o.key_or_group in ("experiment", "scale", "hydra.searchpath")]
    choices = _baseline(config_name, *start).hydra.runtime.choices
    chosen = [o for o in asked if o.key_or_group in groups and choices.get(o.key_or_group) != o.value()]
    base = _baseline(config_name, *start, *(str(o.input_line) for o in chosen))
    words = [str(o.value()) for o in chosen]
    for override in asked:
        key = override.key_or_group
        value = _select(config, key)
        if key not in groups and not override.is_delete() and value != OmegaConf.select(base, key):
            option = key.rpartition(".")[2]
            words.append(str(value).rpartition(".")[2] if option == "_target_" else f"{option}={value}")
    return "".join("+" + re.sub(r"[^\w.=,-]+", "", word) for word in dict.fromkeys(words))[:NAME_LENGTH]


def _baseline(config_name: str, *overrides: str) -> DictConfig:
    return _composed(str(GlobalHydra.instance().config_loader().get_search_path()), config_name, overrides)


@cache
def _composed(_search_path: str, config_name: str, overrides: tuple[str, ...]) -> DictConfig:
    """The cells of a study share their experiments."""
    return _compose(config_name, overrides, hydra=True)


def _tells(key: str) -> bool:
    """Whether an override belongs to a run's name: it says more than which experiment, seed and scale, and where."""
    part, _, option = key.partition(".")
    if option in OPTIONS_ELSEWHERE.get(part, ()):
        return False
    return part not in ("experiment", "scale", "seed", "hydra", *ELSEWHERE) or part == "budget"


def _select(config: dict[str, Any], key: str) -> Any:
    return OmegaConf.select(OmegaConf.create(config), key)


def _compose(config_name: str, overrides: Sequence[str], hydra: bool = False) -> DictConfig:
    groups = _groups()
    for override in parse(overrides):
        if override.key_or_group in groups and not override.is_delete() and not isinstance(override.value(), str):
            raise ConfigError(f"{override.input_line}: choose one of {', '.join(choices(override.key_or_group))}")
    try:
        return compose(config_name, list(overrides), return_hydra_config=hydra)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(_compose_line(error)) from error


def _compose_line(error: Exception) -> str:
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, choice = str(error.missing_cfg_file).partition("/")
        if choice == "launcher/joblib":
            return "cluster=joblib needs Hydra's joblib launcher: pip install -e '.[cluster]' -c constraints.txt"
        if group in _groups():
            return f"{group}={choice} does not exist; {allowed(choice, choices(group))}"
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        return omegaconf_line(cause, _groups())
    line = first_line(error)
    if "No match in the defaults list" in str(error):
        name = line.split("'")[1]
        return f"{name} is neither a config group nor a key; {allowed(name, _groups())}"
    return line


def all_choices(config_dir: Path) -> dict[str, list[str]]:
    with initialize_config_dir(str(config_dir.resolve()), version_base="1.3"):
        return {group: choices(group) for group in _groups()}


def choices(group: str) -> list[str]:
    """All files of a group, also those in its folders."""
    loader = GlobalHydra.instance().config_loader()
    found = [name for name in loader.get_group_options(group) if not name.startswith("_")]
    for folder in loader.list_groups(group):
        found += [f"{folder}/{name}" for name in choices(f"{group}/{folder}")]
    return found


def _groups() -> list[str]:
    return [g for g in GlobalHydra.instance().config_loader().list_groups("") if g != "hydra"]
