"""Options objects (a build's recipe, a training run's settings): read from TOML and `key=value` texts, checked key by key."""

from __future__ import annotations

import copy
import difflib
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict

from .errors import UsageError


class Table(BaseModel):
    """One table of options: frozen, unknown keys and values of another type refused ("16" or true for a number is a slip)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


Model = TypeVar("Model", bound=BaseModel)


def load_as(model: type[Model], file: Path | None, overrides: tuple[str, ...], where: str) -> Model:
    """Read an options object from a TOML file, or from its defaults, then `key=value` overrides.

    An override's value is TOML, or a bare word or fraction as the shell hands it over: "window.size=32", "frame.fit=pad".
    where names the options in messages when there is no file. Raises UsageError with the key's path, the value seen and, for a
    misspelt key, the nearest one.
    """
    table: dict[str, Any] = {}
    if file is not None:
        where = str(file)
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
            raise UsageError(f"cannot be read as TOML: {fault}", where=where, kind="bad_pipeline") from None
    return revise_as(model, table, overrides, where)


def revise_as(model: type[Model], table: dict[str, Any], overrides: tuple[str, ...], where: str) -> Model:
    """Make an options object of nested tables with `key=value` overrides, see load_as; the tables stay as they are."""
    revised: dict[str, Any] = copy.deepcopy(table)
    return check_as(model, revised, where, [_override(revised, text) for text in overrides])


def check_as(model: type[Model], table: dict[str, Any], where: str, overridden: list[str] | None = None) -> Model:
    """Make an options object of nested tables, as TOML or a store's attributes give them; raises UsageError with the key's path.

    where is the file to name in the message; where every fault lies in an `overridden` key, the message names --set instead.
    """
    try:
        return model.model_validate(table)
    except pydantic.ValidationError as fault:
        errors = fault.errors()
        text = "; ".join(dict.fromkeys(_explain(e, model) for e in errors))
        own = all(any(_overlap(_path(e), key) for key in overridden or []) for e in errors)
        raise UsageError(text, where="--set" if own else where, kind="bad_pipeline") from None


def _override(table: dict[str, Any], text: str) -> str:
    key, equals, value = text.partition("=")
    path = [name.strip() for name in key.split(".")]
    if not equals or not all(path):
        raise UsageError(f"--set {text!r} is not key=value", remedy="write for example --set window.size=32", kind="bad_pipeline")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()  # a bare word or fraction: window.placement=cover, frame.interval_ms=1001/30
    for name in path[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise UsageError(f"--set {text!r}: {name!r} has a value already and is no table", kind="bad_pipeline")
    table[path[-1]] = parsed
    return ".".join(path)


# pydantic's error types in our words; {...} are the bounds that pydantic reports with the error
_WORDS = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "literal_error": "must be one of {expected}",
    "value_error": "{error}",
}


def _explain(error: Any, model: type[BaseModel]) -> str:
    key, kind, seen = _path(error), error["type"], error["input"]
    if kind == "extra_forbidden":
        return _unknown(key, model)
    if kind == "model_type":
        return f"{key} = {seen!r}: is a table; known in it: {', '.join(_keys(key, model))}"
    words = _WORDS[kind].format(**error.get("ctx", {})) if kind in _WORDS else str(error["msg"])
    whole = kind == "missing" or not error["loc"] or (key in model.model_fields and isinstance(seen, dict))
    return f"{key}: {words}" if whole else f"{key} = {seen!r}: {words}"  # a whole table is not repeated


def _unknown(key: str, model: type[BaseModel]) -> str:
    table, _, last = key.rpartition(".")
    beside = {name: f"{table}.{name}" if table else name for name in _keys(table, model)}
    # a right name in the wrong table (size -> window.size), else the nearest in this one
    known = [name for name in model.model_fields if name == last]
    known += [f"{other}.{last}" for other in model.model_fields if last in _keys(other, model)]
    known += [beside[name] for name in difflib.get_close_matches(last, list(beside), n=1)]
    if known:
        return f"unknown key {key!r}, did you mean {known[0]!r}?"
    return f"unknown key {key!r}; known here: {', '.join(beside.values())}"


def _keys(table: str, model: type[BaseModel]) -> list[str]:
    """Keys of a table, or of the top for ""; empty where there is no such table."""
    if not table:
        return list(model.model_fields)
    field = model.model_fields.get(table)
    if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
        return []
    return list(field.annotation.model_fields)


def _path(error: Any) -> str:
    return ".".join(str(part) for part in error["loc"])


def _overlap(path: str, key: str) -> bool:
    """True where one dotted path is the other or lies inside it."""
    return path == key or path.startswith(f"{key}.") or key.startswith(f"{path}.")
