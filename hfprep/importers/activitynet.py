"""ActivityNet, HACS and all who write their JSON: segments with a label, or sentences, a video."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .rows import Collected, ImportOptions, Listing, Row, json_of, seconds, split_of, split_word, table_of, wrong

CAPTION = "caption"  # the one class of stretches that are told in sentences


def read(source: Path, options: ImportOptions) -> Listing:
    """`{"database": {id: {subset, annotations: [{segment, label}]}}}`, the inner table alone, ActivityNet Captions
    (`{id: {timestamps, sentences}}`), or the clips of HACS as CSV (`classname,youtube_id,subset,start,end,label`)."""
    if source.suffix == ".csv":
        return _hacs_clips(source, options)
    table = json_of(source)
    videos = table.get("database", table) if isinstance(table, dict) else None
    if not isinstance(videos, dict) or not all(isinstance(entry, dict) for entry in videos.values()):
        raise wrong(source, "is no table of videos", "give JSON as ActivityNet has it: {database: {id: {subset, annotations}}}")
    rows = Collected()
    for name, entry in videos.items():
        split = options.split or split_word(str(entry.get("subset", ""))) or split_of(source, options)
        if "sentences" in entry:
            _sentences(rows, name, entry, split, source)
        elif "annotations" in entry:
            _segments(rows, name, entry["annotations"], split, source)
        else:
            rows.left["videos without annotations: left out"] += 1
    if any(row.caption for row in rows.rows):
        rows.notes.append(f"sentences are no classes: every row has the label {CAPTION}, its words are in the column caption")
    return rows.done()


def _segments(rows: Collected, name: str, found: Any, split: str, source: Path) -> None:
    entries = found if isinstance(found, list) else [found]
    if not entries:
        rows.left["videos without annotations: left out"] += 1
    for entry in entries:
        start, end = _span(entry.get("segment"), source)
        rows.add(Row(name, (str(entry.get("label", "")),), start, end, split))


def _sentences(rows: Collected, name: str, entry: dict[str, Any], split: str, source: Path) -> None:
    for span, words in zip(entry.get("timestamps", ()), entry["sentences"]):
        start, end = _span(span, source)
        rows.add(Row(name, (CAPTION,), start, end, split, caption=" ".join(str(words).split())))


def _span(segment: Any, source: Path) -> tuple[str, str]:
    if segment is None:
        return "", ""
    if not isinstance(segment, list) or len(segment) != 2:
        raise wrong(source, f"segment {segment!r} is no pair of seconds", "fetch the file again")
    return seconds(segment[0], source), seconds(segment[1], source)


def _hacs_clips(source: Path, options: ImportOptions) -> Listing:
    rows = Collected()
    for cells in table_of(source, "classname", "youtube_id", "subset", "start", "end", "label"):
        if cells["label"] != "1":
            rows.left["clips marked as not showing their class: left out"] += 1
            continue
        split = options.split or split_word(cells["subset"])
        times = seconds(cells["start"], source), seconds(cells["end"], source)
        rows.add(Row(cells["youtube_id"], (cells["classname"],), *times, split))
    return rows.done()
