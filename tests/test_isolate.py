"""What kills or hangs a worker process costs one clip."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import drawn
import pytest

import hfprep
from hfprep import isolate
from hfprep.build import build_store
from hfprep.pipeline import load
from hfprep.planned import BuildOptions

RECIPE = load(None, ("frame.height=32", "frame.width=40", "window.size=6", "window.per_clip=4", "store.windows_per_shard=3", "split.val=0"))

# Put before the worker's own code: the decoder of one clip misbehaves, as a C library can.
BAD_DECODER = """
import os, signal, time
from hfprep import prepare
real = prepare.decode.frames
def frames(timeline, *rest):
    if timeline.path.endswith("v1.mp4"):
        {deed}
    return real(timeline, *rest)
prepare.decode.frames = frames
"""


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    for k in range(4):
        drawn.write(folder / f"v{k}.mp4", drawn.steady(30, 40), first=100 * k)
    (folder / "m.csv").write_text("video,label\n" + "".join(f"v{k}.mp4,{'ab'[k % 2]}\n" for k in range(4)))
    return folder


@pytest.fixture
def decoder_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Make the workers' decoder do something when it meets v1.mp4."""

    def arrange(deed: str) -> None:
        isolate.end_idle()
        (tmp_path / "sitecustomize.py").write_text(BAD_DECODER.format(deed=deed))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    yield arrange
    isolate.end_idle()


def run(videos: Path, out: Path, tmp_path: Path, **kwargs: object) -> list[tuple[int, str]]:
    summary = build_store(
        videos / "m.csv",
        out,
        RECIPE,
        options=BuildOptions(engine="processes", jobs=1, cache=tmp_path / "c", **kwargs),  # type: ignore[arg-type]
    )
    return [(f.row, f.kind) for f in summary.faults]


def test_processes_give_the_bytes_of_threads(videos: Path, tmp_path: Path) -> None:
    build_store(videos / "m.csv", tmp_path / "threads.zarr", RECIPE, options=BuildOptions(cache=tmp_path / "c"))
    assert run(videos, tmp_path / "processes.zarr", tmp_path) == []  # whichever worker takes which block
    for file in (tmp_path / "threads.zarr").rglob("*"):
        if file.is_file():
            assert file.read_bytes() == (tmp_path / "processes.zarr" / file.relative_to(tmp_path / "threads.zarr")).read_bytes()


def test_a_decoder_that_kills_its_process_costs_one_clip(videos: Path, tmp_path: Path, decoder_does) -> None:  # type: ignore[no-untyped-def]
    decoder_does("os.kill(os.getpid(), signal.SIGSEGV)")
    assert run(videos, tmp_path / "s.zarr", tmp_path) == [(2, "crashed")]
    assert "signal 11" in hfprep.open_store(tmp_path / "s.zarr").clips["error"][1]


def test_a_decoder_that_kills_its_process_once_costs_nothing(videos: Path, tmp_path: Path, decoder_does) -> None:  # type: ignore[no-untyped-def]
    mark = tmp_path / "killed"
    decoder_does(f"None if os.path.exists({str(mark)!r}) else (open({str(mark)!r}, 'w').close(), os.kill(os.getpid(), signal.SIGKILL))")
    assert run(videos, tmp_path / "s.zarr", tmp_path) == []
    assert mark.exists()


def test_a_decoder_that_hangs_costs_one_clip(videos: Path, tmp_path: Path, decoder_does) -> None:  # type: ignore[no-untyped-def]
    decoder_does("time.sleep(3600)")
    assert run(videos, tmp_path / "s.zarr", tmp_path, clip_timeout_s=10.0) == [(2, "timeout")]


def test_workers_die_with_their_parent(tmp_path: Path) -> None:
    code = "from hfprep.isolate import Child; c = Child(); print(c._process.pid, flush=True); import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    for _ in range(600):
        try:
            os.kill(child, 0)
            if Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return  # dead, its new parent has not looked yet
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.1)
    pytest.fail("the worker outlived its parent")
