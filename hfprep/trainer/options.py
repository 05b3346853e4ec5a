"""What a training run is told: one frozen object, read from TOML and `--set key=value` like a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from ..errors import UsageError
from ..options import Table, load_as


class Model(Table):
    """`[model]`: the network, and the frames of a window that it sees."""

    backbone: str = "small"  # our own small network, or the name of a timm backbone
    t: int = Field(0, ge=0)  # frames taken out of a window; 0 = by form: sequence all, stacked 3 (fewer if fewer fit), frame 1
    step: int = Field(1, ge=1)  # ticks between frames taken
    width: int = Field(24, ge=8, multiple_of=8)  # channels of the small network's first stage
    grid: int = Field(4, ge=1, le=16)  # places a side that pooling keeps: where a thing is must survive to tell where it moves
    features: int = Field(96, ge=8, multiple_of=8)  # channels of one frame after the encoder
    dropout: float = Field(0.1, ge=0, lt=1)
    sensors: bool = True  # use the store's sensor rows where the form can (sequence)


class Train(Table):
    """`[train]`: the loop."""

    epochs: int = Field(15, ge=1)
    batch: int = Field(32, ge=1)
    lr: float = Field(2e-3, gt=0)
    weight_decay: float = Field(0.05, ge=0)
    warmup: float = Field(0.05, ge=0, le=1)  # share of all steps
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    clip_norm: float = Field(1.0, gt=0)
    resize: int = Field(0, ge=0)  # short side in pixels on the device; 0 = as stored
    workers: int = Field(0, ge=0)


class Augment(Table):
    """`[augment]`: what changes from one look at a window to the next; off in evaluation."""

    shift_ms: float = Field(-1.0, ge=-1)  # largest shift of the centre in time; -1 = all that the store's margin allows
    zoom: float = Field(0.15, ge=0, lt=1)  # largest share of each side cut away, one crop for all frames of a window
    colour: float = Field(0.2, ge=0, lt=1)  # largest change of brightness and contrast, one for all frames of a window


class Options(Table):
    """All that decides a run, beside the store."""

    form: Literal["sequence", "stacked", "frame"] = "sequence"
    seed: int = Field(0, ge=0)
    device: str = "auto"
    model: Model = Model()
    train: Train = Train()
    augment: Augment = Augment()


def load(recipe: str | Path | None = None, overrides: tuple[str, ...] = ()) -> Options:
    """Options from a TOML file (None: the defaults) and `key=value` overrides ("model.width=32").

    Raises UsageError naming the key's path, the value and, for a misspelt key, the nearest one.
    """
    if recipe is not None and not Path(recipe).is_file():
        raise UsageError("no such recipe file", where=str(recipe), remedy="give a TOML file with trainer options", kind="bad_recipe")
    return load_as(Options, Path(recipe) if recipe is not None else None, overrides, where="trainer options")


def frames_taken(model: Model, form: str, size: int) -> tuple[int, int]:
    """(t, step) of the frames that a form takes out of a window of `size` ticks: the middle ones, centre included.

    size 16, stacked -> (3, 1);  size 2, stacked -> (1, 1).  Raises UsageError where they do not fit or T is even (a stack has a
    middle frame, so T is odd).
    """
    if form == "frame":
        return 1, 1
    fits = (size - 1) // model.step + 1  # frames at this step that a window holds
    automatic = fits if form == "sequence" else min(3, fits - 1 + fits % 2)
    t = model.t or automatic
    if form == "stacked" and t % 2 == 0:
        raise UsageError(f"model.t = {t}: a stack has a middle frame, so T is odd", remedy=f"give {t - 1} or {t + 1}", kind="bad_t")
    span = (t - 1) * model.step + 1
    if span > size:
        what = f"model.t = {t} at model.step = {model.step} spans {span} ticks, but the store's windows have {size}"
        raise UsageError(what, remedy=f"give t up to {fits}, or build with window.size={span}", kind="bad_t")
    return t, model.step
