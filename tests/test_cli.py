"""The command line: exit codes, one line for each fault, and nothing on the wrong stream."""

from __future__ import annotations

import json
from pathlib import Path

import drawn
import pytest

from hfprep.cli import COMMANDS, main

SMALL = ["--set", "frame.height=32", "--set", "frame.width=40", "--set", "window.size=6", "--set", "window.per_clip=2", "-j", "1"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own as working directory and cache, with one manifest of two good rows and one bad."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HFPREP_CACHE", str(tmp_path / "cache"))
    for k in range(2):
        drawn.write(tmp_path / f"v{k}.mp4", drawn.steady(30, 40), first=100 * k)
    (tmp_path / "good.csv").write_text("video,label,split\nv0.mp4,a,train\nv1.mp4,b,train\n")
    (tmp_path / "bad.csv").write_text("video,label,split\nv0.mp4,a,train\nabsent.mp4,b,train\n")
    return tmp_path


def run(*args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_ends_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "--help") == 0
    assert f"Example: hfprep {command}" in capsys.readouterr().out


def test_build_names_its_store_after_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("build", "good.csv", *SMALL) == 0
    out, err = capsys.readouterr()
    assert Path("good.zarr/zarr.json").is_file()
    assert "good.zarr: 4 windows" in out and "6 frames every 100 ms: 0.5 s" in out
    assert err == ""


def test_a_quarantined_row_is_named_on_stderr_and_gives_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("build", "bad.csv", "-o", "out.zarr", "-q", *SMALL) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "row 2 (line 3)" in err and "absent.mp4" in err and "[missing_file]" in err


def test_plan_says_the_same_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "bad.csv", "--json", *SMALL) == 3
    told = json.loads(capsys.readouterr().out)
    # one window has 6 + 2 x 2 ticks of 32 x 40 pixels
    assert (told["clips"], told["windows"], told["raw_bytes"]["windows"]) == (1, 2, 2 * 10 * 32 * 40 * 3)
    assert [(r["row"], r["kind"]) for r in told["rows_at_fault"]] == [(2, "missing_file")]
    assert not list(Path().glob("*.zarr"))


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["biuld", "good.csv"], 2, "Did you mean 'build'"),
        (["build", "good.csv", "--set", "window.sise=3"], 2, "did you mean 'window.size'"),
        (["build", "good.csv", "-p", "stacked"], 2, "stacked_t3"),
        (["build", "good.csv", "--clip-timeout", "3"], 2, "--engine processes"),
        (["build", "none.csv"], 1, "none.csv"),
        (["inspect", "good.csv"], 1, "good.csv"),
        (["build"], 2, "MANIFEST"),
    ],
)
def test_a_fault_is_one_line(args: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*args) == code
    out, err = capsys.readouterr()
    assert out == "" and words in err
    assert [line for line in err.splitlines() if "error:" in line] == [err.splitlines()[-1]]
    assert "Traceback" not in err


def test_debug_shows_where_it_came_from() -> None:
    with pytest.raises(Exception, match=r"none\.csv"):
        main(["--debug", "build", "none.csv"])


@pytest.mark.parametrize(
    ("typed", "offered", "left_out"),
    [
        ("hfprep in", "inspect", "build"),
        ("hfprep build --set window.s", "window.size=", "frame.height="),
        ("hfprep plan -p stack", "stacked_t3", "cover"),
    ],
)
def test_the_tab_key(typed: str, offered: str, left_out: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    monkeypatch.setenv("_HFPREP_COMPLETE", "bash_complete")
    run()
    words = [line.partition(",")[2] for line in capsys.readouterr().out.splitlines()]
    assert offered in words and left_out not in words
