"""Sensor files that are no text: NumPy arrays, Parquet tables, MATLAB files of UTD-MHAD, as sensor tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import ClipError
from .imu_table import SensorTable, bad

SUFFIXES = (".npy", ".parquet", ".pq", ".mat")
UTD_MHAD = ("ax", "ay", "az", "gx", "gy", "gz")  # d_iner: acceleration in g, rotation in degrees a second, 50 rows a second


def read(path: str, timed: bool = False) -> tuple[SensorTable, dict[str, Any]]:
    """The table of a binary file, and what the format itself says of its layout (keys as in `[imu]`); timed: the recipe says which
    columns hold the times.

    Raises ClipError: imu_missing, imu_bad; no_library naming the extra that reads the format.
    """
    if not Path(path).is_file():
        raise ClipError("no such file", where=path, remedy="check the path", kind="imu_missing")
    try:
        suffix = Path(path).suffix.lower()
        return _npy(path, timed) if suffix == ".npy" else _mat(path) if suffix == ".mat" else _parquet(path)
    except ImportError as fault:
        what = f"{fault.name} is not installed, which reads {suffix} files"
        raise ClipError(what, where=path, remedy="pip install 'hfprep[sensors]'", kind="no_library") from None
    except (OSError, ValueError) as fault:
        raise bad(path, f"cannot be read: {str(fault).splitlines()[0] if str(fault) else type(fault).__name__}") from None


def _npy(path: str, timed: bool) -> tuple[SensorTable, dict[str, Any]]:
    """Values (n, axes) whose times (n,) lie in an array beside it: `acc_value.npy` with `acc_t.npy`, or `value.npy` with `t.npy`."""
    values = _array(path)
    if values.ndim != 2:
        raise bad(
            path, f"an array of shape {values.shape}; rows x columns are needed", "name the array of values; its times are found beside it"
        )
    named = ("",) * values.shape[1]
    columns = tuple(values[:, i] for i in range(values.shape[1]))
    beside = _times_beside(Path(path))
    if beside is None and not timed:
        what = f"no times: there is no {Path(path).stem.removesuffix('value')}t.npy beside it"
        raise bad(path, what, "put the times of its rows there, or give [imu] time = a column's number, or rate_hz")
    if beside is None:
        return SensorTable(named, columns, range(1, len(values) + 1)), {}
    times = _array(str(beside))
    if times.shape != (len(values),):
        raise bad(path, f"{len(values)} rows, but {beside.name} holds times of shape {times.shape}")
    return SensorTable(("t", *named), (times, *columns), range(1, len(values) + 1)), {}


def _times_beside(path: Path) -> Path | None:
    stem = path.stem.removesuffix("value").removesuffix("values")
    names = [f"{stem}{word}.npy" for word in ("t", "time", "times", "timestamps")]
    return next((path.with_name(name) for name in names if path.with_name(name).is_file() and name != path.name), None)


def _array(path: str) -> NDArray[np.generic]:
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iufM":
        raise bad(path, f"holds {getattr(array, 'dtype', type(array).__name__)}, not numbers")
    return array.astype("datetime64[ns]").astype(np.int64) if array.dtype.kind == "M" else array


def _mat(path: str) -> tuple[SensorTable, dict[str, Any]]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path)
    except (MatReadError, NotImplementedError, TypeError, KeyError) as fault:
        raise bad(path, f"cannot be read as MATLAB file: {fault}", "save it as MATLAB v5") from None
    if "d_iner" not in content:
        found = ", ".join(name for name in content if not name.startswith("__"))
        raise bad(path, f"no variable 'd_iner' as in UTD-MHAD; found: {found or 'none'}", "write the rows as CSV")
    values = np.asarray(content["d_iner"])
    if values.ndim != 2 or values.shape[1] != len(UTD_MHAD) or values.dtype.kind not in "iuf":
        raise bad(path, f"'d_iner' has shape {values.shape} and type {values.dtype}; rows x 6 numbers are needed", "write the rows as CSV")
    columns = tuple(values[:, i] for i in range(len(UTD_MHAD)))
    return SensorTable(UTD_MHAD, columns, range(1, len(values) + 1)), {"rate_hz": 50.0, "units": {"acc": "g", "gyro": "deg/s"}}


def _parquet(path: str) -> tuple[SensorTable, dict[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except pyarrow.ArrowException as fault:
        raise bad(path, f"cannot be read as Parquet: {fault}") from None
    names = [name for name, kind in zip(table.column_names, table.schema.types) if _numeric(pyarrow, kind)]
    columns: list[NDArray[np.generic]] = []
    units: dict[str, str] = {}
    for name in names:
        column = table.column(name)
        if pyarrow.types.is_timestamp(column.type):
            column, units[name] = column.cast(pyarrow.timestamp("ns", column.type.tz)).cast(pyarrow.int64()), "ns"
        columns.append(np.asarray(column.to_numpy(zero_copy_only=False)))
    shown = [f"{name} [{units[name]}]" if name in units else name for name in names]
    return SensorTable(tuple(shown), tuple(columns), range(1, table.num_rows + 1)), {}


def _numeric(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_timestamp(kind))
