"""The recipe of a build: one frozen options object, read from TOML, checked key by key."""

from __future__ import annotations

import difflib
import hashlib
import json
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from .errors import UsageError


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Frame(_Table):
    """`[frame]`: the time grid and the picture."""

    interval_ms: int | float | str = 100
    height: int = Field(160, ge=8, le=4096)
    width: int = Field(160, ge=8, le=4096)
    fit: Literal["crop", "pad", "stretch"] = "crop"
    min_whole: float = Field(0.9, ge=0, le=1)

    @pydantic.field_validator("interval_ms")
    @classmethod
    def _exact(cls, value: int | float | str) -> int | float | str:
        try:
            interval = Fraction(str(value).strip())
        except (ValueError, ZeroDivisionError):
            raise ValueError('give milliseconds as a number or an exact fraction like "1001/30"') from None
        if not Fraction(1, 1000) <= interval <= 3_600_000:
            raise ValueError("must lie between 0.001 ms and one hour")
        return value

    @property
    def interval_ns(self) -> Fraction:
        """Time between ticks, exact."""
        return Fraction(str(self.interval_ms).strip()) * 1_000_000


class Window(_Table):
    """`[window]`: which stretches of a clip become hyperframes."""

    size: int = Field(16, ge=1, le=4096)
    margin: int = Field(2, ge=0, le=1024)
    placement: Literal["hotspot", "cover"] = "hotspot"
    per_clip: int = Field(8, ge=1, le=100_000)
    stride: int = Field(0, ge=0)  # 0 = automatic
    max_clamped: float = Field(0.25, ge=0, le=1)
    eval: Literal["quartiles", "cover", "hotspot"] = "quartiles"


class HotspotTable(_Table):
    """`[hotspot]`: how the action is found."""

    method: Literal["motion", "center"] = "motion"


class Balance(_Table):
    """`[balance]`: how many more windows rare classes get."""

    method: Literal["none", "sqrt", "full"] = "full"
    max_factor: float = Field(8.0, ge=1)


class Split(_Table):
    """`[split]`: shares of the groups whose rows name no split."""

    train: float = Field(0.8, ge=0)
    val: float = Field(0.1, ge=0)
    test: float = Field(0.1, ge=0)

    @pydantic.model_validator(mode="after")
    def _some(self) -> Split:
        if self.train + self.val + self.test <= 0:
            raise ValueError("at least one share must be above 0")
        return self


class Imu(_Table):
    """`[imu]`: sensor rows beside the frames."""

    channels: tuple[str, ...] = ()  # () = every axis found
    max_gap_ms: float = Field(200.0, gt=0)


class Store(_Table):
    """`[store]`: how the result lies on disk."""

    codec: Literal["raw", "lz4", "zstd"] = "lz4"
    windows_per_shard: int = Field(32, ge=1, le=65536)
    clip_budget_mb: int = Field(256, ge=1)


class Pipeline(_Table):
    """Everything that decides the bytes of a store, beside the manifest and the videos."""

    seed: int = Field(0, ge=0)
    frame: Frame = Frame()
    window: Window = Window()
    hotspot: HotspotTable = HotspotTable()
    balance: Balance = Balance()
    split: Split = Split()
    imu: Imu = Imu()
    store: Store = Store()


def load(path: str | Path | None = None, overrides: tuple[str, ...] = ()) -> Pipeline:
    """Read a pipeline: a TOML file, the name of a bundled one ("stacked_t3"), or None for the defaults; then
    `key=value` overrides ("window.size=32").

    Raises UsageError naming the key's path, the value and, for a misspelt key, the nearest one.
    """
    file = find(str(path)) if path is not None else None
    return load_as(Pipeline, file, overrides, where="pipeline")


Model = TypeVar("Model", bound=BaseModel)


def load_as(model: type[Model], file: Path | None, overrides: tuple[str, ...], where: str) -> Model:
    """Read any options object (the trainer has its own) from a TOML file, or from its defaults, and `key=value` overrides."""
    table: dict[str, Any] = {}
    if file is not None:
        where = str(file)
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
            raise UsageError(f"not valid TOML: {fault}", where=where, kind="bad_pipeline") from None
    for text in overrides:
        _override(table, text)
    return check_as(model, table, where)


def check(table: dict[str, Any], where: str = "pipeline") -> Pipeline:
    """Make a Pipeline of nested tables; raises UsageError with the key's path."""
    return check_as(Pipeline, table, where)


def check_as(model: type[Model], table: dict[str, Any], where: str) -> Model:
    """Make an options object of nested tables; raises UsageError with the key's path."""
    try:
        return model.model_validate(table)
    except pydantic.ValidationError as fault:
        raise UsageError("; ".join(_explain(e, model) for e in fault.errors()), where=where, kind="bad_pipeline") from None


def bundled() -> Path:
    """Folder of the recipes that come with hfprep (inside the package when installed, beside it in a clone)."""
    inside = Path(__file__).parent / "pipelines"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "pipelines"


def find(name: str) -> Path:
    """The file of a pipeline given as a path or as a bundled name; raises UsageError listing the names there are."""
    file = Path(name)
    if file.is_file():
        return file
    named = bundled() / f"{name}.toml"
    if "/" not in name and named.is_file():
        return named
    names = sorted(p.stem for p in bundled().glob("*.toml"))
    raise UsageError(f"no pipeline {name!r}", remedy=f"give a TOML file or one of: {', '.join(names)}", kind="bad_pipeline")


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


def _override(table: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {text!r} is not key=value", remedy="write for example --set window.size=32", kind="bad_pipeline")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()  # a bare word or fraction: window.placement=cover, frame.interval_ms=1001/30
    *parents, last = key.strip().split(".")
    for name in parents:
        child = table.setdefault(name, {})
        if not isinstance(child, dict):
            raise UsageError(f"--set {text!r}: {name!r} is not a table", kind="bad_pipeline")
        table = child
    table[last] = parsed


def _explain(error: Any, model: type[BaseModel]) -> str:
    path = [str(part) for part in error["loc"]]
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        known = _keys_beside(path, model)
        near = difflib.get_close_matches(path[-1], known, n=1)
        hint = f", did you mean {near[0]!r}?" if near else f"; known here: {', '.join(known)}"
        return f"unknown key {key!r}{hint}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{key} = {error['input']!r}: {message}"


def _keys_beside(path: list[str], model: type[BaseModel]) -> list[str]:
    for name in path[:-1]:
        field = model.model_fields.get(name)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return []
        model = field.annotation
    return list(model.model_fields)
