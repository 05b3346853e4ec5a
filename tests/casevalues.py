"""Pixel values and sensor values of a case's rows, held against a built store. Each check returns what is wrong, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from caserun import Got, Row

Expect = dict[str, Any]


# ---------------------------------------------------------------- pixels
def check_pictures(expect: Expect, row: Row, got: Got) -> Iterator[str]:
    ticks = sorted(row.grid())
    pictures = np.stack([got.picture(row, tick) for tick in ticks]).astype(np.float64)
    if "twin_row" in expect:
        twin = got.row(expect["twin_row"])
        others = np.stack([got.picture(twin, tick) for tick in ticks]).astype(np.float64)
        worst = float(np.abs(pictures - others).mean(axis=(1, 2, 3)).max())
        if worst > expect["twin_tol"]:
            yield f"looks unlike row {expect['twin_row']}: mean difference {worst:.2f}, allowed {expect['twin_tol']}"
    if "levels" in expect:
        white, black = (_cell(pictures, i) for i in (0, 1))
        if black > expect["levels"]["black_max"] or white < expect["levels"]["white_min"]:
            yield f"black is {black:.1f}, white {white:.1f}, expected {expect['levels']}"
    if "channels_equal_tol" in expect:
        apart = float((pictures.max(axis=3) - pictures.min(axis=3)).max())
        if apart > expect["channels_equal_tol"]:
            yield f"channels differ by {apart:.1f}"
    if "right_edge" in expect:
        edge = expect["right_edge"]
        columns = max(1, round(pictures.shape[2] * edge["columns"]))
        below = pictures[:, pictures.shape[1] // 3 :, -columns:].mean(axis=(0, 1))  # below the strip, a value a column and channel
        if np.abs(below - np.array(edge["expect"])).max() > edge["tol"]:
            yield f"the right edge is {below.round().tolist()}, expected {edge['expect']}"


def _cell(pictures: np.ndarray, number: int) -> float:
    """Mean of the middle of one cell of the strip."""
    height, width = pictures.shape[1:3]
    lo, hi = number * width / 16, (number + 1) * width / 16
    part = pictures[:, height // 16 : height * 3 // 16, int(lo + (hi - lo) / 4) : int(np.ceil(hi - (hi - lo) / 4))]
    return float(part.mean())


# ---------------------------------------------------------------- sensors
def check_imu(expect: Expect, row: Row, got: Got) -> Iterator[str]:
    """Values at the grid times; never an unmarked NaN, never a number marked as missing."""
    values, marks = _sensor(row)
    for tick, (value, ok) in enumerate(zip(values, marks)):
        if bool(np.isfinite(value).all()) != ok:
            yield f"place {tick}: values {value}, imu_ok = {ok}"
    if "imu" not in expect and "imu_all_marked_except" not in expect:
        if any(marks):
            yield "has no sensor file but measured values"
        return
    if "imu_all_marked_except" in expect and not all(tick in expect["imu_all_marked_except"] for tick in np.flatnonzero(marks)):
        yield f"places {np.flatnonzero(marks)} count as measured, expected none but {expect['imu_all_marked_except']}"
    missing = set(expect.get("imu", {})) - set(got.axes)
    if missing:
        yield f"axes {got.axes}, missing {missing}"
        return
    valid = expect.get("imu_valid", [True] * len(values))
    for name, wanted in expect.get("imu", {}).items():
        yield from _axis(name, values[:, got.axes.index(name)], wanted, valid, expect)


def _sensor(row: Row) -> tuple[np.ndarray, list[bool]]:
    at = {tick: (w.imu[i], bool(w.imu_ok[i])) for w in row.good for i, tick in enumerate(w.ticks)}
    return np.stack([at[tick][0] for tick in sorted(at)]), [at[tick][1] for tick in sorted(at)]


def _axis(name: str, values: np.ndarray, wanted: list[float], valid: list[bool], expect: Expect) -> Iterator[str]:
    if len(values) != len(wanted):
        yield f"{name}: {len(values)} values, expected {len(wanted)}"
        return
    for tick, (value, want, there) in enumerate(zip(values, wanted, valid)):
        marked = bool(np.isnan(value))
        if not there and not marked:
            yield f"{name} at place {tick} is {value}, but nothing was measured there"
        elif there and marked and not expect.get("or_marked"):
            yield f"{name} at place {tick} is marked as missing, expected {want}"
        elif there and not marked and abs(float(value) - want) > expect["imu_tol"] + 1e-6 * abs(want):  # stored as float32
            yield f"{name} at place {tick} is {value}, expected {want}"
