"""A manifest cannot make hfprep write outside OUT, run a program or open anything but local files."""

from __future__ import annotations

import ast
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import drawn
import pytest

import hfprep
from hfprep.build import build_store
from hfprep.pipeline import load
from hfprep.planned import BuildOptions

RECIPE = load(None, ("frame.height=32", "frame.width=32", "window.size=4", "window.per_clip=2"))
SOURCES = sorted((Path(hfprep.__file__).parent).rglob("*.py"))


def inventory(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in folder.rglob("*")}


def test_names_in_a_manifest_never_reach_outside_the_store(tmp_path: Path) -> None:
    home = tmp_path / "in"
    drawn.write(home / "v.mp4", drawn.steady(12, 40)) if home.mkdir() is None else None
    odd = [
        "../../../up",
        "/abs/olute",
        "..",
        "a/../../b",
        "-o",
        "|touch x",
        "$(touch x)",
        "`touch x`",
        "%s%n",
        "C:\\x",
        "zarr.json",
        "{0}",
        "~",
    ]
    rows = [f'v.mp4,"{name}","{name}{k}","{name}","{name}"' for k, name in enumerate(odd)]
    (home / "m.csv").write_text("video,label,id,group,../../extra\n" + "\n".join(rows) + "\n")
    before = inventory(tmp_path)
    summary = build_store(home / "m.csv", home / "out" / "s.zarr", RECIPE, options=BuildOptions(cache=home / "cache"))
    assert summary.clips == len(odd)
    after = inventory(tmp_path)
    new = {path for path in after if path not in before}
    allowed = (str(home / "out"), str(home / "cache"))
    assert {path for path in new if not path.startswith(allowed)} == set()
    assert {path for path in before if after[path] != before[path]} <= {str(home)}
    store = hfprep.open_store(summary.out)
    # and nothing of what was written is lost: "|" parts the classes of a clip, and one without a name is none
    assert sorted(store.clips["label"]) == sorted(name.removeprefix("|") for name in odd)
    assert all(Path(path).resolve().is_relative_to(summary.out) for path in new if path.startswith(str(home / "out" / "s.zarr")))


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A port that tells who knocks."""
    knocks: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                knocks.append(b"")
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], knocks
        stop.set()
        thread.join()


def test_nothing_but_local_files_is_opened(tmp_path: Path, listener: tuple[int, list[bytes]]) -> None:
    port, knocks = listener
    url = f"http://127.0.0.1:{port}/x.ts"
    drawn.write(tmp_path / "v.mp4", drawn.steady(12, 40))
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{url}\n#EXT-X-ENDLIST\n"
    lists = {
        "a.m3u8": playlist,
        "b.mp4": playlist,
        "c.ts": f"ffconcat version 1.0\nfile '{url}'\n",
        "d.ffconcat": "ffconcat version 1.0\nfile v.mp4\n",
    }
    lists["e.sdp"] = f"v=0\nc=IN IP4 127.0.0.1\nm=video {port} RTP/AVP 96\na=rtpmap:96 H264/90000\n"
    lists["f.mpd"] = f'<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><BaseURL>{url}</BaseURL></MPD>'
    for name, text in lists.items():
        (tmp_path / name).write_text(text)
    paths = [
        *lists,
        url,
        f"tcp://127.0.0.1:{port}",
        f"concat:{tmp_path}/v.mp4",
        f"subfile,,start,0,end,9,,:{tmp_path}/v.mp4",
        "pipe:0",
        "-",
        "lavfi:testsrc",
    ]
    (tmp_path / "m.csv").write_text("video,label\n" + "".join(f'"{path}",a\n' for path in ["v.mp4", *paths]))
    summary = build_store(tmp_path / "m.csv", tmp_path / "s.zarr", RECIPE, options=BuildOptions(cache=tmp_path / "cache"))
    assert [fault.row for fault in summary.faults] == list(range(2, len(paths) + 2))
    assert {fault.kind for fault in summary.faults} <= {"not_a_video", "unsupported_path", "missing_file", "no_video_stream"}
    assert knocks == []


def test_the_package_runs_no_shell_and_loads_no_code_from_data() -> None:
    assert len(SOURCES) > 40
    banned = {"pickle", "shelve", "marshal", "dill", "cloudpickle", "joblib"}
    for source in SOURCES:
        tree = ast.parse(source.read_text())
        # MultiSports is published as a pickle: it is read by an Unpickler whose find_class refuses all but plain values, nowhere else
        allowed = {"pickle"} if source.parts[-2:] == ("importers", "timed.py") else set()
        if allowed:
            classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and "pickle.Unpickler" in map(ast.unparse, n.bases)]
            assert classes and all("find_class" in {f.name for f in c.body if isinstance(f, ast.FunctionDef)} for c in classes)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {node.module or ""} if isinstance(node, ast.ImportFrom) else {alias.name for alias in node.names}
                assert not names & (banned - allowed), f"{source}: {names}"
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "os.system", "os.popen", "__import__"), f"{source}:{node.lineno}"
                assert called not in ("pickle.load", "pickle.loads", "pickle.Unpickler"), f"{source}:{node.lineno}"
                words = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                assert words.get("shell", "False") == "False", f"{source}:{node.lineno}"
                if called in ("np.load", "numpy.load"):
                    assert words.get("allow_pickle", "False") == "False", f"{source}:{node.lineno}"
                if called == "torch.load":
                    assert words.get("weights_only") == "True", f"{source}:{node.lineno}"
