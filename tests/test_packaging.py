"""What is installed is what is here: one version, torch alone for the library, configurations in the wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
from test_imports import FILES, LAYERS, imported, layer, module_name

import dab

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SHIPPED = ("dab", "conf", "train.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
OURS = sys.stdlib_module_names | {"dab", "torch"}
# Where a module is called otherwise than its distribution, or comes with another one.
COMES_WITH = {"hydra": "hydra-core", "sklearn": "scikit-learn", "pytorch_msssim": "pytorch-msssim"}
COMES_WITH |= {"numpy": "torchvision", "PIL": "torchvision", "scipy": "scikit-learn"}


def foreign(path: Path) -> set[str]:
    """The packages a file imports, anywhere in it, that neither Python nor torch brings."""
    return {name.partition(".")[0] for name in imported(path)} - OURS


def distributions(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=]", line)[0] for line in requirements}


def test_the_library_imports_torch_alone_also_inside_its_functions() -> None:
    library = [path for path in FILES if layer(module_name(path)) == len(LAYERS) - 1]
    assert len(library) > 60
    assert not {module_name(path): found for path in library if (found := foreign(path))}
    assert distributions(PROJECT["dependencies"]) == {"torch"}


def test_the_suite_extra_brings_whatever_else_the_package_imports() -> None:
    needed = set().union(*(foreign(path) for path in FILES if path.is_relative_to(ROOT / "dab")))
    extras = {name: distributions(wanted) for name, wanted in PROJECT["optional-dependencies"].items()}
    found = {COMES_WITH.get(name, name) for name in needed}
    assert extras["suite"] <= found <= extras["suite"] | extras.get("cluster", set())


def test_the_version_is_said_once() -> None:
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    assert f"\nversion: {dab.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == dab.__version__


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("wheel")
    for name in SHIPPED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name, **({"symlinks": True} if copy is shutil.copytree else {}))
    return folder


@pytest.fixture(scope="module")
def wheel(sources: Path) -> Path:
    """Built as `python -m build` does, by the setuptools at hand."""
    folder = sources
    build = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    done = subprocess.run([sys.executable, "-c", build], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = (folder / "dist").glob("*.whl")
    return built


def test_the_wheel_holds_the_package_its_configurations_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"dab_torch-{dab.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        inside = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    configurations = {f"dab/{path.relative_to(ROOT)}": path for path in (ROOT / "conf").rglob("*.yaml")}
    sources = {str(path.relative_to(ROOT)): path for path in (ROOT / "dab").rglob("*.py")}
    expected = configurations | sources | {"dab/py.typed": ROOT / "dab/py.typed"}
    assert len(configurations) > 100 and inside.keys() == expected.keys()
    assert all(content == expected[name].read_bytes() for name, content in inside.items())


def test_the_wheel_trains_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    """The default job, by the wheel's own code and configurations; what it says to go on with can be typed there."""
    site, empty = tmp_path / "site", tmp_path / "empty"
    shutil.unpack_archive(wheel, site, "zip")
    empty.mkdir()
    words = ["-m", "dab.train", "scale=smoke", "logger=none", "trainer.steps=2", "data.test_size=50"]
    environment = {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, *words], cwd=empty, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (record,) = (empty / "runs").glob("sorting/*/*/result.json")
    assert '"commit": null' in record.read_text()  # of no repository that it may lie in
    assert "-m dab.train -m seed=0,1,2" in done.stdout and str(ROOT) not in done.stdout.replace(sys.prefix, "")


@pytest.mark.slow
def test_the_commands_of_a_wheel_made_from_the_source_archive_work_in_an_environment_of_its_own(
    sources: Path, tmp_path: Path
) -> None:
    """`python -m build`, pip, and both commands from an empty folder; torch and the rest are lent by this one."""
    words = ["-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(sources)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,), home, empty = (tmp_path / "dist").glob("*.whl"), tmp_path / "home", tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "install", "-q", "--no-deps", str(built)]
    subprocess.run(pip, check=True)
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    empty.mkdir()
    for command in ("dab-train scale=smoke logger=none trainer.steps=2", "dab-advise torch:sign --shape 8 --seconds 5"):
        name, *rest = command.split()
        done = subprocess.run([home / "bin" / name, *rest], cwd=empty, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "Take " in done.stdout and list((empty / "runs").glob("sorting/*/*/result.json"))


def test_sweeps_of_the_wheel_run_one_job_after_another(wheel: Path, tmp_path: Path) -> None:
    """Launchers belong to a clone: a line says so. The one that these tests are installed from is hidden."""
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    hidden = f"import sys; sys.path = [{str(tmp_path / 'site')!r}, *(p for p in sys.path if p != {str(ROOT)!r})]; "
    code = hidden + "from dab.train import main; sys.exit(main())"
    words = ["-c", code, "-m", "scale=smoke", "seed=0,1", "cluster=pool"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.strip().count("\n") == 0
    assert "cluster=pool needs the launcher of a clone" in done.stderr


def test_training_without_the_suite_says_what_to_install(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.modules['hydra'] = None; import dab.train"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.strip().count("\n") == 0
    assert "pip install '.[suite]'" in done.stderr
