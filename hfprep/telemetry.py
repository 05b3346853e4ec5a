"""Sensors that a camera writes into its video: GoPro's metadata stream, with times from its packets, each sensor at its own rate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from . import gpmf
from .errors import ClipError
from .imu_clock import in_order
from .imu_table import bad
from .records import F32, I64, Sensor
from .video import Video, data_packets

SUFFIXES = (".mp4", ".mov", ".360", ".m4v", ".lrv")


def read(path: str) -> list[Sensor]:
    """Sensors of a video's metadata stream, one a rate; times count from the first frame as the manifest's do.

    A packet holds the samples of its own stretch of time: they lie evenly over its duration. Rows of different sensors are never
    paired by number. Raises ClipError: imu_missing where there is no file, imu_bad where the video holds no sensors.
    """
    try:
        with Video(path) as video:
            begin = Fraction(video.stream.start_time or 0) * (video.stream.time_base or 0)
            packets = data_packets(video)
    except ClipError as fault:
        kind = "imu_missing" if fault.kind == "missing_file" else "imu_bad"
        raise ClipError(fault.what, where=fault.where, remedy=fault.remedy, kind=kind) from None
    parts: dict[str, list[tuple[I64, F32, str]]] = {}
    unknown: set[str] = set()
    for start, length, payload in packets:
        try:
            found = gpmf.samples(payload)
        except gpmf.BadPayload as fault:
            raise bad(path, f"its metadata stream at {float(start - begin):.3f} s is damaged: {fault}", "copy the file again") from None
        for some in found:
            if some.values is None:
                unknown.add(some.key)
            else:
                at = [int((start - begin + length * i / some.count) * 10**9) for i in range(some.count)]
                parts.setdefault(some.key, []).append((np.array(at, np.int64), some.values, some.unit))
    if not parts:
        raise bad(path, "the video has no sensor stream that can be read", "name the sensor's own file in column imu")
    notes = ["read as GoPro metadata stream: " + ", ".join(f"{gpmf.AXES[key]}xyz = {key}" for key in parts)]
    notes += [f"{key} left out: its stream does not say which channel is which axis" for key in sorted(unknown)]
    return [_sensor(path, key, some, notes if i == 0 else []) for i, (key, some) in enumerate(parts.items())]


def _sensor(path: str, key: str, parts: list[tuple[I64, F32, str]], notes: list[str]) -> Sensor:
    kind = gpmf.AXES[key]
    time_ns, values = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    time_ns, values, repaired = in_order(time_ns, values, where=path, line=np.arange(1, len(time_ns) + 1))
    unit = parts[0][2].replace("²", "2").replace("µ", "u")
    axes = tuple(f"{kind}{axis}" for axis in "xyz")
    return Sensor(time_ns, values, axes, (unit,) * 3, (*notes, *repaired))
