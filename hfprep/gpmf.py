"""GoPro metadata (GPMF): one packet's payload to sensor samples, in the order of axes that the stream itself states.

The format is GoPro's published key-length-value layout: a four-letter key, a type, a size, a count, values in big endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .records import F32

AXES = {"ACCL": "a", "GYRO": "g", "MAGN": "m", "GRAV": "grav_"}
_TYPES = {"b": "i1", "B": "u1", "s": ">i2", "S": ">u2", "l": ">i4", "L": ">u4", "j": ">i8", "J": ">u8", "f": ">f4", "d": ">f8"}
# The words of streams older than ORIN; the camera's own axes are x right, y forward, z up.
_WORDS = {"up": "Z", "right": "X", "forward": "Y", "x": "X", "y": "Y", "z": "Z"}


class BadPayload(ValueError):  # noqa: N818 - turned into the caller's own error
    """The bytes are not GPMF."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of one sensor in one packet: values f32 (n,3) in columns x, y, z and in `unit`; None where the stream does not say
    which channel is which axis."""

    key: str
    values: F32 | None
    count: int
    unit: str


def samples(payload: bytes) -> list[Samples]:
    """Sensors of one packet, in its order; raises BadPayload where the bytes are no GPMF."""
    found = []
    for stream in _streams(payload):
        key = next((k for k in AXES if k in stream), None)
        if key is not None:
            found.append(_scaled(key, stream))
    return found


@dataclass(frozen=True, slots=True)
class _Item:
    kind: str
    size: int
    count: int
    data: bytes

    def text(self) -> str:
        return self.data.decode("latin-1").rstrip("\0")

    def numbers(self, where: str) -> np.ndarray:
        if self.kind not in _TYPES or self.size % np.dtype(_TYPES[self.kind]).itemsize:
            raise BadPayload(f"{where} holds values of type {self.kind!r} and size {self.size}")
        return np.frombuffer(self.data, _TYPES[self.kind]).reshape(self.count, -1).astype(np.float64)


def _items(data: bytes) -> Iterator[tuple[str, _Item]]:
    at = 0
    while at + 8 <= len(data):
        name, kind, size, count = struct.unpack_from(">4scBH", data, at)
        if name == b"\0\0\0\0":
            return
        if not re.fullmatch(rb"[A-Za-z0-9_ ]{4}", name):
            raise BadPayload(f"key {name!r} at byte {at}")
        length = size * count
        if at + 8 + length > len(data):
            raise BadPayload(f"{name.decode()} at byte {at} is cut")
        yield name.decode(), _Item(kind.decode("latin-1"), size, count, data[at + 8 : at + 8 + length])
        at += 8 + -(-length // 4) * 4


def _streams(payload: bytes) -> Iterator[dict[str, _Item]]:
    for name, device in _items(payload):
        if name == "DEVC":
            for key, stream in _items(device.data):
                if key == "STRM":
                    yield dict(_items(stream.data))


def _scaled(key: str, stream: dict[str, _Item]) -> Samples:
    values = stream[key].numbers(key)
    if "SCAL" in stream:
        values = values / stream["SCAL"].numbers("SCAL").ravel()
    unit = stream["SIUN"].text() if "SIUN" in stream else ""
    columns = _columns(stream, values.shape[1])
    if columns is None:
        return Samples(key, None, len(values), unit)
    turned = np.stack([values[:, column] * sign for column, sign in columns], axis=1)
    return Samples(key, turned.astype(np.float32), len(values), unit)


def _columns(stream: dict[str, _Item], width: int) -> list[tuple[int, int]] | None:
    """Channel and sign of each of x, y, z: of ORIN ("YxZ": y, minus x, z), else of the stream's name ("(z,x,y)"), else None."""
    if "ORIN" in stream:
        letters = stream["ORIN"].text()
    else:
        named = re.search(r"\(([^)]*)\)", stream["STNM"].text() if "STNM" in stream else "")
        words = [w.split("/")[0].strip().casefold() for w in named.group(1).split(",")] if named else []
        letters = "".join(_WORDS.get(w, "?") for w in words)
    if width != 3 or sorted(letters.upper()) != ["X", "Y", "Z"]:
        return None
    return [(letters.upper().index(axis), 1 if axis in letters else -1) for axis in "XYZ"]
