"""Importers: every published sample has the rows that counting in it by other means gives; what is missing is told; files are found."""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprep import importers, manifest
from hfprep.cli import group
from hfprep.cli import manifest as manifest_command
from hfprep.errors import ManifestError, UsageError
from hfprep.importers import files, rows
from hfprep.importers.rows import ImportOptions

# (kind, sample, options) -> rows, videos, classes, rows of each split. The numbers were counted in the samples, not with the importers:
SAMPLES = [
    # wc -l: 600 and 400 lines; cut -d/ -f1 | sort -u: 11 class folders
    ("ucf101", "ucf101", {}, 1000, 1000, 11, {"train": 600, "test": 400}),
    # python: len(database) 400, all of subset training; the names of its 400 entries hold 5 classes
    ("ucf101", "ucf101/ucf101_01.json", {}, 400, 400, 5, {"train": 400}),
    # awk '{c[$2]++}' over both files: 140 times 1 (train), 60 times 2 (test), 14 times 0 (not used)
    ("hmdb51", "hmdb51", {}, 200, 200, 2, {"train": 140, "test": 60}),
    # wc -l 300; awk '{print $2}' | sort | uniq -c: cartwheel 70, clap 70, climb 70, pushup 20, smile 70
    ("hmdb51", "coviar/hmdb51_split1_train.txt", {}, 300, 300, 5, {"train": 300}),
    # wc -l 403 with the header; first cells without it: 10 names
    ("kinetics", "kinetics/kinetics-400_val.csv", {}, 402, 402, 10, {"val": 402}),
    # wc -l 800; awk '{print $2}' | sort -u: 27 numbers
    ("jester", "jester/trainlist.txt", {}, 800, 800, 27, {"train": 800}),
    # 250 lines below the header; awk -F, '{print $11}' | sort -u: 21 verb classes; cut -d, -f3 | sort -u: 4 videos
    ("epic-kitchens", "epic100/EPIC_100_validation.csv", {}, 250, 4, 21, {"val": 250}),
    # 8 lines; (0f39OWEqJ24, 903) and (_-Z6wFjXtGQ, 902) are excluded: the 3 lines of one moment stay, actions 12, 17, 79
    ("ava", "ava/ava_sample.csv", {}, 1, 1, 3, {"": 1}),
    # python: 60 videos, 213 pairs in timestamps
    ("activitynet", "activitynet_captions/val_1.json", {}, 213, 60, 1, {"val": 213}),
    ("activitynet", "activitynet_captions/clip_v_ZNVhz7ctTq0.json", {}, 2, 1, 1, {"": 2}),
    # by eye: 3 segments of Wakeboarding and 1 of Cleaning shoes
    ("activitynet", "mmaction/gt_eval_localization.json", {}, 4, 2, 2, {"val": 4}),
    ("mmaction", "mmaction/action_test_anno.json", {}, 2, 2, 2, {"test": 2}),
    # csv.DictReader: 40 videos, 2 without actions, 426 parts between semicolons of 129 classes
    ("charades", "charades/Charades_v1_test.csv", {}, 426, 38, 129, {"test": 426}),
    # wc -l 200, sort -u 200; awk '{print $1}' | sort -u: 79 videos
    ("charades", "charades/charades_sta_test.txt", {}, 200, 79, 1, {"test": 200}),
    # by eye: the same line twice, in three of the files
    ("mmaction", "mmaction/video_test_list.txt", {}, 1, 1, 1, {"test": 1}),
    ("mmaction", "mmaction/rawframe_test_list.txt", {}, 1, 1, 1, {"test": 1}),
    ("mmaction", "mmaction/rawframe_test_list_with_offset.txt", {"form": "offset", "fps": "25"}, 1, 1, 1, {"test": 1}),
    # by eye: "imgs 5 1" and "imgs 5 3 5": 5 frames, classes 1; 3 and 5
    ("mmaction", "mmaction/rawframe_test_list_multi_label.txt", {}, 2, 1, 3, {"test": 2}),
    ("mmaction", "mmaction/rawvideo_test_anno.txt", {"form": "rawvideo"}, 1, 1, 1, {"test": 1}),
    # by eye: two true stretches of class 3, then 10 proposals
    ("mmaction", "mmaction/proposal_test_list.txt", {"fps": "25"}, 2, 1, 1, {"test": 2}),
    # wc -l: 173 and 688; 27 numbers of actions in each
    ("utd-mhad", "utd_mhad/rgb_val.txt", {}, 173, 173, 27, {"val": 173}),
    ("utd-mhad", "utd_mhad/inertial_train.txt", {}, 688, 688, 27, {"train": 688}),
    # the sheets have 83 and 93 rows, of which 7 each are heads, empty or "others:": 76 + 86; seq1 to seq20; activities 0 to 5
    ("ut-interaction", "ut_interaction/ut-interaction_labels_110912.xls", {}, 162, 20, 6, {"": 162}),
]


@pytest.fixture(scope="module")
def samples(shared: Path) -> Path:
    folder = shared / "real" / "annotations"
    if not folder.is_dir():
        pytest.skip(f"no samples of annotations at {folder}")
    return folder


@pytest.mark.parametrize("case", SAMPLES, ids=[case[1] for case in SAMPLES])
def test_a_published_sample_gives_its_rows_and_a_manifest_that_is_read_whole(samples: Path, tmp_path: Path, case: tuple) -> None:
    kind, name, said, n_rows, n_videos, n_classes, splits = case
    listed = importers.read(kind, samples / name, ImportOptions(**said))
    assert len(listed.rows) == n_rows
    assert len({row.video for row in listed.rows}) == n_videos
    assert len({label for row in listed.rows for label in row.labels}) == n_classes
    assert dict(Counter(row.split for row in listed.rows)) == splits
    made = files.place(listed, tmp_path, tmp_path / "m.csv", keep_missing=True)
    (tmp_path / "m.csv").write_text(made.text())
    read = manifest.read(tmp_path / "m.csv")
    assert len(read.clips) == n_rows and [fault for fault in read.faults if not fault.warning] == []


def test_samples_without_classes_are_refused_with_what_they_hold(samples: Path) -> None:
    # wc -l 19 ids; python: len 22 videos; len 2 videos; awk -F, '{print $NF}': 300 rows "test" and no column label
    for kind, name, said in (
        ("ego4d", "ego4d/moments_mini_train_uids.csv", "19 ids"),
        ("ego4d", "ego4d/mapping_vq2d_to_vq3d_queries_annotations_test.json", "22 videos and no classes"),
        ("something", "something/annotations.json", "2 videos and no classes"),
    ):
        with pytest.raises(ManifestError, match=said):
            importers.read(kind, samples / name)
    with pytest.raises(ManifestError, match="300 rows without a label"):
        importers.import_rows("kinetics", samples / "kinetics/kinetics-400_test.csv", "m.csv")


def test_times_groups_and_names_of_the_samples(samples: Path) -> None:
    epic = importers.read("epic-kitchens", samples / "epic100/EPIC_100_validation.csv").rows
    assert epic[0] == rows.Row("P01_11", ("take",), "0", "1.89", "val", "P01", caption="take plate")
    assert epic[1].labels == ("put",)  # the row says "put-down", its class 1 is "put" in EPIC_100_verb_classes.csv
    hmdb = importers.read("hmdb51", samples / "hmdb51").rows
    assert hmdb[0].group == "April_09" and hmdb[0].labels == ("brush_hair",)
    ava = importers.read("ava", samples / "ava/ava_sample.csv").rows
    assert (ava[0].start, ava[0].end, ava[0].labels) == ("900.5", "903.5", ("12", "17", "79"))
    ut = importers.read("ut-interaction", samples / "ut_interaction/ut-interaction_labels_110912.xls").rows
    assert (ut[0].video, ut[0].labels, ut[0].start, ut[0].end) == ("seq1", ("punch",), "25.4", "28.066666666")  # frames 762 to 841
    offset = importers.read("mmaction", samples / "mmaction/rawframe_test_list_with_offset.txt", ImportOptions(form="offset", fps="25"))
    assert (offset.rows[0].start, offset.rows[0].end) == ("0.08", "0.28")  # frames 2 to 6 at 25 a second


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def table(kind: str, source: Path, videos: Path, **said: str) -> list[dict[str, str]]:
    made = importers.import_rows(kind, source, source.parent / "m.csv", videos=videos, options=ImportOptions(**said))
    return [dict(zip(files.COLUMNS, row)) for row in made.rows]


def test_kinetics_takes_the_cut_file_else_the_span_of_the_whole_video(tmp_path: Path) -> None:
    source = write(
        tmp_path / "k_val.csv",
        "label,youtube_id,time_start,time_end,split\nair drumming,-aB_1,5,15,validate\nsit,xyz,0,10,val\nsit,gone,1,2,val\n",
    )
    touch(tmp_path, "v/air drumming/-aB_1_000005_000015.mp4", "v/xyz.mkv")
    made = importers.import_rows("kinetics", source, tmp_path / "m.csv", videos=tmp_path / "v")
    cells = [dict(zip(files.COLUMNS, row)) for row in made.rows]
    assert [(c["video"], c["start"], c["end"], c["split"], c["group"]) for c in cells] == [
        ("v/air drumming/-aB_1_000005_000015.mp4", "", "", "val", "-aB_1"),
        ("v/xyz.mkv", "0", "10", "val", "xyz"),
    ]
    assert made.missing == ("gone_000001_000002",)
    assert any("1 videos are not there: gone_000001_000002" in note for note in made.notes)


def test_something_something_and_jester_folders_of_pictures(tmp_path: Path) -> None:
    entries = [
        {"id": "7", "label": "moving cup up", "template": "Moving [something] up"},
        {"id": "8", "label": "x", "template": "Hold [it]"},
    ]
    source = write(tmp_path / "something-something-v2-train.json", json.dumps(entries))
    touch(tmp_path, "v/7.webm", "v/8.webm", "j/34870/00001.jpg", "j/34870/00002.jpg", "j/12.mp4")
    assert [(c["label"], c["split"]) for c in table("something", source, tmp_path / "v")] == [
        ("Moving something up", "train"),
        ("Hold it", "train"),
    ]
    jester = write(tmp_path / "jester-v1-validation.csv", "34870;Stop Sign\n12;Swiping Left\n")
    assert [(c["video"], c["label"], c["fps"]) for c in table("jester", jester, tmp_path / "j")] == [
        ("j/34870", "Stop Sign", "12"),
        ("j/12.mp4", "Swiping Left", ""),
    ]


def test_epic_kitchens_55_and_the_class_of_verb_and_noun(tmp_path: Path) -> None:
    head = "uid,participant_id,video_id,narration,start_timestamp,stop_timestamp,start_frame,stop_frame,verb,verb_class,noun,noun_class"
    source = write(
        tmp_path / "EPIC_train_action_labels.csv", f"{head}\n0,P01,P01_01,open door,00:00:00.14,01:00:03.37,8,202,open,2,door,8\n"
    )
    (row,) = importers.read("epic-kitchens", source, ImportOptions(target="action")).rows
    assert (row.labels, row.start, row.end, row.split, row.group) == (("open door",), "0.14", "3603.37", "train", "P01")


def test_hacs_as_json_and_as_clips(tmp_path: Path) -> None:
    nested = {
        "database": {
            "a": {"subset": "testing", "annotations": []},
            "b": {"subset": "training", "annotations": [{"segment": [1, 1], "label": "x"}]},
        }
    }
    left = importers.read("activitynet", write(tmp_path / "hacs.json", json.dumps(nested)))
    assert left.rows == () and set(left.notes) == {"1 videos without annotations: left out", "1 rows that end before they begin: left out"}
    clips = "classname,youtube_id,subset,start,end,label\nArchery,q,training,46.9,48.9,1\nArchery,q,training,2,4,-1\n"
    made = importers.read("activitynet", write(tmp_path / "HACS_clips_v1.1.csv", clips))
    assert made.rows == (rows.Row("q", ("Archery",), "46.9", "48.9", "train"),)
    assert made.notes == ("1 clips marked as not showing their class: left out",)


def test_ego4d_moments_and_long_term_anticipation(tmp_path: Path) -> None:
    label = {"label": "wash_hands", "primary": True, "start_time": 1, "end_time": 2, "video_start_time": 31.5, "video_end_time": 33.25}
    clips = [{"clip_uid": "c", "annotations": [{"labels": [label, {**label, "primary": False}]}]}]
    source = write(
        tmp_path / "moments_val.json", json.dumps({"split": "val", "videos": [{"video_uid": "v", "split": "val", "clips": clips}]})
    )
    made = importers.read("ego4d", source)
    assert made.rows == (rows.Row("v", ("wash_hands",), "31.5", "33.25", "val", "v"),)
    assert made.notes == ("1 labels that too few annotators agree on: left out",)
    action = {
        "video_uid": "v",
        "clip_parent_start_sec": 300,
        "action_clip_start_sec": 1.5,
        "action_clip_end_sec": 2,
        "verb": "cut",
        "noun": "onion",
    }
    made = importers.read(
        "ego4d", write(tmp_path / "fho_lta_train.json", json.dumps({"split": "train", "clips": [action]})), ImportOptions(target="action")
    )
    assert made.rows == (rows.Row("v", ("cut onion",), "301.5", "302", "train", "v"),)


def test_multisports_is_read_and_a_pickle_that_runs_something_is_refused(tmp_path: Path) -> None:
    tube = np.array([[3, 0, 0, 9, 9], [4, 0, 0, 9, 9], [5, 0, 0, 9, 9]], np.float32)  # frames 3 to 5, counted from 1
    truth = {"labels": ["volleyball serve", "football pass"], "gttubes": {"f/v_1": {1: [tube]}, "f/v_2": {0: [tube]}},
             "train_videos": [["f/v_1"]], "test_videos": [["f/v_2"]]}  # fmt: skip
    source = tmp_path / "multisports_GT.pkl"
    source.write_bytes(pickle.dumps(truth))
    made = importers.read("multisports", source)
    assert made.rows == (
        rows.Row("f/v_1", ("football pass",), "0.08", "0.2", "train", "f/v_1"),
        rows.Row("f/v_2", ("volleyball serve",), "0.08", "0.2", "test", "f/v_2"),
    )
    assert made.notes[0].startswith("6 boxes")
    harmful = tmp_path / "harmful.pkl"
    harmful.write_bytes(b"cos\nmkdir\n(S'" + os.fsencode(tmp_path / "made") + b"'\ntR.")
    with pytest.raises(ManifestError, match="asks for"):
        importers.read("multisports", harmful)
    assert not (tmp_path / "made").exists()


def test_utd_mhad_rows_have_the_inertial_file_of_their_take(tmp_path: Path) -> None:
    touch(tmp_path, "RGB/a1_s2_t3_color.avi", "RGB/a27_s8_t4_color.avi", "Inertial/a1_s2_t3_inertial.mat")
    made = importers.import_rows("utd-mhad", tmp_path, tmp_path / "m.csv")
    cells = [dict(zip(files.COLUMNS, row)) for row in made.rows]
    assert [(c["video"], c["label"], c["group"], c["imu"]) for c in cells] == [
        ("RGB/a1_s2_t3_color.avi", "swipe left", "s2", "Inertial/a1_s2_t3_inertial.mat"),
        ("RGB/a27_s8_t4_color.avi", "squat", "s8", ""),
    ]
    assert any("1 rows without their sensor file" in note for note in made.notes)


def test_lerobot_episodes_are_spans_of_shared_files(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    features = {"observation.images.top": {"dtype": "video"}, "action": {"dtype": "float32"}}
    path = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    write(
        tmp_path / "meta/info.json",
        json.dumps({"codebase_version": "v3.0", "features": features, "video_path": path, "splits": {"train": "0:2"}}),
    )
    (tmp_path / "meta/episodes/chunk-000").mkdir(parents=True)
    of = "videos/observation.images.top"
    columns = {"episode_index": [0, 1], "tasks": [["pick"], ["place"]], f"{of}/chunk_index": [0, 0], f"{of}/file_index": [0, 0],
               f"{of}/from_timestamp": [0.0, 4.5], f"{of}/to_timestamp": [4.5, 9.0]}  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "meta/episodes/chunk-000/file-000.parquet")
    touch(tmp_path, f"{of}/chunk-000/file-000.mp4")
    made = importers.import_rows("lerobot", tmp_path, tmp_path / "m.csv")
    assert [(row[0], row[1], row[2], row[3], row[5]) for row in made.rows] == [
        (f"{of}/chunk-000/file-000.mp4", "pick", "0.0", "4.5", "episode 0"),
        (f"{of}/chunk-000/file-000.mp4", "place", "4.5", "9.0", "episode 1"),
    ]
    write(tmp_path / "meta/info.json", json.dumps({"codebase_version": "v2.1", "features": features, "video_path": path}))
    with pytest.raises(ManifestError, match=r"v2\.1"):
        importers.read("lerobot", tmp_path)


def test_a_name_that_lies_in_several_folders_is_found_where_its_path_says(tmp_path: Path) -> None:
    touch(tmp_path, "v/run/1.mp4", "v/jump/1.mp4")
    source = write(tmp_path / "train.txt", "jump/1.mp4 0\nrun/1.mp4 1\n")
    assert [c["video"] for c in table("mmaction", source, tmp_path / "v")] == ["v/jump/1.mp4", "v/run/1.mp4"]


@given(st.integers(0, 10**7), st.fractions(Fraction(1), Fraction(1000)).filter(lambda rate: rate > 0))
@settings(deadline=None, max_examples=100)
def test_a_frame_number_becomes_its_floored_time_stamp(frame: int, rate: Fraction) -> None:
    assert Fraction(rows.frame_seconds(frame, rate)) * 10**9 == (frame / rate * 10**9).__floor__()


@given(st.sampled_from(list(importers.KINDS)), st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
@settings(deadline=None, max_examples=150)
def test_any_bytes_give_rows_or_one_clear_fault(tmp_path_factory: pytest.TempPathFactory, kind: str, data: bytes) -> None:
    source = tmp_path_factory.getbasetemp() / "any.txt"
    source.write_bytes(data)
    try:
        importers.read(kind, source)
    except (ManifestError, UsageError) as fault:
        assert "any.txt" in str(fault)


def test_the_command(tmp_path: Path) -> None:
    assert tuple(importers.KINDS) == manifest_command.KINDS
    write(tmp_path / "lists/trainlist01.txt", "Jump/v_Jump_g08_c01.avi 1\nJump/v_Jump_g08_c02.avi 1\n")
    write(tmp_path / "lists/testlist01.txt", "Jump/v_Jump_g01_c01.avi\n")
    touch(tmp_path, "v/Jump/v_Jump_g08_c01.avi", "v/Jump/v_Jump_g01_c01.avi")
    run = partial(CliRunner().invoke, group, catch_exceptions=False, standalone_mode=False)
    words = ["manifest", "from", "ucf101", str(tmp_path / "lists"), "--videos", str(tmp_path / "v"), "-o", str(tmp_path / "m.csv")]
    told = run(words)
    assert told.return_value == 0 and "2 rows of 2 videos in 1 classes" in told.output and "1 videos are not there" in told.output
    assert "v/Jump/v_Jump_g08_c01.avi,Jump,train,Jump_g08" in (tmp_path / "m.csv").read_text()
    told = run([*words, "--overwrite", "--json"])
    assert json.loads(told.output)["missing"] == ["Jump/v_Jump_g08_c02.avi"]
    with pytest.raises(UsageError, match="--overwrite"):
        run(words)
    with pytest.raises(ManifestError, match="none of the 3 videos"):
        run([*words[:4], "-o", str(tmp_path / "n.csv")])
    with pytest.raises(UsageError, match="did you mean 'kinetics'"):
        importers.read("kinetic", tmp_path)
