"""Manifests of folders: classes, splits, recordings that stay together, and what the reader makes of them."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprep import folders, manifest, tables
from hfprep.cli import group
from hfprep.errors import ClipError, ManifestError, UsageError


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")


def test_a_folder_a_class(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "set/jump/b.mp4",
        "set/jump/a.AVI",
        "set/sit/deep/c.mkv",
        "set/notes.txt",
        "set/loose.mp4",
        "set/.hidden/x.mp4",
        "set/run/.x.mp4",
    )
    made = folders.from_folder(tmp_path / "set", tmp_path / "lists/m.csv")
    assert made.text() == "video,label\n../set/jump/a.AVI,jump\n../set/jump/b.mp4,jump\n../set/sit/deep/c.mkv,deep\n"
    said = " ".join(made.notes)
    assert "3 videos in 2 classes" in said
    assert "1 files that are no videos" in said
    assert "1 videos directly in the folder" in said


def test_the_reader_finds_the_same_files(tmp_path: Path) -> None:
    touch(tmp_path, 'set/a, b/say "hi".mp4', "set/~/ü.mp4", "set/#1/50% x.mp4")
    made = folders.from_folder(tmp_path / "set", tmp_path / "set/m.csv")
    (tmp_path / "set/m.csv").write_text(made.text())
    read = manifest.read(tmp_path / "set/m.csv")
    assert {c.label for c in read.clips} == {"a, b", "~", "#1"}
    assert all(Path(c.video).is_file() for c in read.clips)
    assert read.faults == ()


def test_ucf101_groups_stay_in_one_split(tmp_path: Path) -> None:
    names = [f"v_Jump_g{g:02d}_c{c:02d}.avi" for g in (1, 2) for c in (1, 2, 3)]
    touch(tmp_path, *(f"Jump/{n}" for n in names), "Jump/other.avi")
    rows = folders.from_folder(tmp_path, tmp_path / "m.csv").rows
    assert [(Path(r[0]).name, r[3]) for r in rows] == [("other.avi", ""), *((n, f"Jump_{n[7:10]}") for n in names)]


def test_splits_from_folders(tmp_path: Path) -> None:
    touch(tmp_path, "Train/jump/a.mp4", "validation/jump/b.mp4", "sit/test/c.mp4", "sit/d.mp4", "train/e.mp4")
    rows = folders.from_folder(tmp_path, tmp_path / "m.csv").rows
    assert {r[0]: (r[1], r[2]) for r in rows} == {
        "Train/jump/a.mp4": ("jump", "train"),
        "validation/jump/b.mp4": ("jump", "val"),
        "sit/test/c.mp4": ("sit", "test"),
        "sit/d.mp4": ("sit", ""),
        "train/e.mp4": ("train", ""),  # a class that is called train
    }


def test_numbered_pictures_are_a_video_where_their_rate_is_given(tmp_path: Path) -> None:
    touch(tmp_path, *(f"jump/one/{i:05d}.jpg" for i in range(5)), "jump/a.mp4", "jump/cover.jpg", "sit/two/img1.png", "sit/two/img2.png")
    without = folders.from_folder(tmp_path, tmp_path / "m.csv")
    assert [r[0] for r in without.rows] == ["jump/a.mp4"]
    assert "2 folders of numbered pictures" in " ".join(without.notes)
    rows = folders.from_folder(tmp_path, tmp_path / "m.csv", fps="25").rows
    assert rows == (("jump/a.mp4", "jump", "", "", ""), ("jump/one", "jump", "", "", "25"), ("sit/two", "sit", "", "", "25"))


def test_nothing_there(tmp_path: Path) -> None:
    touch(tmp_path, "set/a.mp4", "set/readme.txt")
    for folder, kind in (("gone", "missing_file"), ("set", "no_rows")):
        with pytest.raises(ManifestError) as fault:
            folders.from_folder(tmp_path / folder, tmp_path / "m.csv")
        assert fault.value.kind == kind


NAME = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(st.lists(st.tuples(NAME, NAME), min_size=1, max_size=5, unique=True))
@settings(max_examples=60)
def test_whatever_a_name_holds_the_manifest_gives_it_back_or_leaves_it_out(names: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for label, name in names:
            with contextlib.suppress(OSError):  # "..", or a name that is too long in UTF-8
                touch(root / "set", f"{label}/{name}.mp4")
        videos = {str(p) for p in (root / "set").rglob("*.mp4") if p.is_file()}
        try:
            made = folders.from_folder(root / "set", root / "m.csv")
        except ManifestError:
            return
        made.write(root / "m.csv")
        read = manifest.read(root / "m.csv")
        assert [f for f in read.faults if not f.warning] == []
        assert len(read.clips) == len(made.rows)
        found = {os.path.normpath(c.video): c.label for c in read.clips}
        assert set(found) <= videos
        assert all(label == Path(video).parent.name.strip(tables.AROUND) for video, label in found.items())


def test_a_class_whose_name_a_manifest_would_split_is_left_out(tmp_path: Path) -> None:
    touch(tmp_path, "set/run|jump/x.mp4", "set/sit/y.mp4")
    made = folders.from_folder(tmp_path / "set", tmp_path / "m.csv")
    assert [row[1] for row in made.rows] == ["sit"]
    assert any("1 names of classes with |" in note and "rename" in note for note in made.notes)


def test_names_that_are_no_text_are_left_out_and_counted(tmp_path: Path) -> None:
    touch(tmp_path, "set/a/x.mp4")
    os.close(os.open(os.fsencode(tmp_path / "set/a") + b"/\xff.mp4", os.O_CREAT))
    made = folders.from_folder(tmp_path / "set", tmp_path / "m.csv")
    assert len(made.rows) == 1 and any("1 names with bytes that are no UTF-8" in note for note in made.notes)


def test_the_command(tmp_path: Path) -> None:
    touch(tmp_path, "set/train/jump/a.mp4", "set/test/sit/b.mp4")
    run = partial(CliRunner().invoke, group, catch_exceptions=False, standalone_mode=False)
    out = tmp_path / "new/m.csv"
    told = run(["manifest", "from-folder", str(tmp_path / "set"), "-o", str(out)])
    assert told.return_value == 0 and "2 rows" in told.output and "train 1, test 1" in told.output and "hfprep build" in told.output
    assert out.read_text().splitlines()[0] == "video,label,split"
    with pytest.raises(UsageError, match="--overwrite"):
        run(["manifest", "from-folder", str(tmp_path / "set"), "-o", str(out)])
    told = run(["manifest", "from-folder", str(tmp_path / "set"), "-o", str(out), "--overwrite", "--json"])
    assert json.loads(told.output)["classes"] == ["jump", "sit"]


def test_only_a_file_is_replaced(tmp_path: Path) -> None:
    touch(tmp_path, "set/jump/a.mp4", "file")
    run = partial(CliRunner().invoke, group, catch_exceptions=False, standalone_mode=False)
    os.mkfifo(tmp_path / "pipe")
    for out in (tmp_path / "pipe", tmp_path / "set"):
        with pytest.raises(UsageError, match="no file that could be replaced"):
            run(["manifest", "from-folder", str(tmp_path / "set"), "-o", str(out), "--overwrite"])
    with pytest.raises(ManifestError, match="cannot be written"):
        run(["manifest", "from-folder", str(tmp_path / "set"), "-o", str(tmp_path / "file" / "m.csv")])
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    (tmp_path / "real.csv").write_text("old")
    run(["manifest", "from-folder", str(tmp_path / "set"), "-o", str(tmp_path / "link.csv"), "--overwrite"])
    assert (tmp_path / "link.csv").is_symlink() and "jump" in (tmp_path / "real.csv").read_text()
    with pytest.raises(ClipError, match="'abc' is no rate"):
        run(["manifest", "from-folder", str(tmp_path / "set"), "-o", str(tmp_path / "m.csv"), "--fps", "abc"])


def test_what_is_not_taken_is_told(tmp_path: Path) -> None:
    touch(tmp_path, "set/jump/a.mp4", "set/train/b.mp4", *(f"set/jump/{k}.png" for k in range(3)))
    (tmp_path / "set/link").symlink_to(tmp_path / "set/jump")
    (tmp_path / "set/jump/gone.mp4").symlink_to(tmp_path / "nothing")
    said = " ".join(folders.from_folder(tmp_path / "set", tmp_path / "m.csv", fps="25").notes)
    for words in ("1 links to folders", "1 links that lead nowhere", "beside other pictures or videos", "directly in a folder train"):
        assert words in said
