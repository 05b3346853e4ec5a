"""Small videos drawn for tests: every picture carries its own number, so that a test can read which frame it was given."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

BARS = 10
MS = Fraction(1, 1000)
X264 = {"preset": "veryfast", "crf": "18", "threads": "1"}


def picture(number: int, size: tuple[int, int] = (80, 64)) -> NDArray[np.uint8]:
    """RGB (h,w,3): the number as ten black or white bars on the upper half (white = 1, high bit first), below a red square that
    moves over a ramp from black to white."""
    width, height = size
    out = np.empty((height, width, 3), np.uint8)
    out[:] = np.linspace(0, 255, width).astype(np.uint8)[None, :, None]
    bits = [(number >> (BARS - 1 - k)) & 1 for k in range(BARS)]
    out[: height // 2] = np.repeat(np.array(bits, np.uint8) * 255, width // BARS)[None, :, None]
    side = height // 4
    x = number * 3 % (width - side)
    out[height // 2 + side // 2 : height // 2 + side // 2 + side, x : x + side] = (200, 40, 40)
    return out


def number_in(shown: NDArray[np.uint8]) -> int:
    """The number in a picture of any size that shows the whole drawing."""
    height, width = shown.shape[:2]
    grey = shown[height // 8 : height * 3 // 8].mean((0, 2))
    value = 0
    for k in range(BARS):
        value = value * 2 + int(grey[round((k + 0.3) * width / BARS) : round((k + 0.7) * width / BARS)].mean() > 127)
    return value


def write(
    path: Path,
    times: Sequence[int],
    *,
    time_base: Fraction = MS,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    pix_fmt: str = "yuv420p",
    container: str | None = None,
    mux: dict[str, str] | None = None,
    size: tuple[int, int] = (80, 64),
    rate: Fraction | None = None,
    gop: int = 12,
    b_frames: int = 0,
    first: int = 0,
    sar: Fraction | None = None,
    rotation: float | None = None,
    matrix: Sequence[int] | None = None,
    colour: dict[str, int] | None = None,
    metadata: dict[str, str] | None = None,
    pictures: Sequence[NDArray[np.uint8]] | None = None,
    cover: bool = False,
) -> Path:
    """One video: picture first + k at times[k] (units of time_base)."""
    out = av.open(str(path.absolute()), "w", format=container, options=mux or {})
    out.metadata.update(metadata or {})
    stream: Any = out.add_stream(codec, rate=rate or 1 / time_base, options=dict(X264 if codec == "libx264" else {}) | (options or {}))
    stream.width, stream.height = size
    stream.pix_fmt = pix_fmt
    context = stream.codec_context
    context.time_base, context.gop_size, context.thread_count = time_base, gop, 1
    if b_frames:
        context.max_b_frames = b_frames
    if sar is not None:
        context.sample_aspect_ratio = sar
    for name, value in (colour or {}).items():
        setattr(context, name, value)
    if rotation is not None:
        stream.set_display_rotation(rotation)
    if matrix is not None:
        stream.set_display_matrix(matrix)
    art = _cover(out) if cover else None
    for k, t in enumerate(times):
        drawn = picture(first + k, size) if pictures is None else pictures[k]
        frame = as_frame(drawn, pix_fmt, colour or {})
        frame.pts, frame.time_base = t, time_base
        out.mux(stream.encode(frame))
    out.mux(stream.encode(None))
    if art is not None:
        frame = as_frame(picture(999, (80, 64)), "yuvj420p", {})
        frame.pts, frame.time_base = 0, Fraction(1)
        out.mux([*art.encode(frame), *art.encode(None)])
    out.close()
    return path


def as_frame(drawn: NDArray[np.uint8], pix_fmt: str, colour: dict[str, int]) -> av.VideoFrame:
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(drawn), format="rgb24")
    how: dict[str, Any] = {"threads": 1}  # with several, 10-bit 4:2:2 comes out wrong in one picture of ten (PyAV 18.1)
    if "colorspace" in colour:
        how["dst_colorspace"] = colour["colorspace"]
    if "color_range" in colour:
        how["dst_color_range"] = colour["color_range"]
    return frame if pix_fmt == "rgb24" and not colour else frame.reformat(format=pix_fmt, **how)


def _cover(out: Any) -> Any:
    art = out.add_stream("mjpeg", rate=1)
    art.width, art.height, art.pix_fmt = 80, 64, "yuvj420p"
    art.disposition = av.stream.Disposition.attached_pic
    return art


def remux(
    source: Path, path: Path, *, shift: int = 0, skip: int = 0, container: str | None = None, keep: Sequence[int] | None = None
) -> Path:
    """Copy packets as they are: shifted in time (a negative shift makes an edit list in MP4), the first `skip` left out, or only
    those whose numbers are in `keep`."""
    with av.open(str(source)) as a, av.open(str(path), "w", format=container) as b:
        stream = b.add_stream_from_template(a.streams.video[0])
        number = -1
        for packet in a.demux(a.streams.video[0]):
            if not packet.size:
                continue
            number += 1
            if number < skip or (keep is not None and number not in keep):
                continue
            assert packet.pts is not None and packet.dts is not None
            packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
            packet.stream = stream
            b.mux(packet)
    return path


def steady(count: int, gap: int) -> list[int]:
    return [k * gap for k in range(count)]
