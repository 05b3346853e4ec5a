"""UCF101, HMDB51, Something-Something, Jester and mmaction2: lists with a line a clip."""

from __future__ import annotations

import re
from pathlib import Path

from .. import listing
from . import activitynet
from .rows import (
    Collected,
    ImportOptions,
    Listing,
    Row,
    class_names,
    files_of,
    frame_seconds,
    json_of,
    lines_of,
    named,
    rate_of,
    split_of,
    split_word,
    table_of,
    wrong,
)

_HMDB_SPLITS = {"0": "", "1": "train", "2": "test"}
_HMDB_NAME = re.compile(r"(?P<label>.+)_test_split\d\Z")


def ucf101(source: Path, options: ImportOptions) -> Listing:
    """`trainlist01.txt` ("Class/v_X_g08_c01.avi 1"), `testlist01.txt` (the path alone), their folder, or the JSON that lists both."""
    if source.suffix == ".json":
        return activitynet.read(source, options)
    rows = Collected()
    for file in files_of(source, [f"trainlist{options.fold:02d}.txt", f"testlist{options.fold:02d}.txt"]):
        for line in lines_of(file):
            path = line.rsplit(" ", 1)[0] if re.search(r" \d+\Z", line) else line
            label, _, name = path.rpartition("/")
            stem = name.rpartition(".")[0] or name
            label = label.rpartition("/")[2] or listing.ucf_group(stem).rpartition("_")[0]
            rows.add(Row(path, (label,), split=split_of(file, options), group=listing.ucf_group(stem)))
    return rows.done()


def hmdb51(source: Path, options: ImportOptions) -> Listing:
    """`<class>_test_split1.txt` ("name.avi 1": 1 = train, 2 = test, 0 = not used), their folder, or a list "class/name.avi class 0"."""
    rows = Collected()
    for file in files_of(source, [f"*_test_split{options.fold}.txt"]):
        named_so = _HMDB_NAME.match(file.stem)
        for line in lines_of(file):
            parts = line.split()
            if named_so and len(parts) == 2 and parts[1] in _HMDB_SPLITS:
                label, split = named_so["label"], _HMDB_SPLITS[parts[1]]
                if not split:
                    rows.left[f"clips that split {options.fold} does not use: left out"] += 1
                    continue
            elif len(parts) == 3:
                label, split = parts[1], split_of(file, options)
            else:
                raise wrong(file, f"{line[:80]!r} is no line of an HMDB51 split", "lines are 'name.avi 1' or 'class/name.avi class 0'")
            rows.add(Row(parts[0], (label,), split=split, group=_film(parts[0], label)))
    return rows.done()


def _film(path: str, label: str) -> str:
    """The film or video that an HMDB51 clip is cut from: what its name has before the class."""
    name = path.rpartition("/")[2]
    return name.partition(f"_{label}_")[0] if f"_{label}_" in name else ""


def something(source: Path, options: ImportOptions) -> Listing:
    """Something-Something v2: JSON [{id, label, template}], or the frame boxes of Something-Else, which have no classes.

    The class is the template without its brackets ("Moving something up"), as the published list of classes has it.
    """
    table = json_of(source)
    if isinstance(table, dict) and table and all(isinstance(value, list) for value in table.values()):
        what = f"holds boxes on the frames of {len(table)} videos and no classes"
        raise wrong(source, what, "give something-something-v2-train.json or -validation.json")
    if not isinstance(table, list):
        raise wrong(source, "is no list of videos", "give something-something-v2-train.json or -validation.json")
    rows = Collected()
    for entry in table:
        label = str(entry.get("template") or entry.get("label") or "").replace("[", "").replace("]", "")
        rows.add(Row(str(entry["id"]), (label,), split=split_of(source, options)))
    return rows.done()


def jester(source: Path, options: ImportOptions) -> Listing:
    """Jester: `id;label` (the published CSV) or `id number` with `classInd.txt` beside it."""
    rows = Collected()
    names = class_names(source, options, ("classInd.txt",))
    for line in lines_of(source):
        number, mark, label = line.partition(";")
        if not mark:
            number, _, label = line.partition(" ")
            label = named(label, names, source) if label.isdigit() else label
        if not number.isdigit():
            raise wrong(source, f"{line[:80]!r} is no line of Jester", "lines are 'id;label' or 'id number'")
        rows.add(Row(number, (label,), split=split_of(source, options)))
    return rows.done()


def csv_list(source: Path, options: ImportOptions) -> Listing:
    """A table with the columns `video` (or path, file) and `label` (or class), as many collections have it."""
    rows = Collected()
    for cells in table_of(source):
        lower = {name.casefold(): value for name, value in cells.items()}
        video = next((lower[name] for name in ("video", "path", "file", "filename", "video_path") if name in lower), "")
        label = next((lower[name] for name in ("label", "class", "action") if name in lower), "")
        if not video:
            raise wrong(source, f"no column video, path or file; found: {', '.join(cells)}", "rename the column")
        rows.add(Row(video, (label,), split=split_word(lower.get("split", "")) or split_of(source, options)))
    return rows.done()


def mmaction(source: Path, options: ImportOptions) -> Listing:
    """mmaction2: "a.mp4 label...", "folder frames label...", with --form offset "folder first frames label...", with --form rawvideo
    "folder label clips positive...", proposal files (their ground truth), and its JSON."""
    if source.suffix == ".json":
        return activitynet.read(source, options)
    names = class_names(source, options, ("label_map.txt",))
    lines = lines_of(source)
    if lines and lines[0].startswith("#"):
        return _proposals(source, lines, names, options)
    rows, split = Collected(), split_of(source, options)
    for line in lines:
        path, *rest = line.split()
        if not rest or not all(number.isdigit() for number in rest):
            raise wrong(source, f"{line[:80]!r} is no line of an mmaction2 list", "lines are 'path [offset] [frames] label...'")
        start = end = ""
        if options.form == "rawvideo":
            for positive in rest[2:]:
                rows.add(Row(f"{path}/part_{positive}.mp4", (named(rest[0], names, source),), split=split, group=path))
            continue
        if options.form == "offset":
            rate = rate_of(options, "", source)
            start, end = frame_seconds(int(rest[0]), rate), frame_seconds(int(rest[0]) + int(rest[1]), rate)
            rest = rest[2:]
        elif path.rpartition(".")[2].casefold() not in listing.MEDIA:
            rest = rest[1:]  # the number of frames: the folder holds just those
        rows.add(Row(path, tuple(named(number, names, source) for number in rest), start, end, split))
    return rows.done()


def _proposals(source: Path, lines: list[str], names: dict[str, str], options: ImportOptions) -> Listing:
    """Blocks "# number", path, frames, step, count of true stretches, each "label first last", count of proposals, each a line."""
    rows, rate, split = Collected(), rate_of(options, "", source), split_of(source, options)
    at = 0
    try:
        while at < len(lines):
            path, step, true = lines[at + 1], int(lines[at + 3]), int(lines[at + 4])
            for line in lines[at + 5 : at + 5 + true]:
                number, first, last = line.split()
                start, end = frame_seconds(int(first) * step, rate), frame_seconds(int(last) * step, rate)
                rows.add(Row(path, (named(number, names, source),), start, end, split))
            proposed = int(lines[at + 5 + true])
            rows.left["proposals, which are no annotations: left out"] += proposed
            at += 6 + true + proposed
    except (IndexError, ValueError):
        raise wrong(source, f"the block from line {at + 1} on is cut or damaged", "fetch the file again") from None
    return rows.done()
