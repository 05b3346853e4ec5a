"""Files of a run: written beside and renamed, so that a reader, or a run cut off in the middle, finds the old one or the new one whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import nn

from ..errors import HfprepError


def save(path: Path, model: nn.Module, facts: dict[str, Any]) -> None:
    """Write a model's weights as safetensors (no pickle: opening one runs no code), with `facts` as JSON in its header."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    replace(path, safetensors.torch.save(tensors, {"hfprep": json.dumps(facts)}))


def load(path: Path, model: nn.Module) -> dict[str, Any]:
    """Read weights into `model` and return the facts saved with them; raises HfprepError for another network's or a damaged file."""
    remedy = "give a checkpoint that hfprep train wrote for this model"
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {}).get("hfprep", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping: it has no __iter__
    except (OSError, safetensors.SafetensorError, ValueError) as fault:
        raise HfprepError(f"not a checkpoint: {fault}", where=str(path), remedy=remedy, kind="bad_checkpoint") from None
    own = model.state_dict()
    wrong = sorted(name for name in own.keys() | tensors.keys() if _shape(own, name) != _shape(tensors, name))
    if wrong:
        what = f"weights of another network: {wrong[0]} is {_shape(tensors, wrong[0])}, not {_shape(own, wrong[0])}"
        raise HfprepError(what, where=str(path), remedy=remedy, kind="bad_checkpoint")
    model.load_state_dict(tensors)
    return dict(facts)


def _shape(tensors: dict[str, Any], name: str) -> str:
    return str(tuple(tensors[name].shape)) if name in tensors else "absent"


def replace(path: Path, content: bytes) -> None:
    """Put `content` in the place of a file in one step."""
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # else a power cut can leave the new name with the old length of nothing
    beside.replace(path)
