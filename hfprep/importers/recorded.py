"""UTD-MHAD, UT-Interaction and LeRobot: recordings with sensors, sheets or tables of their own."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .rows import Collected, ImportOptions, Listing, Row, files_of, frame_seconds, json_of, lines_of, rate_of, seconds, split_of, wrong

_UTD = re.compile(r"a(\d+)_s(\d+)_t(\d+)_(color|inertial|depth|skeleton)\Z")
UTD_ACTIONS = (
    "swipe left", "swipe right", "wave", "clap", "throw", "arm cross", "basketball shoot", "draw x", "draw circle clockwise",
    "draw circle counter clockwise", "draw triangle", "bowling", "boxing", "baseball swing", "tennis swing", "arm curl", "tennis serve",
    "push", "knock", "catch", "pickup and throw", "jog", "walk", "sit to stand", "stand to sit", "lunge", "squat",
)  # fmt: skip
UT_ACTIONS = ("shake hands", "hug", "kick", "point", "punch", "push")
UT_FPS = "30"


def utd_mhad(source: Path, options: ImportOptions) -> Listing:
    """UTD-MHAD: a list of files ("a3_s1_t4_color.avi 3"), or the folder of its videos; each row with the inertial file of its take."""
    rows, split = Collected(), split_of(source, options) if source.is_file() else options.split
    names = [line.split()[0] for line in lines_of(source)] if source.is_file() else [str(f) for f in files_of(source, ["**/a*_color.avi"])]
    for name in names:
        match = _UTD.search(name.rpartition("/")[2].rpartition(".")[0])
        if match is None:
            raise wrong(source, f"{name!r} is no take of UTD-MHAD", "takes are named a3_s1_t4_color.avi")
        action, subject, take, kind = match.groups()
        if not 1 <= int(action) <= len(UTD_ACTIONS):
            raise wrong(source, f"action {action} of {name!r} is none of 1 to {len(UTD_ACTIONS)}", "fetch the list again")
        stem = f"a{action}_s{subject}_t{take}"
        video = name if kind == "color" else f"{stem}_color.avi"
        rows.add(Row(video, (UTD_ACTIONS[int(action) - 1],), split=split, group=f"s{subject}", imu=f"{stem}_inertial.mat"))
    return rows.done()


def ut_interaction(source: Path, options: ImportOptions) -> Listing:
    """UT-Interaction: the Excel sheet `ut-interaction_labels_110912.xls`, frames at 30 a second; boxes are left out."""
    xlrd = _library("xlrd", "sheets of UT-Interaction")
    rate, rows, boxes = rate_of(options, UT_FPS, source), Collected(), 0
    try:
        book = xlrd.open_workbook(str(source))
    except FileNotFoundError:
        raise wrong(source, "no such file", "give ut-interaction_labels_110912.xls") from None
    except (xlrd.XLRDError, OSError, AssertionError) as fault:
        raise wrong(source, f"is no Excel sheet of the old kind: {fault}", "give ut-interaction_labels_110912.xls") from None
    for sheet in book.sheets():
        for line in range(sheet.nrows):
            cells = sheet.row_values(line)
            if not re.fullmatch(r"seq\d+", str(cells[0]).strip()):
                continue
            number, first, last = int(cells[1]), int(cells[2]), int(cells[3])
            if not 0 <= number < len(UT_ACTIONS):
                raise wrong(source, f"{sheet.name} row {line + 1}: activity {number} is none of 0 to 5", "fetch the sheet again")
            boxes += 1
            name = str(cells[0]).strip()
            rows.add(Row(name, (UT_ACTIONS[number],), frame_seconds(first, rate), frame_seconds(last + 1, rate), options.split, name))
    rows.notes.append(f"{boxes} boxes around the two persons: left out; frames count from 0 at {rate} a second")
    return rows.done()


def lerobot(source: Path, options: ImportOptions) -> Listing:
    """LeRobot v3: the folder of a data set; a row an episode and camera, its span in the shared video file, its task as label."""
    arrow = _library("pyarrow.parquet", "tables of LeRobot")
    info = json_of(source / "meta" / "info.json")
    version = str(info.get("codebase_version", ""))
    if not version.startswith("v3"):
        raise wrong(source, f"codebase_version {version!r} is not v3", "convert it with LeRobot's own script to v3.0")
    cameras = [name for name, feature in info["features"].items() if feature.get("dtype") == "video"]
    if not cameras:
        raise wrong(source, "holds no videos (its pictures lie in tables)", "record it with use_videos")
    rows = Collected()
    for file in files_of(source / "meta" / "episodes", ["**/*.parquet"]):
        table = arrow.read_table(file).to_pylist()
        for episode in table:
            for camera in cameras:
                prefix = f"videos/{camera}"
                number = {"chunk_index": int(episode[f"{prefix}/chunk_index"]), "file_index": int(episode[f"{prefix}/file_index"])}
                video = str(info["video_path"]).format(video_key=camera, **number)
                times = seconds(episode[f"{prefix}/from_timestamp"], source), seconds(episode[f"{prefix}/to_timestamp"], source)
                group = f"episode {episode['episode_index']}"
                rows.add(Row(video, tuple(map(str, episode["tasks"])), *times, _part(info, episode, options), group))
    if len(cameras) > 1:
        rows.notes.append(f"{len(cameras)} cameras ({', '.join(cameras)}): a row each, all of an episode in one group")
    return rows.done()


def _part(info: dict[str, Any], episode: dict[str, Any], options: ImportOptions) -> str:
    """The split of an episode: `splits` of info.json name ranges of episodes ("train": "0:50")."""
    if options.split:
        return options.split
    for name, span in info.get("splits", {}).items():
        first, _, last = str(span).partition(":")
        if name in ("train", "val", "test") and len(info["splits"]) > 1 and int(first) <= episode["episode_index"] < int(last):
            return str(name)
    return ""  # one split for all is none: it is drawn by episode


def _library(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(f"{what} need {name.partition('.')[0]}", remedy="pip install 'hfprep[import]'", kind="no_library") from None
