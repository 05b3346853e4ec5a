"""An open video file and the decoder of its picture stream, with the faults of files told apart.

Only this module and `decode` know PyAV.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, cast

import av
from av.buffer import Buffer
from av.container import Flags

from . import exif
from .errors import ClipError

if TYPE_CHECKING:
    Packet = av.Packet[av.VideoStream]

NO_FILMS = ("image2", "tty", "hls", "dash", "concat", "concatf")  # pictures, text and lists that FFmpeg would open as video
# Protocols: a file may name others to read (playlists); never the network. Pixels: 8192 x 8192, a damaged header asks for more.
OPTIONS = {"protocol_whitelist": "file", "max_pixels": str(1 << 26)}
_DISPOSITION = av.stream.Disposition
_PICTURES = _DISPOSITION.attached_pic | _DISPOSITION.timed_thumbnails


def versions() -> dict[str, str]:
    """Versions of PyAV and of the FFmpeg libraries in it, by name: they decide the pixels."""
    libraries = {name: ".".join(str(part) for part in number) for name, number in av.library_versions.items()}
    return {"av": av.__version__, **dict(sorted(libraries.items()))}


def data_packets(video: Video, handler: str = "GoPro MET") -> list[tuple[Fraction, Fraction, bytes]]:
    """Start and length in seconds and bytes of each packet of the file's data streams with this handler name."""
    streams = [s for s in video.container.streams if s.type == "data" and s.metadata.get("handler_name", "").strip() == handler]
    found: list[tuple[Fraction, Fraction, bytes]] = []
    if not streams:
        return found
    try:
        found.extend(
            (packet.pts * packet.time_base, (packet.duration or 0) * packet.time_base, bytes(packet))
            for packet in video.container.demux(streams)
            if packet.size and packet.pts is not None and packet.time_base is not None
        )
    except av.error.FFmpegError:
        video.faults += 1
    return found


class Video:
    """An open video file and the decoder of its picture stream: one thread, so that many clips fill the cores evenly.

    still: a single picture, not a video. faults counts packets that the decoder or the reader refused; decoding goes on behind
    them. began_whole: the first packet read is a key frame. matrix: display matrix of a still, where it says one.
    """

    def __init__(self, path: str, still: bool = False) -> None:
        self.path, self.faults, self.began_whole = path, 0, False
        self._suspect, self._lost = False, cast(int | None, None)
        self.container = _open(path, still)
        self.matrix = exif.display_matrix(path) if still else None
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
        first = True
        try:
            for packet in self.container.demux(self.stream):
                if packet.size:  # an empty one would end the decoder
                    if first:
                        self.began_whole, first = packet.is_keyframe, False
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
            self._suspect, self._lost = True, packet.pts if packet is not None else None
            return []

    def pictures(self) -> Iterator[tuple[av.VideoFrame, bool]]:
        """All pictures in the decoder's output order, each with whether it is whole.

        The decoder marks pictures that it had to patch, but not those that refer to a picture it never had: behind a refused
        packet nothing counts as whole until the next key frame.
        """
        for packet in self.packets():
            for frame in self.decode(packet):
                yield frame, self._is_whole(frame)
        for frame in self.decode(None):
            yield frame, self._is_whole(frame)

    def _is_whole(self, frame: av.VideoFrame) -> bool:
        # A key frame that was still waiting inside the decoder when the packet was lost heals nothing.
        if self._suspect and frame.key_frame and (self._lost is None or frame.pts is None or frame.pts > self._lost):
            self._suspect = False
        return not (frame.is_corrupt or self._suspect)


def display_matrix(frame: av.VideoFrame, video: Video) -> bytes | None:
    """The display matrix that came with a picture (36 bytes), or None; PyAV itself turns nothing."""
    if video.matrix is not None:
        return video.matrix
    try:
        data = cast(Buffer | None, frame.side_data.get("DISPLAYMATRIX"))
    except ValueError:  # side data of a kind that this PyAV does not know hides all the others
        return _turn(frame.rotation)
    return None if data is None else bytes(data)


def _turn(degrees: int) -> bytes | None:
    """Display matrix of a turn, in quarters, counter-clockwise to the upright picture."""
    a, b = {1: (0, -1), 2: (-1, 0), 3: (0, 1)}.get(round(degrees / 90) % 4, (1, 0))
    return struct.pack("<9i", a << 16, b << 16, 0, -b << 16, a << 16, 0, 0, 0, 1 << 30) if (a, b) != (1, 0) else None


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


def _open(path: str, still: bool) -> av.container.InputContainer:
    """Open by absolute path: `take:1.mp4` would be taken for a protocol. Metadata in any encoding must not stop it."""
    options = {**OPTIONS, **({"pattern_type": "none"} if still else {})}  # a % in a picture's name is no pattern
    remedy = "check that it plays; a cut download or a placeholder must be fetched again"
    try:
        container = av.open(str(Path(path).absolute()), metadata_errors="replace", options=options)
    except PermissionError as fault:
        if not os.access(path, os.R_OK):
            raise _denied(path) from fault
        what = "a list that names other files, not a video"
        raise ClipError(what, where=path, remedy="name those files", kind="not_a_video") from fault
    except (av.error.FFmpegError, ValueError) as fault:
        reason = str(getattr(fault, "strerror", "") or fault).splitlines()[0]
        raise ClipError(f"not a video that FFmpeg can open ({reason})", where=path, remedy=remedy, kind="not_a_video") from fault
    name = container.format.name
    picture = name == "image2" or name.endswith("_pipe")
    if (name in NO_FILMS or picture) and not (still and picture):
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
