"""The README: its blocks run, its commands and options exist, its links lead somewhere, its figures are the program's."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hfprep import pipeline, resample, windows
from hfprep.cli import COMMANDS
from hfprep.planned import BuildOptions, plan_build
from hfprep.records import SPLITS

REPO = Path(__file__).resolve().parent.parent
README = (REPO / "README.md").read_text(encoding="utf-8")
SHOWN = [REPO / "README.md", REPO / "manifests" / "README.md", *sorted((REPO / "docs").glob("*.md"))]


@dataclass(frozen=True)
class Block:
    needs: str
    language: str
    code: str


BLOCKS = [Block(*found) for found in re.findall(r"<!-- run ?(\w*) -->\n```(\w+)\n(.*?)```", README, re.DOTALL)]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with the manifests as a clone has them, and an environment in which `hfprep` is this repository's."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "manifests").symlink_to(REPO / "manifests")
    programs = tmp_path_factory.mktemp("bin")
    command = programs / "hfprep"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hfprep "$@"\n')
    command.chmod(0o755)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(REPO), "HFPREP_CACHE": str(folder / ".cache")}
    return folder, env


def run(block: Block, desk: tuple[Path, dict[str, str]]) -> str:
    folder, env = desk
    shell = {"sh": ["sh", "-e", "-c"], "python": [sys.executable, "-c"]}[block.language]
    done = subprocess.run([*shell, block.code], cwd=folder, env=env, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_blocks_that_are_marked_run(desk: tuple[Path, dict[str, str]]) -> None:
    """In the README's order and in one folder, as a reader would: later blocks use the stores of earlier ones."""
    assert {block.language for block in BLOCKS} == {"sh", "python"}
    for block in BLOCKS:
        if block.needs and importlib.util.find_spec(block.needs) is None:
            continue
        assert run(block, desk).strip(), f"prints nothing:\n{block.code}"


def test_torch_loop_is_ten_lines() -> None:
    """From the first line that uses the dataset to the optimiser's step."""
    (loop,) = [block.code for block in BLOCKS if block.needs == "torch"]
    lines = [line for line in loop.splitlines() if line.strip() and not line.startswith(("import", "from", "print"))]
    assert len(lines) <= 10


def test_first_screen_names_the_two_commands() -> None:
    first = "\n".join(README.splitlines()[:24])
    assert "\nmake demo " in first
    assert "\nmake test " in first


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_demo_builds_and_inspects(tmp_path: Path) -> None:
    """What `make demo` would run in a clone without an environment; nothing is run."""
    done = subprocess.run(["make", "-n", "demo", f"VENV={tmp_path}/env"], cwd=REPO, capture_output=True, text=True, check=True)
    steps = [line.split(maxsplit=1) for line in done.stdout.splitlines() if "/hfprep " in line]
    assert [rest for _, rest in steps] == ["build manifests/demo.csv -o demo.zarr --overwrite", "inspect demo.zarr"]
    assert "torch" not in done.stdout
    assert "[dev]" not in done.stdout


def test_shown_output_is_what_the_demo_gives(tmp_path: Path) -> None:
    """The class table under `make demo` against a plan of the demo with the defaults."""
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    made = plan_build(REPO / "manifests" / "demo.csv", pipeline.Pipeline(), BuildOptions(cache=tmp_path)).plan
    for number, name in enumerate(made.classes):
        mine = [i for i, clip in enumerate(made.clips) if clip.label == name]
        windows = [sum(int(made.counts[i]) for i in mine if made.splits[i] == split) for split in SPLITS]
        before = sum(int(made.base_counts[i]) for i in mine if made.splits[i] == "train")
        line = rf"^{name} +{windows[0]} +{before} +{windows[1]} +{windows[2]} +{len(mine)} +{made.class_weight[number]:.3f}$"
        assert re.search(line, shown, re.MULTILINE), (name, windows, before, len(mine))
    assert f" {int(made.counts.sum())} windows of {len(made.clips)} clips" in shown


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.relative_to(REPO).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.relative_to(REPO).as_posix())
def test_commands_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code = re.findall(r"```.*?```", text, re.DOTALL) + re.findall(r"`hfprep [^`\n]+`", text)
    named = {name for part in code for name in re.findall(r"(?:^|`)hfprep ([a-z]+)", part, re.MULTILINE)}
    assert named <= set(COMMANDS)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_command_and_its_options_are_as_in_the_table(command: str) -> None:
    rows = [line.split(" | ")[0] for line in README.splitlines() if line.startswith(f"| `hfprep {command} ")]
    assert len(rows) == 1, f"{command} must stand once in the table of commands"
    words = re.findall(r"[a-z-]+(?= )", rows[0].partition("`hfprep ")[2].partition(" [")[0].partition(" -")[0] + " ")
    page = subprocess.run(
        [sys.executable, "-m", "hfprep", *words, "--help"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout
    for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", rows[0]):
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", page), f"{command} has no {option}"


def test_recipes_named_exist_and_all_are_named() -> None:
    recipes = {file.stem for file in pipeline.bundled().glob("*.toml")}
    for name in recipes:
        assert f"`{name}`" in README


def test_keys_named_exist() -> None:
    """Pipeline keys in the prose, as `window.size`, and attributes of their tables."""
    table = pipeline.Pipeline().model_dump()
    for page in SHOWN:
        for name, key in re.findall(
            r"`(frame|window|hotspot|balance|split|imu|store)\.([a-z_]+)\b(?!\()", page.read_text(encoding="utf-8")
        ):
            assert key in table[name] or key == "toml", f"{page.name}: {name}.{key}"


def table(page: str, heading: str) -> list[list[str]]:
    """Cells of the rows under a table's heading line."""
    lines = (REPO / "docs" / page).read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(heading)) + 2
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_documented_frames_are_those_shown() -> None:
    starts = {"25 frames/s": [0, 40, 80, 120, 160, 200, 240, 280, 320], "30 frames/s": [k * 100 / 3 for k in range(12)]}
    starts |= {"2 frames/s": [0, 500, 1000], "variable": [0, 90, 250, 310]}
    rows = table("time-and-edges.md", "| frames at")
    assert len(rows) == len(starts)
    for (first, *shown), (words, times) in zip(rows, starts.items(), strict=True):
        assert words in first
        pts = np.array([int(t * 1_000_000 + 1e-3) for t in times])
        assert [str(int(pts[i]) // 1_000_000) for i in resample.shown_at(pts, np.arange(4) * 100_000_000)] == shown


def test_documented_edges_are_clamped() -> None:
    rows = table("time-and-edges.md", "| window of 4 in a clip of 3 ticks")
    assert len(rows) == 3
    for centre, (_, frames, repeats) in enumerate(rows):
        index, clamped = windows.clamp(np.array([centre]), 4, 3)
        assert " ".join(map(str, index[0])) == frames
        words = {
            (True, True, False, False): "the first two",
            (True, False, False, False): "the first",
            (False, False, False, True): "the last",
        }
        assert words[tuple(clamped[0].tolist())] == repeats


def names(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def test_architecture_is_what_the_import_rules_hold() -> None:
    """Each line of the page is a layer; a layer in brackets (a room to come) may be missing."""
    contracts = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [{name.strip() for name in layer.split("|")} for c in contracts if c["type"] == "layers" for layer in c["layers"]]
    sure = [needed for layer in layers if (needed := {name for name in layer if not name.startswith("(")})]
    rows = [names(row[1]) for row in table("architecture.md", "| line | modules")]
    assert rows == sure
    assert {name for row in rows for name in row} <= {path.stem for path in (REPO / "hfprep").iterdir()}
    allowed = {
        c["protected_modules"][0]: {m.removeprefix("hfprep.") for m in c["allowed_importers"]}
        for c in contracts
        if c["type"] == "protected"
    }
    assert {row[0]: names(row[1]) for row in table("architecture.md", "| library")} == allowed
