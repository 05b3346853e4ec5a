"""Clips of several classes: what a cell names, how rows are balanced, what the store, the dataset and the reports say."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import Any

import drawn
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import hfprep
from hfprep import balance, labels, manifest
from hfprep.build import build_store
from hfprep.cli import group
from hfprep.labels import Members
from hfprep.pipeline import Pipeline, fingerprint, load
from hfprep.planned import BuildOptions
from hfprep.report.facts import facts
from hfprep.report.verify import verify
from hfprep.report.window import window
from hfprep.rewindow import rewindow

ROWS = (("run", "train"), ("run", "train"), ("run|jump", "train"), ("jump | run", "train"), ("jump|wave", "train"), ("wave|run", "test"))
CLASSES = ["jump", "run", "wave"]
SIZES = ("frame.height=32", "frame.width=40", "frame.fit=stretch", "frame.interval_ms=40", "window.size=4", "window.per_clip=3")
# Training clips of jump, run, wave: 3, 4, 1, so the factors are 4/3, 1, 4, and a row has that of its rarest class.
COUNTS = [3, 3, 4, 4, 12]
WEIGHTS = {"jump": 46 / (20 * 3), "run": 46 / (14 * 3), "wave": 46 / (12 * 3)}  # 20, 14 and 12 of 46 labels in 26 windows


def test_examples() -> None:
    assert doctest.testmod(labels).failed == 0


@given(names=st.lists(st.text("ab|, ", min_size=1), max_size=4), separator=st.sampled_from(["|", ";", "", " + "]))
def test_what_is_written_is_read_again(names: list[str], separator: str) -> None:
    """`clips/label` holds the names with the separator between: reading it gives the same names."""
    clean = tuple(dict.fromkeys(n.strip() for n in names if n.strip() and (not separator or separator not in n)))
    if separator or len(clean) == 1:
        assert labels.names(separator.join(clean), separator) == clean


def test_a_table_and_the_largest_of_each() -> None:
    members = Members.of([("b",), ("c", "a"), ("b", "c")], "abc")
    assert members.table(3).tolist() == [[False, True, False], [True, False, True], [False, True, True]]
    assert members.largest(np.array([5.0, 1.0, 3.0])).tolist() == [1.0, 5.0, 3.0]
    some = members.where(np.array([False, True, True]))
    assert some.count == 2 and np.array_equal(some.table(3), members.table(3)[1:])
    assert members.repeated(np.array([2, 0, 1])).tolist() == [1, 1, 1, 2]
    assert Members.of([], "abc").largest(np.zeros(3)).tolist() == []


def test_rows_are_balanced_by_their_rarest_class() -> None:
    members = Members.of([tuple(n.strip() for n in cell.split("|")) for cell, split in ROWS if split == "train"], CLASSES)
    got = balance.window_counts(members, np.full(5, 99), per_clip=3, method="full", max_factor=8)
    assert got.tolist() == COUNTS
    assert balance.window_counts(members, np.full(5, 99), per_clip=3, method="full", max_factor=2).tolist() == [3, 3, 4, 4, 6]
    assert balance.window_counts(members, np.full(5, 99), per_clip=3, method="none", max_factor=8).tolist() == [3] * 5


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    lines = ["video,label,split"]
    for k, (label, split) in enumerate(ROWS):
        drawn.write(folder / f"v{k}.mp4", drawn.steady(60, 40), first=60 * k)
        lines.append(f"v{k}.mp4,{label},{split}")
    (folder / "m.csv").write_text("\n".join(lines) + "\n")
    return folder


def built(videos: Path, out: Path, *more: str) -> Path:
    recipe: Pipeline = load(None, (*SIZES, *more))
    return build_store(videos / "m.csv", out, recipe, options=BuildOptions(cache=videos / "cache", jobs=1)).out


@pytest.fixture(scope="module", params=["windows", "frames"])
def store(request: pytest.FixtureRequest, videos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(videos, tmp_path_factory.mktemp("store") / "s.zarr", f"store.layout={request.param}")


def test_the_store_has_a_row_of_classes_for_each_window(store: Path) -> None:
    opened = hfprep.open_store(store)
    assert opened.classes == CLASSES
    for split in ("train", "test"):
        rows = opened[split].read(range(len(opened[split])))
        assert "label" not in rows and rows["labels"].dtype == bool
        for k, clip in enumerate(rows["clip"].tolist()):
            names = {name.strip() for name in ROWS[clip][0].split("|")}
            assert {CLASSES[n] for n in np.flatnonzero(rows["labels"][k])} == names
            wanted = max(WEIGHTS[name] for name in names) if split == "train" else 1.0
            assert rows["weight"][k] == pytest.approx(wanted, abs=1e-6)
    assert np.bincount(opened["train"].columns["clip"]).tolist() == COUNTS
    assert opened.attrs["class_weight"] == pytest.approx([WEIGHTS[name] for name in CLASSES], abs=1e-6)
    assert opened.attrs["positive_weight"] == pytest.approx([6 / 20, 12 / 14, 14 / 12], abs=1e-6)
    array: Any = zarr.open_group(store, mode="r")["train/labels"]
    assert array.metadata.dimension_names == ("window", "class") and array.shape == (26, 3)
    assert verify(store).good


def test_inspect_counts_a_window_in_each_of_its_classes(store: Path) -> None:
    found = facts(store)
    by_name = {row["label"]: row for row in found["classes"]}
    assert {name: row["windows"]["train"] for name, row in by_name.items()} == {"jump": 20, "run": 14, "wave": 12}
    assert {name: row["unbalanced_train_windows"] for name, row in by_name.items()} == {"jump": 9, "run": 12, "wave": 3}
    assert {name: row["clips"]["train"] for name, row in by_name.items()} == {"jump": 3, "run": 4, "wave": 1}
    assert found["labels"]["mean"] == pytest.approx((46 + 6) / 29) and found["labels"]["most"] == 2  # three of the test clip
    assert found["splits"]["train"]["windows"] == 26
    opened = hfprep.open_store(store)
    row = opened["train"].columns["clip"].tolist().index(4)
    assert window(opened, "train", row).title.startswith("jump, wave · ")
    printed = CliRunner().invoke(group, ["inspect", str(store)]).output
    assert "several a window: 1.79 on average, at most 2; 23 windows with more than one" in " ".join(printed.split())  # 52 / 29


def test_the_dataset_gives_sets(store: Path) -> None:
    pytest.importorskip("torch")
    from hfprep.dataset import HyperframeDataset, loader

    train = HyperframeDataset(store, "train", t=3)
    batch = next(iter(loader(train, 5, shuffle=False)))
    assert batch["labels"].shape == (5, 3) and str(batch["labels"].dtype) == "torch.bool" and "label" not in batch
    assert np.array_equal(batch["labels"].numpy(), train.labels[:5])
    wave = train.labels[:, 2]
    assert (train.rarest[wave] == 2).all() and (train.rarest[~wave & train.labels[:, 1]] == 1).all()  # 12 wave, 14 run, 20 jump
    seen = np.concatenate([b["labels"].numpy() for b in loader(train, 5, sampler="weighted")])
    assert seen.shape == (26, 3) and 8 <= seen[:, 2].sum() <= 14  # of 26 windows each of two rarest classes gives 13


def test_other_windows_of_stored_ticks(videos: Path, tmp_path: Path) -> None:
    once = built(videos, tmp_path / "f.zarr", "store.layout=frames")
    made = rewindow(once, tmp_path / "new.zarr", ("window.per_clip=2", "balance.max_factor=2")).out
    again = built(videos, tmp_path / "again.zarr", "store.layout=frames", "window.per_clip=2", "balance.max_factor=2")
    assert verify(made).digest == verify(again).digest
    assert hfprep.open_store(made).attrs["positive_weight"] == hfprep.open_store(again).attrs["positive_weight"]


def test_one_label_everywhere_is_an_ordinary_store(tmp_path: Path) -> None:
    drawn.write(tmp_path / "v.mp4", drawn.steady(20, 40))
    (tmp_path / "m.csv").write_text("video,label\nv.mp4,run|\n")
    listed = manifest.read(tmp_path / "m.csv")
    assert listed.classes == ("run",) and listed.clips[0].label == "run" and not listed.faults


def test_a_bar_in_a_name_is_told_and_can_be_kept(videos: Path, tmp_path: Path) -> None:
    listed = manifest.read(videos / "m.csv")
    told = [f for f in listed.faults if f.kind == "several_labels"]
    assert len(told) == 1 and told[0].warning and (told[0].row, told[0].line) == (3, 4)
    assert "'run|jump'" in told[0].message and "4 of 6 rows" in told[0].message and "label.separator=" in told[0].message
    kept = manifest.read(videos / "m.csv", "")
    assert kept.classes == ("jump | run", "jump|wave", "run", "run|jump", "wave|run") and not [f for f in kept.faults if "sever" in f.kind]
    whole = built(videos, tmp_path / "w.zarr", "label.separator=", "store.layout=frames")
    opened = hfprep.open_store(whole)
    assert opened.classes == list(kept.classes) and "positive_weight" not in opened.attrs and "label_classes" not in opened.attrs["layout"]
    assert opened.classes[opened["test"].columns["label"][0]] == "wave|run"
    assert rewindow(whole, tmp_path / "n.zarr", ("window.per_clip=2",)).windows > 0


def test_other_separators_and_empty_sets(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("video,label\na.mp4,a;b\nb.mp4,|\nc.mp4,\n")
    assert [c.names for c in manifest.read(tmp_path / "m.csv", ";").clips] == [("a", "b"), ("|",)]
    bad = [f for f in manifest.read(tmp_path / "m.csv").faults if not f.warning]
    assert [(f.row, f.kind) for f in bad] == [(2, "bad_label"), (3, "bad_label")] and "'|' names none" in bad[0].message


def test_the_key_changes_no_fingerprint_at_its_default() -> None:
    assert fingerprint(load()) == fingerprint(load(None, ("label.separator=|",))) != fingerprint(load(None, ("label.separator=",)))


def test_plan_counts_each_window_once(videos: Path) -> None:
    arguments = ["plan", str(videos / "m.csv"), *(part for size in SIZES for part in ("--set", size))]
    printed = CliRunner().invoke(group, arguments).output
    table = {
        line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.split()[:1] and line.split()[0] in (*CLASSES, "all")
    }
    assert table == {
        "jump": ["3", "9", "20", "0", "0"],
        "run": ["5", "12", "14", "0", "3"],
        "wave": ["2", "3", "12", "0", "3"],
        "all": ["6", "15", "26", "0", "3"],
    }
    told = json.loads(CliRunner().invoke(group, [*arguments, "--json", "-q"]).output)
    assert told["windows"] == 29
