"""Whatever is wrong with a value or a data file: one line that names it, never a traceback, never accepted."""

from __future__ import annotations

import gzip
import inspect
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from declared import CONF, Declared, bad, declared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

from dab.data.fashion_mnist import SHA256
from dab.data.files import DataError
from dab.engine.build import make
from dab.engine.compose import resolve
from dab.engine.config import ConfigError, plain
from dab.engine.reference import help_text, page
from dab.hard import Signum
from dab.ranges import Share, described, is_declared, ranged

OPTIONS = list(declared())
RELAXED = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)


@pytest.fixture(scope="module")
def composed() -> dict[str, Any]:
    return resolve(CONF, ["scale=smoke", "logger=none"])


def with_value(composed: dict[str, Any], option: Declared, value: Any) -> DictConfig:
    config = {name: part for name, part in composed.items() if name != "label"}
    if option.node is not None:
        config[option.part] = {**option.node, option.option: value}
    elif option.part:
        config[option.part] = {**config[option.part], option.option: value}
    else:
        config[option.option] = value
    if option.part == "optimizer":
        config["optimizer"] = {"lr": 0.1} | config["optimizer"]
    return OmegaConf.create(config)


def test_every_option_says_its_range() -> None:
    """A bare int, float, str or list says nothing of what is wrong. Flags, and what YAML cannot say, need no range."""
    bare = [o.key for o in OPTIONS if o.part != "optimizer" and o.hint is not bool and not is_declared(o.hint)]
    assert bare == []
    assert len(OPTIONS) > 200
    assert all(described(o.hint) for o in OPTIONS if o.hint is not Any and o.part != "optimizer")


@st.composite
def bad_values(draw: st.DrawFn) -> tuple[Declared, Any]:
    option = draw(st.sampled_from([o for o in OPTIONS if o.hint is not Any and described(o.hint)]))
    return option, draw(bad(option.hint))


def refuse(composed: dict[str, Any], option: Declared, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        plain(with_value(composed, option, value))
    line = str(error.value)
    assert option.key in line and "\n" not in line and len(line) < 600, line


@settings(RELAXED, max_examples=300)
@given(drawn=bad_values())
def test_a_value_out_of_its_range_is_refused_by_name(composed: dict[str, Any], drawn: tuple[Declared, Any]) -> None:
    refuse(composed, *drawn)


@pytest.mark.slow
@settings(RELAXED, max_examples=5000)
@given(drawn=bad_values())
def test_many_values_out_of_range_are_refused_by_name(composed: dict[str, Any], drawn: tuple[Declared, Any]) -> None:
    refuse(composed, *drawn)


KEYS = [*sorted({o.key for o in OPTIONS}), "experiment", "model", "hydra", "", "defaults", "_target_", "model._target_"]
HOSTILE = ["null", "[", "{a:", "${seed}", "1e999", "glob(*)", "'", "9" * 5000, "\x00"]
LINES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", "+", "++", "~", " "]),
        st.sampled_from(KEYS) | st.text(max_size=8),
        st.sampled_from(["=", "=", "=", "", "==", ":"]),
        st.text(max_size=12) | st.sampled_from(HOSTILE),
    ),
)


@settings(RELAXED, max_examples=40)
@given(line=LINES)
def test_a_hostile_word_on_the_command_line_composes_or_is_told_in_one_line(line: str) -> None:
    try:
        resolve(CONF, [line])
    except ConfigError as error:
        assert "\n" not in str(error)


def archive(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as zipped:
        for name, data in files.items():
            zipped.writestr(name, data)
    return content.getvalue()


def arrays(**named: Any) -> bytes:
    content = io.BytesIO()
    np.savez(content, **named)
    return content.getvalue()


def tar(name: str, data: bytes) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as file:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        file.addfile(info, io.BytesIO(data))
    return content.getvalue()


GREY = np.arange(98, dtype=np.uint8).reshape(1, 98)
FOREIGN = {  # good files of their kinds with something else in them
    "npz": arrays(train=GREY, valid=GREY, test=GREY, x_train=GREY, y_train=GREY, x_background=GREY),
    "strings": arrays(train=np.array(["a"]), x_train=np.array(["a"]), x_background=np.array(["b"])),
    "objects": arrays(train=np.array([{}], dtype=object), x_train=np.array([{}], dtype=object)),
    "zip": archive({"a.png": b"no image"}),
    "tar": tar("data_batch_1", b"\x80\x04N."),
    "gz": gzip.compress(b"\0\0\x08\x03" + bytes(12)),
    "text": b"0 1 0 1\n",
}
FILES = {
    "binarized_mnist": ["binarized_mnist.npz"],
    "binarized_mnist data.dynamic=true": ["mnist.npz"],
    "binarized_mnist as text": [f"binarized_mnist_{split}.amat" for split in ("train", "valid", "test")],
    "binarized_omniglot": ["omniglot_28x28_area.npz"],
    "binarized_omniglot as zip": ["images_background.zip", "images_evaluation.zip"],
    "binarized_omniglot data.variant=burda": ["chardata.mat"],
    "cifar10": ["cifar10.npz"],
    "cifar10 as tar": ["cifar-10-python.tar.gz"],
    "cifar10 as pickles": ["cifar-10-batches-py"],
    "fashion_mnist": [f"FashionMNIST/raw/{name}.gz" for name in SHA256],
}


@st.composite
def damage(draw: st.DrawFn) -> bytes | None:
    """None: a folder in the file's place."""
    whole = draw(st.sampled_from(list(FOREIGN.values())))
    kind = draw(st.sampled_from(["folder", "empty", "random", "foreign", "cut", "flipped"]))
    if kind == "flipped":
        place = draw(st.integers(0, len(whole) - 1))
        return whole[:place] + bytes([whole[place] ^ draw(st.integers(1, 255))]) + whole[place + 1 :]
    cut = whole[: draw(st.integers(0, len(whole)))]
    return {"folder": None, "empty": b"", "random": draw(st.binary(max_size=200)), "foreign": whole, "cut": cut}[kind]


@pytest.fixture(scope="module")
def data_configs() -> dict[str, dict[str, Any]]:
    lines = {name: name.partition(" as ")[0].split() for name in FILES}
    return {name: resolve(CONF, [f"data={words[0]}", *words[1:]]) for name, words in lines.items()}


@settings(RELAXED, max_examples=150)
@given(name=st.sampled_from(list(FILES)), content=damage())
def test_a_damaged_data_file_is_told_in_one_line(
    name: str, content: bytes | None, data_configs: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("data")
    for file in FILES[name]:
        put(folder / file, content)
    with pytest.raises(ConfigError) as error:
        make(data_configs[name], "data", folder=str(folder), seed=0, batch_size=1, eval_batch_size=1)
    line = str(error.value)
    assert isinstance(error.value.__cause__, DataError), line
    assert str(folder) in line and "\n" not in line and len(line) < 800, line


def put(path: Path, content: bytes | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)


def test_the_reference_is_up_to_date() -> None:
    assert (CONF.parent / "docs/CONFIG.md").read_text() == page(CONF), "run `make config-reference`"


def test_help_says_the_ranges_of_a_command_line() -> None:
    text = help_text(CONF, ["model=lstm_sorter", "trainer.clip_norm=5"])
    assert "model.ponder=0    a whole number in [0, 2^31)" in text
    assert "trainer.clip_norm=5.0    a number > 0, or null" in text
    assert "experiment: binarized/arm, " in text and "2    your input" in text


@pytest.mark.parametrize("call", [lambda: Signum(-1), lambda: Signum(eps=float("nan")), lambda: Signum(True)])
def test_a_constructor_refuses_what_a_configuration_may_not_say(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="eps must be a number >= 0, given"):
        call()


def test_a_function_without_annotations_takes_anything() -> None:
    @ranged
    def half(x, share: Share = 0.5):
        return x * share

    assert half("ab", 1) == "ab" and inspect.signature(half).parameters["share"].default == 0.5
    with pytest.raises(ValueError, match=r"share must be a number in \[0, 1\], given 2"):
        half(1, share=2)
