"""What a run takes from a store: its splits as datasets, checked to suit the options, and a batch made ready for the network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import forms, pipeline
from ..dataset import Batch, HyperframeDataset
from ..errors import HfprepError
from ..reader import Store, open_store
from . import augment
from .models import Sensors
from .options import Options, frames_taken

FEWEST_SENSOR_ROWS = 2


@dataclass(frozen=True, eq=False)
class Data:
    """A store as one run sees it.

    train, val, test  the splits (val, test None where empty); train shifts its centres, the others do not
    t, step           frames taken out of a window, and ticks between them
    height, width     of the pictures that the network sees
    sensors           mean and spread of the training rows, None where no sensors are used
    contract          what the store says of itself, for the run's config
    warnings          what a person should know before the run
    """

    train: HyperframeDataset
    val: HyperframeDataset | None
    test: HyperframeDataset | None
    classes: tuple[str, ...]
    t: int
    step: int
    height: int
    width: int
    sensors: Sensors | None
    contract: dict[str, Any]
    warnings: tuple[str, ...]

    @classmethod
    def open(cls, path: str | Path, options: Options) -> Data:
        """Open a store; raises HfprepError where nothing can be learned from it or judged, UsageError where it lacks what a form needs."""
        store = open_store(path)
        t, step = frames_taken(options.model, options.form, store.layout.size)
        jitter = _jitter(store, options.augment.shift_ms)
        train = HyperframeDataset(path, "train", t, step, jitter, seed=options.seed)
        others = {split: HyperframeDataset(path, split, t, step) for split in ("val", "test")}
        _suits(train, others)
        height, width = _resized(store, options.train.resize)
        sensors = _sensors(train) if options.form == "sequence" and options.model.sensors and train.axes else None
        return cls(
            train=train,
            val=others["val"] if len(others["val"]) else None,
            test=others["test"] if len(others["test"]) else None,
            classes=tuple(store.classes),
            t=t,
            step=step,
            height=height,
            width=width,
            sensors=sensors,
            contract=_contract(store),
            warnings=tuple(_warnings(train, others)),
        )


def inputs(batch: Batch, data: Data, options: Options, device: torch.device, draws: torch.Generator | None = None) -> tuple[Tensor, ...]:
    """A batch as the network takes it: uint8 until the device, one crop, colour change and normalisation for all frames of a window.

    draws  random numbers of the augmentation; None = evaluation, nothing is changed.
    Returns the form's tensor (see models.build), and with sensors their rows (B,T,M) and mask (B,T).
    """
    frames = batch["frames"].to(device, non_blocking=True)
    boxes = None
    if draws is not None and options.augment.zoom:
        boxes = augment.crops(len(frames), frames.shape[-2], frames.shape[-1], options.augment.zoom, draws)
    pictures = augment.picture(frames, data.height, data.width, boxes)
    if draws is not None and options.augment.colour:
        pictures = augment.colour(pictures, options.augment.colour, draws)
    pictures = forms.normalise(pictures)
    if options.form == "stacked":
        return (forms.stacked(pictures, data.t),)
    if options.form == "frame":
        return (pictures[:, data.t // 2],)
    if data.sensors is None:
        return (pictures,)
    return pictures, batch["imu"].to(device), batch["imu_ok"].to(device)


def _suits(train: HyperframeDataset, others: dict[str, HyperframeDataset]) -> None:
    where = str(train.store.folder)
    remedy = "see `hfprep inspect`; give clips the split in the manifest, or raise its share in [split], and build again"
    if not len(train):
        raise HfprepError("no window of the split train can be used", where=where, remedy=remedy, kind="no_train")
    if not any(map(len, others.values())):
        raise HfprepError("neither test nor val has clips: a model could not be judged", where=where, remedy=remedy, kind="no_test")
    present = np.unique(train.labels)
    if len(present) < 2:
        only = train.classes[int(present[0])]
        what = f"all clips of train are of one class, {only!r}: there is nothing to learn"
        raise HfprepError(what, where=where, remedy="build a store of two classes or more", kind="one_class")


def _warnings(train: HyperframeDataset, others: dict[str, HyperframeDataset]) -> list[str]:
    found = []
    if not len(others["test"]):
        found.append("test has no clips: judged on val, which also chose the checkpoint, so the figure flatters")
    if not len(others["val"]):
        found.append("val has no clips: the last epoch's weights count")
    seen = set(train.labels.tolist())
    unseen = [name for number, name in enumerate(train.classes) if number not in seen]
    if unseen:
        found.append(f"no clip of train is of the class {', '.join(unseen)}")
    return found


def _jitter(store: Store, shift_ms: float) -> int:
    """Ticks that the centre may move: the wish in whole ticks, as far as the margin reaches."""
    if shift_ms < 0:
        return store.layout.margin
    interval_ns = pipeline.check(store.pipeline, str(store.folder)).frame.interval_ns
    return min(store.layout.margin, int(shift_ms * 1_000_000 / interval_ns))


def _resized(store: Store, short: int) -> tuple[int, int]:
    height, width = store.layout.height, store.layout.width
    if not short:
        return height, width
    share = short / min(height, width)
    return round(height * share), round(width * share)


def _sensors(train: HyperframeDataset) -> Sensors | None:
    columns = train.store["train"].columns
    rows = columns["imu"][train.rows][columns["imu_ok"][train.rows]].astype(np.float64)
    if len(rows) < FEWEST_SENSOR_ROWS:  # named axes, but never measured
        return None
    spread = rows.std(axis=0)
    spread[spread < 1e-6] = 1.0  # an axis that never changes is only centred
    return Sensors(tuple(rows.mean(axis=0).tolist()), tuple(spread.tolist()))


def _contract(store: Store) -> dict[str, Any]:
    table, layout = store.pipeline, store.layout
    names = ("fingerprint", "plan_digest", "format_version", "versions", "classes", "axes")
    contract = {"path": str(store.folder.resolve()), **{name: store.attrs.get(name) for name in names}}
    contract["interval_ms"] = table["frame"]["interval_ms"]
    return contract | {name: getattr(layout, name) for name in ("size", "margin", "height", "width")}
