"""What is in a video file: its picture stream, and when each frame that decodes is presented.

A file whose container states every frame's time (MP4, MOV, Matroska, WebM) is only demuxed, and its first frames decoded to see
that packets and pictures agree. Everything else is decoded once from end to end, nothing converted, and the times are
those of the pictures that came out.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, cast

import av
import numpy as np
from av.buffer import Buffer
from av.container import Flags

from . import clock, intact, packets
from .errors import ClipError
from .geometry import orientation
from .records import I64, Timeline
from .timelines import Folder

if TYPE_CHECKING:
    Packet = av.Packet[av.VideoStream]

TRUSTED_CONTAINERS = ("mov,", "matroska,")
NO_FILMS = ("image2", "tty", "hls", "dash", "concat", "concatf")  # pictures, text and lists that FFmpeg would open as video
CHECKED_FRAMES = 5  # decoded while demuxing: files that hold fields or placeholders as packets show it within these
CHECKED_PACKETS = 64
# Protocols: a file may name others to read (playlists); never the network. Pixels: 8192 x 8192, a damaged header asks for more.
OPTIONS = {"protocol_whitelist": "file", "max_pixels": str(1 << 26)}
_DISPOSITION = av.stream.Disposition
_PICTURES = _DISPOSITION.attached_pic | _DISPOSITION.timed_thumbnails


def versions() -> dict[str, str]:
    """Versions of PyAV and of the FFmpeg libraries in it, by name: they decide the pixels."""
    libraries = {name: ".".join(str(part) for part in number) for name, number in av.library_versions.items()}
    return {"av": av.__version__, **dict(sorted(libraries.items()))}


class Video:
    """An open video file and the decoder of its picture stream: one thread, so that many clips fill the cores evenly.

    faults counts packets that the decoder or the reader refused; decoding goes on behind them.
    """

    def __init__(self, path: str) -> None:
        self.path, self.faults = path, 0
        self.container = _open(path)
        try:
            self.stream = _picture_stream(self.container, path)
        except BaseException:
            self.container.close()
            raise
        self.context = self.stream.codec_context
        self.context.thread_type = "NONE"
        self.context.thread_count = 1
        self.context.options = {"max_pixels": OPTIONS["max_pixels"]}

    def __enter__(self) -> Video:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.container.close()

    def packets(self) -> Iterator[Packet]:
        """Packets of the picture stream in file order, as far as the file can be read."""
        try:
            for packet in self.container.demux(self.stream):
                if packet.size:  # an empty one would end the decoder
                    yield packet
        except av.error.FFmpegError:  # what follows cannot be found: the ffmpeg program ends there too
            self.faults += 1

    def decode(self, packet: Packet | None) -> list[av.VideoFrame]:
        """Pictures that come out for this packet (None: the last ones); a damaged packet is counted and gives none."""
        try:
            return self.context.decode(packet)
        except av.error.EOFError:
            return []
        except av.error.FFmpegError:
            self.faults += 1
            return []

    def pictures(self) -> Iterator[av.VideoFrame]:
        """All pictures in the decoder's output order."""
        for packet in self.packets():
            yield from self.decode(packet)
        yield from self.decode(None)


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


def check_file(path: str) -> None:
    """Raise ClipError where path is not a readable file with something in it; no decoder is touched."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", path)
    if scheme:
        remedy = "download it and give the path of the file"
        raise ClipError(f"{scheme[1]}:// is not a local file", where=path, remedy=remedy, kind="unsupported_path")
    try:
        found = Path(path).stat()
    except PermissionError as fault:
        raise _denied(path) from fault
    except (OSError, ValueError) as fault:  # ValueError: a zero byte in the name
        remedy = "check the path; relative ones start at the manifest's folder"
        raise ClipError("no such file", where=path, remedy=remedy, kind="missing_file") from fault
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a device or pipe"
        raise ClipError(f"{what}, not a file", where=path, remedy="name a video file", kind="not_a_file")
    if not found.st_size:
        raise ClipError("the file is empty (0 bytes)", where=path, remedy="fetch it again", kind="empty_file")
    if not os.access(path, os.R_OK):
        raise _denied(path)


def _denied(path: str) -> ClipError:
    return ClipError("the file may not be read", where=path, remedy="check its permissions and those of its folders", kind="permission")


def _open(path: str) -> av.container.InputContainer:
    """Open by absolute path: `take:1.mp4` would be taken for a protocol. Metadata in any encoding must not stop it."""
    remedy = "check that it plays; a cut download or a placeholder must be fetched again"
    try:
        container = av.open(str(Path(path).absolute()), metadata_errors="replace", options=OPTIONS)
    except PermissionError as fault:
        raise _denied(path) from fault
    except (av.error.FFmpegError, ValueError) as fault:
        reason = str(getattr(fault, "strerror", "") or fault).splitlines()[0]
        raise ClipError(f"not a video that FFmpeg can open ({reason})", where=path, remedy=remedy, kind="not_a_video") from fault
    name = container.format.name
    if name in NO_FILMS or name.endswith("_pipe"):
        container.close()
        raise ClipError(f"a {name} file is not a video", where=path, remedy="name a video file", kind="not_a_video")
    # PyAV asks FFmpeg to invent missing time stamps; those inventions go back and forth in AVI. Absent ones must look absent.
    container.flags &= ~Flags.gen_pts.value  # type: ignore[operator]
    return container


def _picture_stream(container: av.container.InputContainer, path: str) -> av.VideoStream:
    """The stream a player would show: by disposition (default first), then as FFmpeg ranks them; cover pictures are no video."""
    streams = [s for s in container.streams.video if not s.disposition & _PICTURES]
    if not streams:
        covers = " but a cover picture" if container.streams.video else ""
        kinds = sorted({str(s.type) for s in container.streams})
        what = f"no video stream{covers} (holds {', '.join(kinds) or 'nothing'})"
        raise ClipError(what, where=path, remedy="name a file with pictures", kind="no_video_stream")
    best = container.streams.best("video")
    chosen = next((s for s in streams if best is not None and s.index == best.index), streams[0])
    if chosen.codec_context is None:
        raise ClipError("no decoder for its video codec", where=path, remedy="convert it, for example to H.264", kind="not_a_video")
    return chosen


def display_matrix(frame: av.VideoFrame) -> bytes | None:
    """The display matrix that came with a picture (36 bytes), or None; PyAV itself turns nothing."""
    data = cast(Buffer | None, frame.side_data.get("DISPLAYMATRIX"))
    return None if data is None else bytes(data)


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
    for number, packet in enumerate(video.packets()):
        if packet.pts is None or packet.is_corrupt or (not number and not packet.is_keyframe):
            return None
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
    if first is None or time_base is None or video.faults or not len(pts) or np.any(np.diff(pts) == 0) or order[0] != 0:
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
    for frame in video.pictures():
        pts.append(frame.pts)
        dts.append(frame.dts)
        whole.append(not frame.is_corrupt)
        keys.append(frame.key_frame)
        sizes.add((frame.width, frame.height))
        first = first or frame
    if first is None or not any(whole):
        raise _no_frames(video, cut)
    lead = next((k for k, (good, key) in enumerate(zip(whole, keys)) if good and key), whole.index(True))
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
    turn = orientation(display_matrix(first))
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

    def get(self, path: str) -> Timeline:
        """probe(path), from the folder where it is known; raises ClipError as probe does."""
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
