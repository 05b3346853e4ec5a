"""What is in a video file: its picture stream, and when each frame that decodes is presented.

A file whose container states every frame's time (MP4, MOV, Matroska, WebM) is only demuxed, and its first frames decoded to see
that packets and pictures agree. Everything else is decoded once from end to end, nothing converted, and the times are
those of the pictures that came out.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import clock, intact, packets, pictures
from .errors import ClipError
from .geometry import orientation
from .records import I64, Timeline
from .timelines import Folder
from .video import Video, check_file, display_matrix, versions

if TYPE_CHECKING:
    import av

    from .video import Packet

__all__ = ["Cache", "probe", "versions"]

TRUSTED_CONTAINERS = ("mov,", "matroska,")
CHECKED_FRAMES = 5  # decoded while demuxing: files that hold fields or placeholders as packets show it within these
CHECKED_PACKETS = 64


def probe(path: str) -> Timeline:
    """Timeline of the video at path.

    Raises ClipError: missing_file, not_a_file, empty_file, permission, unsupported_path, not_a_video, no_video_stream,
    no_frames, truncated (cut before the first frame), no_timestamps, bad_timestamps.
    """
    check_file(path)
    cut = intact.is_cut(path)
    if not cut:
        with Video(path) as video:
            timeline = _by_packets(video)
        if timeline is not None:
            return timeline
    with Video(path) as video:
        return _by_decoding(video, cut)


def _by_packets(video: Video) -> Timeline | None:
    """Timeline from the packets alone, or None where they cannot be trusted to be the frames."""
    if not video.container.format.name.startswith(TRUSTED_CONTAINERS):
        return None
    extradata = bytes(video.context.extradata or b"")
    codec, time_base = video.context.name, video.stream.time_base
    stamps: list[int] = []
    numbers: list[int] = []
    keys: list[int] = []
    check = _Check(video)
    earliest = 0  # stamp of the first key frame: what is presented before it needs pictures that the file does not hold
    for number, packet in enumerate(video.packets()):
        if packet.pts is None or packet.is_corrupt or (not number and not packet.is_keyframe):
            return None
        earliest = earliest if number else packet.pts
        if packet.is_keyframe and packets.begins_afresh(codec, bytes(packet), extradata):
            keys.append(number)
        check.feed(packet)
        if packet.is_discard or (codec in ("vp8", "mpeg4") and packets.is_hidden(codec, bytes(packet))):
            if codec == "mpeg4" and not packet.is_discard:
                return None
            continue
        stamps.append(packet.pts)
        numbers.append(number)
    first = check.first_picture()
    pts = np.array(stamps, np.int64)
    order = np.argsort(pts, kind="stable")
    pts = pts[order]
    if first is None or time_base is None or video.faults or not len(pts) or np.any(np.diff(pts) == 0) or pts[0] < earliest:
        return None
    ns = clock.from_pts(pts.tolist(), time_base, video.path)
    timeline = _timeline(video, first, ns, pts, "pts", ())
    reordered = bool(np.any(np.diff(order) < 0))
    return replace(
        timeline, trusted=True, reordered=reordered, packets=np.array(numbers, np.int64)[order], keyframes=np.array(keys, np.int64)
    )


class _Check:
    """Decodes the first packets while they pass: do pictures come out for them, one each, at their times?"""

    def __init__(self, video: Video) -> None:
        self._video = video
        self._promised: list[int | None] = []
        self._pictures: list[av.VideoFrame] = []
        self._fed = 0

    def feed(self, packet: Packet) -> None:
        if len(self._promised) < CHECKED_FRAMES and self._fed < CHECKED_PACKETS:
            self._fed += 1
            if not packet.is_discard and not packets.is_hidden(self._video.context.name, bytes(packet)):
                self._promised.append(packet.pts)
            self._pictures += self._video.decode(packet)

    def first_picture(self) -> av.VideoFrame | None:
        """The first picture, or None where pictures and packets disagree."""
        self._pictures += self._video.decode(None)
        agree = [p.pts for p in self._pictures] == sorted(p for p in self._promised if p is not None)
        return self._pictures[0] if agree and self._pictures and not any(p.is_corrupt for p in self._pictures) else None


def _by_decoding(video: Video, cut: bool) -> Timeline:
    """Timeline of the pictures that come out when everything is decoded."""
    pts: list[int | None] = []
    dts: list[int | None] = []
    whole: list[bool] = []
    keys: list[bool] = []
    sizes: set[tuple[int, int]] = set()
    first: av.VideoFrame | None = None
    for frame, good in video.pictures():
        pts.append(frame.pts)
        dts.append(frame.dts)
        whole.append(good)
        keys.append(frame.key_frame)
        sizes.add((frame.width, frame.height))
        first = first or frame
    if first is None or not any(whole):
        raise _no_frames(video, cut)
    lead = whole.index(True)
    if not video.began_whole:  # pictures before the first key frame refer to what the file does not hold
        lead = next((k for k, (good, key) in enumerate(zip(whole, keys)) if good and key), lead)
    rate = video.stream.guessed_rate or video.stream.average_rate
    time = clock.read(pts[lead:], dts[lead:], video.stream.time_base or Fraction(1, 1000), rate, video.path)
    notes = [*time.notes]
    damaged = whole[lead:].count(False) + video.faults
    if damaged:
        notes.append(f"{damaged} damaged packets or pictures")
    if lead:
        notes.append(f"the first {lead} pictures are not whole: time 0 is the first that is")
    if len(sizes) > 1:
        notes.append(f"picture size changes: {', '.join(f'{w}x{h}' for w, h in sorted(sizes))}")
    stamps = np.array(pts[lead:], np.int64) if time.distinct else np.zeros(0, np.int64)
    timeline = _timeline(video, first, time.ns, stamps, time.name, tuple(notes))
    known = [d for d in pts if d is not None]
    missing = _missing(video, timeline) if cut else 0
    if cut:
        notes.append(f"the file is cut: {missing} frames are missing" if missing else "the file is shorter than it says")
    return replace(timeline, lead=lead, reordered=known != dts[: len(known)], missing=missing, notes=tuple(notes))


def _no_frames(video: Video, cut: bool) -> ClipError:
    if cut:
        return ClipError("the file is cut before its first frame", where=video.path, remedy="fetch it again", kind="truncated")
    what = f"no frame decodes ({video.faults} damaged packets)" if video.faults else "no frames"
    return ClipError(what, where=video.path, remedy="check that it plays; fetch or convert it again", kind="no_frames")


def _missing(video: Video, timeline: Timeline) -> int:
    """Frames that a cut file promises and does not hold: by its count of frames, or by its duration."""
    stated = video.stream.frames
    if stated:
        return max(0, stated - len(timeline.pts_ns) - timeline.lead)
    duration = video.container.duration  # microseconds; of all streams
    return max(0, round((duration * 1000 - timeline.last_ns) * timeline.fps / clock.NS) - 1) if duration else 0


def _timeline(video: Video, first: av.VideoFrame, ns: I64, pts: I64, name: str, notes: tuple[str, ...]) -> Timeline:
    turn = orientation(display_matrix(first, video))
    if not turn.exact:
        notes = (*notes, f"turned by an odd angle: {turn.degrees} degrees used")
    seconds = int(ns[-1]) / clock.NS
    rate = video.stream.guessed_rate
    return Timeline(
        path=video.path,
        pts_ns=ns,
        pts=pts,
        time_base=video.stream.time_base or Fraction(1, 1000),
        stream=video.stream.index,
        clock=name,
        trusted=False,
        reordered=False,
        keyframes=np.zeros(0, np.int64),
        width=first.width,
        height=first.height,
        rotation=turn.degrees,
        codec=video.context.name,
        container=video.container.format.name,
        fps=(len(ns) - 1) / seconds if seconds else float(rate or 0),
        notes=notes,
    )


class Cache:
    """Probe results kept in a folder, by path, size and time of change of the video; "" keeps none.

    Many processes may share it. An entry that is damaged or of another FFmpeg is not used, a folder that cannot be written is
    no fault.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Folder(folder, ";".join(f"{k}={v}" for k, v in versions().items())) if folder else None

    def get(self, path: str, fps: str = "") -> Timeline:
        """probe(path), from the folder where it is known; of a folder of pictures their timeline at `fps`, which costs nothing.

        Raises ClipError as probe and pictures.timeline do.
        """
        if Path(path).is_dir():
            return pictures.timeline(path, fps)
        if self._folder is None:
            return probe(path)
        check_file(path)
        entry = self._folder.entry(path)
        found = entry.read()
        if isinstance(found, ClipError):
            raise found
        if found is None:
            try:
                found = probe(path)
            except ClipError as fault:
                entry.write(fault)
                raise
            entry.write(found)
        return found
