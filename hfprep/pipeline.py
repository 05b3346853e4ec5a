"""The recipe of a build: one frozen options object, read from TOML, checked key by key."""

from __future__ import annotations

import difflib
import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Self

import pydantic
from pydantic import Field

from .errors import UsageError
from .options import Table, check_as, load_as, revise_as


class Frame(Table):
    """`[frame]`: the time grid and the picture."""

    interval_ms: int | float | str = 100
    height: int = Field(160, ge=8, le=4096)
    width: int = Field(160, ge=8, le=4096)
    fit: Literal["crop", "pad", "stretch"] = "crop"
    min_whole: float = Field(0.9, ge=0, le=1)

    @pydantic.field_validator("interval_ms", mode="before")
    @classmethod
    def _exact(cls, value: object) -> int | float | str:
        try:
            interval = Fraction(str(value).strip())
        except (ValueError, ZeroDivisionError):
            raise ValueError('must be milliseconds, as a number or an exact fraction like "1001/30"') from None
        if not Fraction(1, 1000) <= interval <= 3_600_000:
            raise ValueError("must lie between 0.001 ms and one hour")
        # one spelling for each value, so that 100, 100.0 and "200/2" are one recipe with one fingerprint
        if interval.denominator == 1:
            return int(interval)
        return float(interval) if Fraction(repr(float(interval))) == interval else str(interval)

    @property
    def interval_ns(self) -> Fraction:
        """Time between ticks, exact."""
        return Fraction(str(self.interval_ms).strip()) * 1_000_000


class Label(Table):
    """`[label]`: what the manifest's column label holds."""

    separator: str = Field("|", max_length=8)  # "" = every cell is one name


class Window(Table):
    """`[window]`: which stretches of a clip become hyperframes."""

    size: int = Field(16, ge=1, le=4096)
    margin: int = Field(2, ge=0, le=1024)
    placement: Literal["hotspot", "cover"] = "hotspot"
    per_clip: int = Field(8, ge=1, le=100_000)
    stride: int = Field(0, ge=0)  # 0 = automatic
    max_clamped: float = Field(0.25, ge=0, le=1)
    eval: Literal["quartiles", "cover", "hotspot"] = "quartiles"


class HotspotTable(Table):
    """`[hotspot]`: how the action is found."""

    method: Literal["motion", "imu", "motion+imu", "center"] = "motion"
    camera: bool = False


class Balance(Table):
    """`[balance]`: how many more windows rare classes get."""

    method: Literal["none", "sqrt", "full"] = "full"
    max_factor: float = Field(8.0, ge=1)


class Split(Table):
    """`[split]`: shares of the groups whose rows name no split."""

    train: float = Field(0.8, ge=0)
    val: float = Field(0.1, ge=0)
    test: float = Field(0.1, ge=0)

    @pydantic.model_validator(mode="after")
    def _some(self) -> Split:
        if self.train + self.val + self.test <= 0:
            raise ValueError("at least one share must be above 0")
        return self


TimeUnit = Literal["auto", "s", "ms", "us", "ns", "datetime"]


class ImuFormat(Table):
    """How sensor files are laid out, where their names and numbers do not tell it: part of `[imu]`, or a TOML file of its own."""

    time: tuple[str, ...] = ()  # columns (names, or numbers from 1) whose times add up; () = recognised
    unit: TimeUnit | tuple[TimeUnit, ...] = "auto"
    origin: Literal["video", "start"] = "video"
    rate_hz: float = Field(0.0, ge=0)  # rows evenly apart from 0 on; 0 = the file has times
    columns: dict[str, str] = Field({})  # axis -> column
    units: dict[str, str] = Field({})  # axis, or acc, gyro, mag -> unit in the file

    @pydantic.field_validator("time", "unit", mode="before")
    @classmethod
    def _several(cls, value: object, info: pydantic.ValidationInfo) -> object:
        if isinstance(value, list):
            return tuple(value)
        return (str(value),) if info.field_name == "time" and isinstance(value, str | int) and value != "" else value

    @pydantic.field_validator("columns", mode="before")
    @classmethod
    def _numbered(cls, value: object) -> object:
        return {k: str(v) if isinstance(v, int) else v for k, v in value.items()} if isinstance(value, dict) else value

    @pydantic.model_validator(mode="after")
    def _agree(self) -> Self:
        if isinstance(self.unit, tuple) and len(self.unit) != len(self.time):
            raise ValueError(f"unit names {len(self.unit)} units for {len(self.time)} time columns")
        if self.rate_hz and self.time:
            raise ValueError("give time or rate_hz, not both")
        return self


class Imu(ImuFormat):
    """`[imu]`: sensor rows beside the frames."""

    channels: tuple[str, ...] = ()  # () = every axis found
    max_gap_ms: float = Field(200.0, gt=0)
    filter: Literal["none", "mean"] = "none"

    @pydantic.field_validator("channels", mode="before")
    @classmethod
    def _names(cls, value: object) -> tuple[str, ...]:
        names = value.split(",") if isinstance(value, str) and value else value  # --set imu.channels=ax,ay
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) and n.strip() for n in names):
            raise ValueError('must be a list of axis names like ["ax", "ay"]')
        stripped = tuple(n.strip() for n in names)
        if len(set(stripped)) < len(stripped):
            raise ValueError("names an axis twice")
        return stripped


class Store(Table):
    """`[store]`: how the result lies on disk."""

    layout: Literal["windows", "frames"] = "windows"
    codec: Literal["raw", "lz4", "zstd", "jpeg"] = "raw"
    jpeg_quality: int = Field(90, ge=1, le=100)
    windows_per_shard: int = Field(32, ge=1, le=65536)
    clip_budget_mb: int = Field(256, ge=1)


class Pipeline(Table):
    """Everything that decides the bytes of a store, beside the manifest and the videos."""

    seed: int = Field(0, ge=0)
    frame: Frame = Frame()
    window: Window = Window()
    hotspot: HotspotTable = HotspotTable()
    balance: Balance = Balance()
    split: Split = Split()
    label: Label = Label()
    imu: Imu = Imu()
    store: Store = Store()


def load(path: str | Path | None = None, overrides: tuple[str, ...] = ()) -> Pipeline:
    """Read a pipeline: a TOML file, the name of a bundled one ("stacked_t3"), or None for the defaults; then overrides.

    overrides are `key=value` texts ("window.size=32"); a value is TOML, or a bare word or fraction as the shell hands it over.
    Raises UsageError naming the key's path, the value and, for a misspelt key, the nearest one.

    >>> load("stacked_t3", ("window.size=16",)).window.size
    16
    """
    return load_as(Pipeline, find(str(path)) if path is not None else None, overrides, where="pipeline")


def revise(table: dict[str, Any], overrides: tuple[str, ...]) -> Pipeline:
    """A dumped pipeline with `key=value` overrides; raises UsageError as `load` does."""
    return revise_as(Pipeline, table, overrides, where="pipeline")


def check(table: dict[str, Any], where: str = "pipeline") -> Pipeline:
    """Make a Pipeline of nested tables (a store's `pipeline` attribute, say); raises UsageError with the key's path."""
    return check_as(Pipeline, table, where)


def imu_format(file: str) -> ImuFormat:
    """Read a sensor layout of its own TOML file; raises UsageError with the key's path."""
    return load_as(ImuFormat, Path(file), (), where=file)


def bundled() -> Path:
    """Folder of the recipes that come with hfprep (inside the package when installed, beside it in a clone)."""
    inside = Path(__file__).parent / "pipelines"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "pipelines"


def find(name: str) -> Path:
    """The file of a pipeline given as a path or as a bundled name; raises UsageError listing the names there are."""
    file = Path(name)
    if file.is_file():
        return file
    if "/" not in name:
        named = bundled() / f"{name.removesuffix('.toml')}.toml"
        if named.is_file():
            return named
    names = sorted(p.stem for p in bundled().glob("*.toml"))
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    remedy = f"{hint}give a TOML file or one of: {', '.join(names)}"
    raise UsageError(f"no pipeline file or bundled pipeline {name!r}", remedy=remedy, kind="bad_pipeline")


def fingerprint(pipeline: Pipeline) -> str:
    """16 hex digits of the recipe's non-default keys, so that keys which later versions add change nothing at their defaults."""
    default = Pipeline().model_dump(mode="json")
    chosen = {
        f"{table}.{key}": value
        for table, keys in pipeline.model_dump(mode="json").items()
        for key, value in (keys if isinstance(keys, dict) else {"": keys}).items()
        if value != (default[table][key] if key else default[table])
    }
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]


def differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    """Keys that differ between two dumped pipelines, as "window.size: 16 -> 32"."""
    lines: list[str] = []
    for key in sorted({*old, *new}):
        a, b, name = old.get(key), new.get(key), f"{prefix}{key}"
        if isinstance(a, dict) and isinstance(b, dict):
            lines += differences(a, b, f"{name}.")
        elif a != b:
            lines.append(f"{name}: {a} -> {b}")
    return lines
