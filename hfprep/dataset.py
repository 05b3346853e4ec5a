"""The torch Dataset over a store's split, a whole batch at a time, and the DataLoader that goes with it."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .errors import UsageError
from .reader import open_store
from .records import I64, SPLITS, U8

try:
    import torch
    from torch import Tensor
    from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler, get_worker_info
except ImportError:
    raise UsageError("training needs torch, which is not installed", remedy="pip install 'hfprep[train]'", kind="no_torch") from None

Batch = dict[str, Tensor]
SPARE_BUFFERS = 4  # batches that wait for reuse; more are freed


class HyperframeDataset(Dataset[Batch]):
    """Hyperframes of one split as plain dicts of tensors; rows that could not be prepared (`ok` false) never appear.

    t       frames of a window, the middle ones; default: the store's window size
    step    ticks from one frame to the next (1 = all)
    jitter  ticks by which the centre moves at most, drawn anew for each window and epoch from `seed` (see set_epoch)

    An item has frames uint8 (t,3,H,W), a channels_last view of the stored bytes; clamped bool (t,); label, clip, row, center_ns int64;
    weight float32; with sensors imu float32 (t,M), 0 where unknown, and imu_ok bool (t,). A batch has the same with B in front;
    `row` is the row of the split in the store. Raises StoreError, and UsageError where the stored ticks cannot give t, step, jitter.

    >>> train = HyperframeDataset("demo.zarr", "train", t=3)     # doctest: +SKIP
    >>> train[0]["frames"].shape                                 # doctest: +SKIP
    torch.Size([3, 3, 160, 160])
    """

    def __init__(self, path: str | Path, split: str, t: int | None = None, step: int = 1, jitter: int = 0, *, seed: int = 0) -> None:
        self.store = open_store(path)
        if split not in SPLITS:
            raise UsageError(f"no split {split!r}", where=str(path), remedy=f"take one of {', '.join(SPLITS)}", kind="bad_split")
        layout = self.store.layout
        self.split, self.step, self.jitter, self.seed = split, step, jitter, seed
        self.t = layout.size if t is None else t
        self._reader = self.store[split]
        self._center = layout.margin + layout.size // 2
        self._first = self._center - self.t // 2 * step
        last = self._first + (self.t - 1) * step
        if min(self.t, step) < 1 or jitter < 0 or self._first - jitter < 0 or last + jitter >= layout.length:
            raise UsageError(
                f"t = {self.t}, step = {step}, jitter = {jitter} reaches from frame {self._first - jitter} to {last + jitter}; "
                f"a window holds 0 to {layout.length - 1}, centred on {self._center}",
                where=str(path),
                remedy="take fewer frames, or build with a larger window.size or window.margin",
                kind="bad_window",
            )
        self.rows: I64 = np.flatnonzero(self._reader.columns["ok"])
        self.classes = self.store.classes
        self.axes = layout.axes
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]  # workers that live on see set_epoch
        self._shifts: tuple[int, I64] | None = None
        self._buffers = _Buffers()

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"HyperframeDataset({str(self.store.folder)!r}, {self.split}, {len(self)} windows, t={self.t}, step={self.step})"

    @property
    def labels(self) -> I64:
        """The label of every item, int64 (len,)."""
        return self._reader.columns["label"][self.rows].astype(np.int64)

    @property
    def clips(self) -> I64:
        """The clip of every item, int64 (len,): a row of `store.clips`."""
        return self._reader.columns["clip"][self.rows].astype(np.int64)

    def set_epoch(self, epoch: int) -> None:
        """Draw the shifts of this epoch: the same for the same seed and epoch, whatever the workers and the order."""
        self._epoch.fill_(epoch)

    def load_columns(self) -> None:
        """Read the small columns now: worker processes that are forked later share them instead of holding one copy each."""
        for name in ("clamped", "time_ns", "weight", "label", "clip", *(("imu", "imu_ok") if self.axes else ())):
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
        first = self._first + self._shift(rows)
        array, frames = self._buffers.take((len(rows), self.t, *self.store.layout.window_shape[1:]))
        self._reader.read_frames(rows, array, first, self.step)
        ticks = first[:, None] + np.arange(self.t) * self.step
        columns = self._reader.columns
        batch = {
            "frames": frames.permute(0, 1, 4, 2, 3),
            "clamped": torch.from_numpy(columns["clamped"][rows[:, None], ticks]),
            "center_ns": torch.from_numpy(columns["time_ns"][rows, first + self.t // 2 * self.step]),
            "weight": torch.from_numpy(columns["weight"][rows]),
            "row": torch.from_numpy(rows),
            **{name: torch.from_numpy(columns[name][rows].astype(np.int64)) for name in ("label", "clip")},
        }
        if self.axes:
            imu = columns["imu"][rows[:, None], ticks]
            batch["imu"] = torch.from_numpy(np.where(np.isnan(imu), np.float32(0), imu))
            batch["imu_ok"] = torch.from_numpy(columns["imu_ok"][rows[:, None], ticks])
        return batch

    def _shift(self, rows: I64) -> I64:
        if not self.jitter:
            return np.zeros(len(rows), np.int64)
        epoch = int(self._epoch)
        if self._shifts is None or self._shifts[0] != epoch:
            draws = np.random.default_rng([self.seed, epoch]).integers(-self.jitter, self.jitter + 1, len(self._reader))
            self._shifts = (epoch, draws)
        shifts: I64 = self._shifts[1][rows]
        return shifts


class _Buffers:
    """Memory of batches. A new 39 MB array a batch costs more in page faults than reading its pixels, so that the main process
    takes one again as soon as nothing refers to the batch that lay in it."""

    def __init__(self) -> None:
        self._free: list[U8] = []

    def __reduce__(self) -> tuple[object, ...]:
        return _Buffers, ()

    def take(self, shape: tuple[int, ...]) -> tuple[U8, Tensor]:
        """An array u8 of this shape and the tensor that shares its memory; the content is undefined."""
        need = math.prod(shape)
        if get_worker_info() is not None:
            # A worker's tensor leaves through shared memory: made there at once, as torch's own collate does, it is not copied again,
            # and it costs half. It cannot be taken again: nobody tells the worker when the main process is done with it.
            storage: torch.UntypedStorage = torch.UntypedStorage._new_shared(need)  # type: ignore[no-untyped-call]
            tensor = torch.empty(0, dtype=torch.uint8).set_(storage).view(shape)
            return tensor.numpy(), tensor
        if torch.cuda.is_available():  # torch takes pinned memory again itself, after the copies that still run
            tensor = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
            return tensor.numpy(), tensor
        memory = self._free.pop() if self._free else np.empty(0, np.uint8)
        if memory.size < need:
            memory = np.empty(need, np.uint8)
        view = memory[:need].reshape(shape)
        # torch holds `view` as long as any tensor uses its memory; then, and only then, it dies.
        weakref.finalize(view, _give_back, self._free, memory).atexit = False
        return view, torch.from_numpy(view)


def _give_back(free: list[U8], memory: U8) -> None:
    if len(free) < SPARE_BUFFERS:
        free.append(memory)


def loader(
    dataset: HyperframeDataset,
    batch: int = 16,
    *,
    shuffle: bool | None = None,
    seed: int = 0,
    workers: int = 0,
    sampler: Sampler[int] | None = None,
    drop_last: bool = False,
    start: str | None = None,
) -> DataLoader[Batch]:
    """A DataLoader that reads whole batches (the usual collate is 5 times slower) and pins them where there is a GPU.

    shuffle  None: only train, and only without a sampler
    seed     of the order; each pass over the loader draws a new one
    workers  processes that read; 0 reads in this one, which is the fastest for raw and lz4 stores on a local disk
    start    how the workers start: fork, spawn or forkserver; None: as Python does by itself
    """
    if workers:
        dataset.load_columns()
    if shuffle is None:
        shuffle = sampler is None and dataset.split == "train"
    generator = torch.Generator().manual_seed(seed)
    if sampler is None:
        sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
    return DataLoader(
        dataset,
        batch_size=None,  # the sampler gives lists of indexes: one list, one batch, nothing to collate
        sampler=BatchSampler(sampler, batch, drop_last),
        num_workers=workers,
        collate_fn=_as_it_is,
        pin_memory=torch.cuda.is_available(),
        generator=generator,
        persistent_workers=workers > 0,
        multiprocessing_context=start if workers else None,
    )


def _as_it_is(batch: Any) -> Any:
    return batch
