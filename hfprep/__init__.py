"""hfprep: one offline build from labelled videos and sensors to a store that action models train from."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("hfprep")
except PackageNotFoundError:  # run from a folder that was never installed
    __version__ = "0+unknown"

_LAZY = {"HfprepError": "errors", "build_store": "build", "open_store": "store", "load_pipeline": "pipeline"}
__all__ = ["HfprepError", "__version__", "build_store", "load_pipeline", "open_store"]


def __getattr__(name: str) -> Any:  # nothing heavy is imported until it is used
    if name in _LAZY:
        module = import_module(f".{_LAZY[name]}", __name__)
        return getattr(module, {"load_pipeline": "load"}.get(name, name))
    raise AttributeError(f"module 'hfprep' has no attribute {name!r}")
