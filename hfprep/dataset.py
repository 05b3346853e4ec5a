"""The torch Dataset over a store's split, a whole batch at a time, and the DataLoader that goes with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import views
from .errors import UsageError
from .reader import open_store
from .records import I64, SPLITS, Bool

try:
    import torch
    from torch.utils.data import BatchSampler, Dataset, Sampler
except ImportError:
    raise UsageError("training needs torch, which is not installed", remedy="pip install 'hfprep[train]'", kind="no_torch") from None

from . import samplers
from .buffers import Buffers, Slabs
from .passes import Batch as Batch
from .passes import Loader, packed

Named = Literal["weighted", "clips", "shards"]


class HyperframeDataset(Dataset[Batch]):
    """Hyperframes of one split as plain dicts of tensors; rows that could not be prepared (`ok` false) never appear.

    t       frames of a window, the middle ones; default: the store's window size
    step    ticks from one frame to the next (1 = all)
    jitter  ticks by which the centre moves at most, drawn anew for each window and epoch: within the stored margin, or, in a store
            of layout "frames", anywhere in the clip where the recipe's window.max_clamped allows a centre
    stride  (low, high), layout "frames" only: each epoch draws every clip a stride and places its windows anew around its hotspot,
            which stays the first of them; as many as are stored
    seed    of jitter and stride; with set_epoch it decides them, whatever the workers and the order

    An item has frames uint8 (t,3,H,W), a channels_last view of the stored bytes; clamped bool (t,); label, clip, row, center_ns int64
    (where windows may be of several classes labels bool (C,) instead of label); weight float32; with sensors imu float32 (t,M), 0 where
    unknown, and imu_ok bool (t,). A batch has the same with B in front; `row` is the row of the split in the store.
    Raises StoreError, and UsageError where the stored ticks cannot give what is asked for.

    >>> train = HyperframeDataset("demo.zarr", "train", t=3)     # doctest: +SKIP
    >>> train[0]["frames"].shape                                 # doctest: +SKIP
    torch.Size([3, 3, 160, 160])
    """

    def __init__(
        self,
        path: str | Path,
        split: str,
        t: int | None = None,
        step: int = 1,
        jitter: int = 0,
        *,
        stride: tuple[int, int] | None = None,
        seed: int = 0,
    ) -> None:
        self.store = open_store(path)
        if split not in SPLITS:
            raise UsageError(f"no split {split!r}", where=str(path), remedy=f"take one of {', '.join(SPLITS)}", kind="bad_split")
        self.t = self.store.layout.size if t is None else t
        self.split, self.step = split, step
        self._reader = self.store[split]
        self._view = views.of(self.store, split, views.Take(self.t, step, jitter, stride, seed))
        self.rows: I64 = np.flatnonzero(self._reader.columns["ok"])
        self.classes, self.axes = self.store.classes, self.store.layout.axes
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]  # workers that live on see set_epoch
        self._begun = False
        self._buffers = Buffers()
        self._named = ("labels" if self.store.layout.label_classes else "label", "clip")

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"HyperframeDataset({str(self.store.folder)!r}, {self.split}, {len(self)} windows, t={self.t}, step={self.step})"

    @property
    def labels(self) -> I64 | Bool:
        """The label of every item, int64 (len,); of a store whose windows may be of several classes bool (len,C)."""
        if self.store.layout.label_classes:
            return self._reader.columns["labels"][self.rows]
        return self._reader.columns["label"][self.rows].astype(np.int64)

    @property
    def rarest(self) -> I64:
        """The label of every item, of several the one that fewest items have; int64 (len,)."""
        labels = self.labels
        if labels.dtype != np.bool_:
            return labels.astype(np.int64)
        order = np.argsort(labels.sum(axis=0), kind="stable")  # the rarest first
        return order[labels[:, order].argmax(axis=1)] if len(labels) else np.zeros(0, np.int64)

    @property
    def clips(self) -> I64:
        """The clip of every item, int64 (len,): a row of `store.clips`."""
        return self._reader.columns["clip"][self.rows].astype(np.int64)

    @property
    def shards(self) -> I64:
        """The shard of every item's stored centre, int64 (len,)."""
        return self._view.shards(self.rows)

    def imu_stats(self) -> views.AxisStats:
        """Mean, std and count of each sensor axis over the split train, whichever split this is: nothing is learnt from val and test."""
        return views.axis_stats(self.store["train"])

    @property
    def epoch(self) -> int:
        """The epoch whose shifts and strides are shown."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Draw the shifts and strides of this epoch: the same for the same seed and epoch, whatever the workers and the order."""
        self._epoch.fill_(epoch)
        self._begun = False

    def begin_epoch(self) -> int:
        """Begin a pass: of the epoch that was set, or, where that one was begun already, of the next."""
        if self._begun:
            self.set_epoch(self.epoch + 1)
        self._begun = True
        return self.epoch

    def load_columns(self) -> None:
        """Read the small columns now: worker processes that are forked later share them instead of holding one copy each."""
        self._view.load()
        for name in ("weight", *self._named):
            _ = self._reader.columns[name]

    def __getitem__(self, index: int | Sequence[int]) -> Batch:
        """One item, or the batch of a list of indexes."""
        if isinstance(index, list):
            return self.read(index)
        return {name: values[0] for name, values in self.read([int(index)]).items()}  # type: ignore[arg-type]

    def __getitems__(self, indexes: Sequence[int]) -> list[Batch]:
        """Items as a plain torch DataLoader asks for them and collates them; `loader` takes whole batches, which is faster."""
        batch = self.read(indexes)
        return [{name: values[k] for name, values in batch.items()} for k in range(len(indexes))]

    def read(self, indexes: Sequence[int]) -> Batch:
        """The batch of some items, read in one go."""
        rows = self.rows[np.asarray(indexes, np.int64)]
        array, frames = self._buffers.take((len(rows), self.t, *self.store.layout.window_shape[1:]))
        shown = self._view.read(rows, self.epoch, array)
        if self.axes:
            shown["imu"] = np.where(np.isnan(shown["imu"]), np.float32(0), shown["imu"])
        columns = self._reader.columns
        return {
            "frames": frames.permute(0, 1, 4, 2, 3),
            **{name: torch.from_numpy(values) for name, values in shown.items()},
            "weight": torch.from_numpy(columns["weight"][rows]),
            "row": torch.from_numpy(rows),
            **{name: torch.from_numpy(_integers(columns[name][rows])) for name in self._named},
        }


def loader(
    dataset: HyperframeDataset,
    batch: int = 16,
    *,
    shuffle: bool | None = None,
    seed: int = 0,
    workers: int = 0,
    sampler: Named | samplers.Batches | Sampler[int] | None = None,
    per_clip: int = 4,
    drop_last: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    start: str | None = None,
) -> Loader:
    """A DataLoader that reads whole batches (the usual collate is 5 times slower) and pins them where there is a GPU.

    shuffle   None: only train, and only without a sampler
    seed      of the order; each pass over the loader is an epoch with an order of its own
    workers   processes that read, into shared memory that they use again; 0 reads in this one
    sampler   "weighted", "clips" (per_clip windows of each clip), "shards", an object of hfprep.samplers, which knows its own batch,
              or anything that gives one index after another
    drop_last full batches only, else every row once: training gives every rank the same number of batches (`ends` "share"),
              and what is not shuffled leaves them as they come ("keep"; see hfprep.samplers)
    rank, world_size   of a distributed run; default: as torch.distributed says where it is initialised
    start     how the workers start: fork, spawn or forkserver; None: as Python does by itself
    """
    if workers:
        dataset.load_columns()
    if shuffle is None:
        shuffle = sampler is None and dataset.split == "train"
    ends: samplers.Ends = "drop" if drop_last else "share" if shuffle or sampler is not None else "keep"
    common: dict[str, Any] = {"seed": seed, "ends": ends, "rank": rank, "world_size": world_size}
    order: Any = sampler
    if sampler is None:
        order = samplers.Plain(len(dataset), batch, shuffle=shuffle, **common)
    elif isinstance(sampler, str):
        order = _named(sampler, dataset, batch, per_clip, common)
    elif not isinstance(sampler, samplers.Batches):
        order = BatchSampler(sampler, batch, drop_last)
    window_bytes = dataset.t * math.prod(dataset.store.layout.window_shape[1:])
    size = (order.batch if isinstance(order, samplers.Batches) else batch) * window_bytes
    lends = workers > 0 and Slabs.fit(workers, size)
    return Loader(
        dataset,
        batch_size=None,  # the sampler gives lists of indexes: one list, one batch, nothing to collate
        sampler=order,
        num_workers=workers,
        collate_fn=packed,
        pin_memory=torch.cuda.is_available(),
        generator=torch.Generator().manual_seed(seed),
        persistent_workers=workers > 0,
        multiprocessing_context=start if workers else None,
        worker_init_fn=Slabs(workers, size).install if lends else None,
    )


def _integers(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers as int64, which is what torch's losses and embeddings take; sets of classes stay bool."""
    return values if values.dtype == np.bool_ else values.astype(np.int64)


def _named(name: str, dataset: HyperframeDataset, batch: int, per_clip: int, common: dict[str, Any]) -> samplers.Batches:
    if name == "weighted":
        return samplers.Weighted(dataset.rarest, batch, **common)
    if name == "clips":
        return samplers.Clips(dataset.clips, batch, per_clip=per_clip, **common)
    if name == "shards":
        return samplers.Shards(dataset.shards, batch, **common)
    raise UsageError(f"no sampler {name!r}", where="loader", remedy="take weighted, clips or shards", kind="bad_sampler")
