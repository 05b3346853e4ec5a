"""What a stranger gets: a light import, a help page that loads nothing, a wheel that is whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import hfprep

REPO = Path(__file__).resolve().parent.parent
HEAVY = ("av", "dask", "matplotlib", "numcodecs", "numpy", "pandas", "pydantic", "rich", "torch", "zarr")


def fresh(code: str, *args: str, cwd: Path = REPO) -> str:
    """Standard output of a fresh interpreter; the repository is on its path even where hfprep is not installed."""
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run([sys.executable, "-c", code, *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=1500, check=True)
    return done.stdout


def loaded(code: str) -> set[str]:
    """Heavy packages that a fresh interpreter has loaded after this code."""
    told = fresh(f"import json, sys\n{code}\nprint(); print(json.dumps(sorted(sys.modules)))")
    return set(json.loads(told.splitlines()[-1])) & set(HEAVY)


CALL = "from hfprep.cli import main\ntry: main({args!r})\nexcept SystemExit as end: assert not end.code, end.code"


def test_import_loads_nothing_heavy() -> None:
    assert loaded("import hfprep; hfprep.__version__") == set()
    assert "numpy" in loaded("import hfprep; hfprep.load_pipeline; import numpy")  # that the probe sees what is loaded


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["-h"]])
def test_help_and_version_load_nothing_heavy(args: list[str]) -> None:
    assert loaded(CALL.format(args=args)) == set()


@pytest.mark.parametrize("command", ["build", "plan", "inspect", "verify"])
def test_commands_that_need_no_torch_load_none(command: str) -> None:
    assert "torch" not in loaded(CALL.format(args=[command, "--help"]))


def test_build_and_reader_load_no_torch() -> None:
    assert "torch" not in loaded("from hfprep import build_store, open_store")
    assert loaded("from hfprep import open_store") <= {"numpy", "zarr", "numcodecs", "pydantic"}


def test_missing_torch_is_said_with_the_name_of_the_extra() -> None:
    code = "import sys; sys.modules['torch'] = None\nfrom hfprep.errors import UsageError\n"
    code += "try: import hfprep.dataset\nexcept UsageError as fault: print(fault)"
    assert "hfprep[train]" in fresh(code)


def test_public_names_resolve() -> None:
    for name in hfprep.__all__:
        assert getattr(hfprep, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        hfprep.nonsense  # noqa: B018


def test_versions_agree() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    version = project["version"]
    assert f"\nversion: {version}\n" in (REPO / "CITATION.cff").read_text()
    assert f"\n## {version}" in (REPO / "CHANGELOG.md").read_text()
    assert "Apache License" in (REPO / "LICENSE").read_text()
    assert project["license"] == "Apache-2.0"


def wheel(folder: Path, *options: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", *options, "--outdir", str(folder), str(REPO)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("hfprep-*.whl")
    return made


def test_wheel_is_whole(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling, the build backend, is not installed")
    with zipfile.ZipFile(wheel(tmp_path, "--no-isolation")) as packed:
        names = set(packed.namelist())
    recipes = {f"hfprep/pipelines/{file.name}" for file in (REPO / "pipelines").glob("*.toml")}
    modules = {file.relative_to(REPO).as_posix() for file in (REPO / "hfprep").rglob("*.py")}
    assert "hfprep/pipelines/stacked_t3.toml" in recipes
    assert recipes | modules | {"hfprep/py.typed"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"hfprep"}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_wheel_builds_a_store_from_another_folder(tmp_path: Path) -> None:
    """A clean environment with the wheel alone: version, a bundled recipe by name, a store. Needs a package index or its cache."""
    made = wheel(tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(made)], check=True)
    away = tmp_path / "away"
    away.mkdir()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*args: str) -> str:
        done = subprocess.run([python.with_name("hfprep"), *args], cwd=away, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert hfprep.__version__ in run("--version")
    run("build", str(REPO / "manifests" / "demo.csv"), "-o", "here.zarr", "-p", "stacked_t3", "--limit", "6")
    assert json.loads(run("inspect", "here.zarr", "--json"))
    code = "import importlib.util as u, hfprep; assert u.find_spec('torch') is None; print(hfprep.__file__)"
    there = subprocess.run([python, "-c", code], cwd=away, env=env, capture_output=True, text=True, check=True).stdout
    assert str(tmp_path / "env") in there
