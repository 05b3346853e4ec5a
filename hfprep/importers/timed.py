"""Kinetics, EPIC-KITCHENS, Charades, AVA, MultiSports and Ego4D: stretches of longer videos, with their times."""

from __future__ import annotations

import pickle
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

from ..errors import ManifestError
from ..manifest_values import BadCell, seconds_ns
from ..tables import read_bytes
from .activitynet import CAPTION
from .rows import (
    Collected,
    ImportOptions,
    Listing,
    Row,
    class_names,
    frame_seconds,
    json_of,
    lines_of,
    named,
    rate_of,
    seconds,
    split_of,
    split_word,
    table_of,
    wrong,
)

AVA_SPAN_S = Decimal(3)  # AVA's people saw 1.5 s on each side of a labelled moment
MULTISPORTS_FPS = "25"


def kinetics(source: Path, options: ImportOptions) -> Listing:
    """`label,youtube_id,time_start,time_end,split`: the cut file `id_000010_000020`, or the whole video from time_start to time_end."""
    rows = Collected()
    for cells in table_of(source, "youtube_id", "time_start", "time_end"):
        name, start, end = cells["youtube_id"], cells["time_start"], cells["time_end"]
        split = options.split or split_word(cells.get("split", "")) or split_of(source, options)
        cut = f"{name}_{int(Decimal(seconds(start, source))):06d}_{int(Decimal(seconds(end, source))):06d}"
        rows.add(Row(name, (cells.get("label", ""),), seconds(start, source), seconds(end, source), split, name, cut))
    return rows.done()


def epic(source: Path, options: ImportOptions) -> Listing:
    """EPIC-KITCHENS-55 and -100: one row a narrated action; the class is the verb, the noun, or with target `action` both.

    Names come from `EPIC_100_verb_classes.csv` and `..._noun_classes.csv` where they lie beside the file, else from the row.
    """
    rows = Collected()
    names = {kind: class_names(source, ImportOptions(), _epic_files(kind)) for kind in ("verb", "noun")}
    targets = ("verb", "noun") if options.target == "action" else (options.target,)
    for kind in targets:
        if not names[kind]:
            rows.notes.append(f"no {_epic_files(kind)[0]} beside it: the class is the {kind} as each row words it")
    for cells in table_of(source, "video_id", "participant_id", "start_timestamp", "stop_timestamp", "verb", "noun"):
        label = " ".join(names[kind].get(cells.get(f"{kind}_class", ""), cells[kind]) for kind in targets)
        start, end = _clock(cells["start_timestamp"], source), _clock(cells["stop_timestamp"], source)
        split, words = split_of(source, options), cells.get("narration", "")
        rows.add(Row(cells["video_id"], (label,), start, end, split, cells["participant_id"], caption=words))
    return rows.done()


def _epic_files(kind: str) -> tuple[str, ...]:
    return f"EPIC_100_{kind}_classes.csv", f"EPIC_{kind}_classes.csv"


def _clock(written: str, source: Path) -> str:
    """h:mm:ss.xx as seconds."""
    try:
        return frame_seconds(seconds_ns(written, "time"), Fraction(10**9))
    except BadCell as bad:
        raise wrong(source, bad.message, "fetch the file again") from None


def charades(source: Path, options: ImportOptions) -> Listing:
    """Charades CSV (`actions` = "c092 11.90 21.20;..."), a row an action; or Charades-STA ("3MSZA 24.3 30.4##sentence")."""
    rows, split = Collected(), split_of(source, options)
    if source.suffix == ".txt":
        for line in lines_of(source):
            head, mark, words = line.partition("##")
            parts = head.split()
            if not mark or len(parts) != 3:
                raise wrong(source, f"{line[:80]!r} is no line of Charades-STA", "lines are 'id start end##sentence'")
            rows.add(Row(parts[0], (CAPTION,), seconds(parts[1], source), seconds(parts[2], source), split, caption=words.strip()))
        rows.notes.append(f"sentences are no classes: every row has the label {CAPTION}, its words are in the column caption")
        return rows.done()
    names = class_names(source, options, ("Charades_v1_classes.txt",))
    for cells in table_of(source, "id", "subject", "actions"):
        if not cells["actions"]:
            rows.left["videos without an action: left out"] += 1
        for action in filter(None, cells["actions"].split(";")):
            parts = action.split()
            if len(parts) != 3:
                raise wrong(source, f"{action!r} is no action", "actions are 'c092 11.90 21.20'")
            times = seconds(parts[1], source), seconds(parts[2], source)
            rows.add(Row(cells["id"], (named(parts[0], names, source),), *times, split, cells["subject"]))
    return rows.done()


def ava(source: Path, options: ImportOptions) -> Listing:
    """AVA: `video,timestamp,x1,y1,x2,y2,action,person`. A row a labelled moment, 3 s around it, with the actions of all persons.

    Boxes and persons are left out and counted; moments of an `*excluded_timestamps*` file beside it, too.
    """
    rows, split = Collected(), split_of(source, options)
    names = class_names(source, options, ("ava_action_list_v2.2.pbtxt", "ava_action_list_v2.2_for_activitynet_2019.pbtxt"))
    excluded = {
        (cells[0], Decimal(cells[1]))
        for file in source.parent.glob("*excluded_timestamps*")
        if (file.name.startswith("ava_excluded") or file.stem.startswith(source.stem))
        for line in lines_of(file)
        if len(cells := line.split(",")) == 2
    }
    moments: dict[tuple[str, Decimal], dict[str, None]] = {}
    boxes = 0
    for line in lines_of(source):
        cells = line.split(",")
        if len(cells) != 8:
            raise wrong(source, f"{line[:80]!r} is no line of AVA", "lines are 'video,timestamp,x1,y1,x2,y2,action,person'")
        moment = cells[0], Decimal(seconds(cells[1], source))
        if moment in excluded:
            rows.left["labels at moments that the list of excluded ones names: left out"] += 1
        elif not cells[6]:
            rows.left["persons without an action: left out"] += 1
        else:
            boxes += 1
            moments.setdefault(moment, {})[named(cells[6], names, source)] = None
    for (video, at), labels in moments.items():
        times = seconds(at - AVA_SPAN_S / 2, source), seconds(at + AVA_SPAN_S / 2, source)
        rows.add(Row(video, tuple(labels), *times, split, video))
    rows.notes.append(f"{boxes} boxes and the persons in them: left out, a row is the whole picture for {AVA_SPAN_S} s around its moment")
    return rows.done()


class _Plain(pickle.Unpickler):
    """A pickle of numbers, text, lists, tables and arrays; anything that could run a program is refused."""

    ALLOWED = (
        ("numpy", "dtype"), ("numpy", "ndarray"), ("collections", "OrderedDict"),
        *((f"numpy.{core}.{module}", name) for core in ("core", "_core") for module, name in
          (("multiarray", "_reconstruct"), ("multiarray", "scalar"), ("numeric", "_frombuffer"))),
    )  # fmt: skip

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def multisports(source: Path, options: ImportOptions) -> Listing:
    """MultiSports: `multisports_GT.pkl`; a row a tube, from its first frame to its last, at 25 frames/s; its boxes are left out."""
    try:
        table = _Plain(BytesIO(read_bytes(str(source), ManifestError)), encoding="latin1").load()
        labels, tubes = list(table["labels"]), dict(table["gttubes"])
        splits = {name: split for split in ("train", "test") for some in table[f"{split}_videos"] for name in _flat(some)}
    except ManifestError:
        raise
    except Exception as fault:  # noqa: BLE001 - bytes that are no pickle end in errors of any kind, MemoryError and SystemError among them
        raise wrong(source, f"is no file of MultiSports: {fault}", "give multisports_GT.pkl") from None
    rows, rate = Collected(), rate_of(options, MULTISPORTS_FPS, source)
    boxes = 0
    for video, of_class in tubes.items():
        for number, found in of_class.items():
            for tube in found:
                boxes += len(tube)
                first, last = int(min(box[0] for box in tube)), int(max(box[0] for box in tube))  # frames count from 1
                times = frame_seconds(first - 1, rate), frame_seconds(last, rate)
                rows.add(Row(str(video), (str(labels[number]),), *times, options.split or splits.get(video, ""), str(video)))
    rows.notes.append(f"{boxes} boxes: left out, a row is the whole picture while its tube lasts")
    return rows.done()


def _flat(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else [str(name) for name in names]


def ego4d(source: Path, options: ImportOptions) -> Listing:
    """Ego4D: moments (`labels` with times), long-term anticipation (`verb`, `noun`), and language queries (sentences).

    Times are taken on the whole video. Lists of ids and queries that only show an object hold no classes and are refused.
    """
    if source.suffix == ".csv":
        count = len(lines_of(source))
        raise wrong(source, f"lists {count} ids of videos and no classes", "give moments_train.json, which has labels and times")
    table = json_of(source)
    rows = Collected()
    split = options.split or (split_word(str(table.get("split", ""))) if isinstance(table, dict) else "") or split_of(source, options)
    if isinstance(table, dict) and isinstance(table.get("clips"), list):
        for clip in table["clips"]:
            words = {"verb": str(clip.get("verb", "")), "noun": str(clip.get("noun", ""))}
            label = " ".join(words.values()) if options.target == "action" else words[options.target]
            begin = Decimal(str(clip.get("clip_parent_start_sec", 0)))
            start, end = (seconds(begin + Decimal(str(clip[f"action_clip_{at}_sec"])), source) for at in ("start", "end"))
            rows.add(Row(str(clip["video_uid"]), (label,), start, end, split, str(clip["video_uid"])))
        return rows.done()
    if not isinstance(table, dict) or not isinstance(table.get("videos"), list):
        what = f"holds entries of {len(table)} videos and no classes" if isinstance(table, dict) else "is no annotation of Ego4D"
        raise wrong(source, what, "give moments_train.json, fho_lta_train.json or nlq_train.json")
    seen: Counter[str] = Counter()
    for video in table["videos"]:
        for clip in video.get("clips", ()):
            for annotation in clip.get("annotations", ()):
                _moments(rows, str(video["video_uid"]), annotation, video.get("split") or split, source, seen)
    rows.left.update(seen)
    return rows.done()


def _moments(rows: Collected, video: str, annotation: dict[str, Any], split: str, source: Path, seen: Counter[str]) -> None:
    for label in annotation.get("labels", ()):
        if label.get("primary") is False:
            seen["labels that too few annotators agree on: left out"] += 1
            continue
        start, end = (
            seconds(label[f"video_{at}_time"] if f"video_{at}_time" in label else label[f"{at}_time"], source) for at in ("start", "end")
        )
        rows.add(Row(video, (str(label["label"]),), start, end, split_word(str(split)), video))
    for query in annotation.get("language_queries", ()):
        if "video_start_sec" in query and query.get("query"):
            start, end = (seconds(query[f"video_{at}_sec"], source) for at in ("start", "end"))
            rows.add(Row(video, (CAPTION,), start, end, split_word(str(split)), video, caption=" ".join(str(query["query"]).split())))
