"""The command that made a store, from what the store says of itself."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from ..pipeline import Pipeline


def build_command(attrs: dict[str, Any], folder: Path, *, overwrite: bool = False) -> str:
    """The `hfprep build` command for the store at `folder`: manifest's name, place, and every pipeline key that is not at its
    default; ready for a shell. With overwrite it builds anew, without it it continues.

    The store keeps the manifest's name, not its folder: the caller says so where it matters.
    """
    words = ["hfprep", "build", str(attrs.get("manifest", "MANIFEST")), "-o", str(folder)]
    default = Pipeline().model_dump(mode="json")
    for table, keys in attrs.get("pipeline", {}).items():
        pairs = {f"{table}.{key}": (value, _at(default, table, key)) for key, value in keys.items()} if isinstance(keys, dict) else {}
        for name, (value, usual) in (pairs or {table: (keys, default.get(table))}).items():
            if value != usual:
                words += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join([*words, *(["--overwrite"] if overwrite else [])])


def _at(default: dict[str, Any], table: str, key: str) -> Any:
    keys = default.get(table)
    return keys.get(key) if isinstance(keys, dict) else None
