"""Pixels as JPEG, a picture a frame: for sets that would not fit otherwise. Lossy; what is stored is what it decodes to.

A chunk is the number of its frames, the length of each frame's JPEG (uint32, little-endian), then the JPEGs. Standard JPEGs, but no
standard Zarr codec: `codec.py` registers it with zarr as "hfprep.jpeg" where hfprep is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import UsageError
from .records import U8


def library() -> Any:
    """simplejpeg, or UsageError with how to install it."""
    try:
        import simplejpeg
    except ImportError:
        raise UsageError(
            "codec jpeg needs simplejpeg, which is not installed", remedy="pip install 'hfprep[jpeg]'", kind="missing_package"
        ) from None
    return simplejpeg


def encode(frames: U8, quality: int) -> bytes:
    """Frames u8 (...,H,W,3) as one chunk; chroma at half size, as video has it."""
    pictures = np.ascontiguousarray(frames).reshape(-1, *frames.shape[-3:])
    simplejpeg = library()
    parts = [simplejpeg.encode_jpeg(picture, quality, "RGB", "420", False) for picture in pictures]
    sizes = np.array([len(parts), *map(len, parts)], "<u4")
    return b"".join([sizes.tobytes(), *parts])


def decode(chunk: Any, out: U8, first: int = 0, step: int = 1) -> None:
    """Frames first, first + step, ... of a chunk into `out` u8 (t,H,W,3) or (H,W,3). Raises ValueError where the chunk is damaged."""
    data = memoryview(chunk).cast("B")
    pictures = out.reshape(-1, *out.shape[-3:])
    if not np.shares_memory(pictures, out):
        raise ValueError("out must be contiguous")
    count = int.from_bytes(data[:4], "little")
    head = 4 * (count + 1)
    if len(data) < head or first + (len(pictures) - 1) * step >= count:
        raise ValueError(f"it holds {count} frames in {len(data)} bytes")
    ends = head + np.cumsum(np.frombuffer(data[4:head], "<u4"), dtype=np.int64)
    starts = [head, *ends.tolist()]
    simplejpeg = library()
    for position, picture in enumerate(pictures):
        frame = first + position * step
        found = simplejpeg.decode_jpeg(data[starts[frame] : starts[frame + 1]], "RGB", False, False, buffer=picture)
        if found.shape != picture.shape:
            raise ValueError(f"a picture of {found.shape}, not {picture.shape}")


def psnr(frames: U8, stored: U8) -> NDArray[np.float32]:
    """Peak signal to noise ratio in dB of each unit, float32 (n,): frames and what was stored of them, u8 (n, ...); equal: inf."""
    found = np.empty(len(frames), np.float32)
    for k in range(len(frames)):
        error = np.mean((frames[k].astype(np.float32) - stored[k]) ** 2, dtype=np.float64)
        found[k] = 10 * np.log10(255**2 / error) if error else np.inf
    return found
