"""One training run, readable from top to bottom: open the store, make the network, loop, judge by clip."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from .. import __version__, forms
from ..dataset import Batch, HyperframeDataset, loader
from ..errors import HfprepError, UsageError
from . import checkpoint, models
from .data import Data, inputs
from .metrics import Scores, score
from .options import Options

CONFIG, METRICS, BEST, LAST = "config.json", "metrics.jsonl", "best.safetensors", "last.safetensors"
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What a run came to: scores over the clips of `split` with the weights of `best_epoch` (from 1)."""

    out: Path
    classes: tuple[str, ...]
    split: str
    scores: Scores
    best_epoch: int
    seconds: float


def train(
    store: str | Path, out: str | Path, options: Options, *, overwrite: bool = False, report: Report = lambda record: None
) -> Summary:
    """Train a network from a finished store and judge it on clips that it never saw.

    out receives config.json (the resolved options, the store's fingerprint and contract), metrics.jsonl (a line a step and an
    epoch), last.safetensors (after every epoch) and best.safetensors (the epoch with the highest macro-F1 over the clips of val;
    the last one where there is no val). Each is whole at any moment. The same store, options and device give the same result.
    report is called with every line of metrics.jsonl as a dict, and with {"kind": "warning", "message": ...}.

    Raises HfprepError where the store cannot be trained from, where the loss stops being a number; UsageError for options that do
    not suit the store.
    """
    began = time.monotonic()
    device = _device(options.device)
    torch.manual_seed(options.seed)
    data = Data.open(store, options)
    for message in data.warnings:
        report({"kind": "warning", "message": message})
    folder = _folder(Path(out), overwrite)
    model = models.build(options.model, options.form, len(data.classes), data.t, data.sensors).to(device)
    model = model.to(memory_format=torch.channels_last)  # as the frames come
    checkpoint.replace(folder / CONFIG, json.dumps(_config(options, data, model), indent=1).encode())

    draws = torch.Generator().manual_seed(options.seed)  # for augmentation, apart from the network's own randomness
    batches = loader(data.train, options.train.batch, shuffle=True, seed=options.seed, workers=options.train.workers)
    steps = options.train.epochs * len(batches)
    optimizer = torch.optim.AdamW(_groups(model, options.train.weight_decay), lr=options.train.lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, steps, options.train.warmup))
    best, best_epoch, step = (-1.0, -math.inf), 0, 0
    with (folder / METRICS).open("w", encoding="utf-8") as lines:

        def tell(record: dict[str, Any]) -> None:
            lines.write(json.dumps(record) + "\n")
            lines.flush()
            report(record)

        tell({"kind": "start", "epochs": options.train.epochs, "steps": steps, "windows": len(data.train), "device": str(device)})
        for epoch in range(1, options.train.epochs + 1):
            model.train()
            data.train.set_epoch(epoch)
            started = time.monotonic()
            losses, waited = [], 0.0
            for batch, wait in _timed(batches):
                logits = model(*inputs(batch, data, options, device, draws))
                loss = functional.cross_entropy(logits, batch["label"].to(device), label_smoothing=options.train.label_smoothing)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                norm = nn.utils.clip_grad_norm_(model.parameters(), options.train.clip_norm)
                step += 1
                losses.append(_finite(loss.item(), norm.item(), step, folder))
                optimizer.step()
                tell({"kind": "step", "step": step, "epoch": epoch, "loss": losses[-1], "lr": schedule.get_last_lr()[0]})
                schedule.step()
                waited += wait
            seconds = time.monotonic() - started
            record = {"kind": "epoch", "epoch": epoch, "loss": float(np.mean(losses)), "seconds": seconds, "waiting": waited / seconds}
            checkpoint.save(folder / LAST, model, {"epoch": epoch})
            reached = (float(epoch), 0.0)
            if data.val is not None:
                val = evaluate(model, data.val, data, options, device)
                record |= {"val_loss": val.loss, "val_accuracy": val.accuracy, "val_macro_f1": val.macro_f1}
                reached = (val.macro_f1, -val.loss)
            if reached > best:
                best, best_epoch = reached, epoch
                checkpoint.save(folder / BEST, model, {"epoch": epoch})
            tell(record)

        checkpoint.load(folder / BEST, model)
        split, judged = ("test", data.test) if data.test is not None else ("val", data.val)
        assert judged is not None  # Data.open refuses a store with neither
        scores = evaluate(model, judged, data, options, device)
        tell(
            {"kind": split, "epoch": best_epoch, "clips": scores.clips, "accuracy": scores.accuracy, "macro_f1": scores.macro_f1}
            | {"confusion": scores.confusion.tolist(), "classes": list(data.classes)}
        )
    return Summary(folder, data.classes, split, scores, best_epoch, time.monotonic() - began)


@torch.no_grad()
def evaluate(model: nn.Module, dataset: HyperframeDataset, data: Data, options: Options, device: torch.device) -> Scores:
    """Judge the clips of a dataset by the mean logits of their windows: no shift, no augmentation."""
    model.eval()
    logits, labels, clips = [], [], []
    for batch in loader(dataset, options.train.batch, shuffle=False, workers=options.train.workers):
        logits.append(model(*inputs(batch, data, options, device)).float().cpu())
        labels.append(batch["label"])
        clips.append(batch["clip"])
    every, truth = torch.cat(logits), torch.cat(labels)
    loss = functional.cross_entropy(every, truth).item()
    return score(every.numpy(), truth.numpy(), torch.cat(clips).numpy(), loss)


def learning_rate(step: int, steps: int, warmup: float) -> float:
    """Share of the full rate: a line up over the first `warmup` of the steps, then half a cosine down to 0."""
    rising = max(1, round(steps * warmup))
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


def _groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    # weights of products decay; biases, norms and positions have no scale that decay could keep in check
    matrices = [p for name, p in model.named_parameters() if p.ndim > 1 and not name.endswith("positions")]
    others = [p for name, p in model.named_parameters() if p.ndim <= 1 or name.endswith("positions")]
    return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def _timed(batches: Iterable[Batch]) -> Iterator[tuple[Batch, float]]:
    """Batches with the seconds spent waiting for each: tells whether reading or arithmetic bounds a run."""
    turn = iter(batches)
    while True:
        asked = time.monotonic()
        batch = next(turn, None)
        if batch is None:
            return
        yield batch, time.monotonic() - asked


def _finite(loss: float, norm: float, step: int, folder: Path) -> float:
    if math.isfinite(loss) and math.isfinite(norm):
        return loss
    kept = f"the weights of the last whole epoch are in {folder / LAST}" if (folder / LAST).exists() else "no epoch was finished"
    what = f"the loss is {loss} (gradient {norm}) at step {step}: training diverged; {kept}"
    raise HfprepError(what, where=str(folder), remedy="lower train.lr, or raise train.warmup", kind="bad_loss")


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as fault:  # AssertionError: torch built without CUDA
        reason = str(fault).splitlines()[0]
        raise UsageError(f"device = {name!r} cannot be used: {reason}", remedy="give cpu, cuda or auto", kind="bad_device") from None
    return device


def _folder(out: Path, overwrite: bool) -> Path:
    kept = [out / name for name in (CONFIG, METRICS, BEST, LAST) if (out / name).exists()]
    if kept and not overwrite:
        raise UsageError("holds a run already", where=str(out), remedy="give another -o, or --overwrite", kind="exists")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file in kept:
            file.unlink()
    except OSError as fault:
        raise HfprepError(f"cannot be written: {fault.strerror}", where=str(out), remedy="give another -o", kind="permission") from None
    return out


def _config(options: Options, data: Data, model: nn.Module) -> dict[str, Any]:
    """All that is needed to rebuild the network and to feed it, and where the run came from."""
    return {
        "options": options.model_dump(mode="json"),
        "store": data.contract,
        "input": {"form": options.form, "t": data.t, "step": data.step, "height": data.height, "width": data.width}
        | {"mean": list(forms.MEAN), "std": list(forms.STD), "sensors": asdict(data.sensors) if data.sensors else None},
        "weights": sum(p.numel() for p in model.parameters()),
        "versions": {"hfprep": __version__, "torch": str(torch.__version__)},
    }
