"""The DataLoader of a HyperframeDataset: each pass is an epoch, and it knows which batches it has handed out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, get_worker_info

from .buffers import sent
from .errors import UsageError
from .samplers import Batches

Batch = dict[str, Tensor]


class HasEpochs(Protocol):
    """What a Loader asks of its dataset, which owns the epoch."""

    @property
    def epoch(self) -> int: ...

    def set_epoch(self, epoch: int) -> None: ...

    def begin_epoch(self) -> int: ...


class Loader(DataLoader[Batch]):
    """The DataLoader that `dataset.loader` gives. Each pass is an epoch: the one that was set, or the next. `len` is of a whole epoch."""

    dataset: Any  # HasEpochs

    @property
    def epoch(self) -> int:
        """The epoch of the pass at work, or of the first one; after load_state_dict the one that goes on."""
        return self._epochs.epoch

    def set_epoch(self, epoch: int) -> None:
        """Order, shifts and strides of this epoch in the next pass; without it a pass takes the epoch after the last."""
        self._epochs.set_epoch(epoch)

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        epoch, order, start = self._epochs.begin_epoch(), self.sampler, 0
        if isinstance(order, Batches):
            order.set_epoch(epoch)
            start = order.start
        elif (tell := getattr(getattr(order, "sampler", None), "set_epoch", None)) is not None:  # torch's DistributedSampler, say
            tell(epoch)
        for done, batch in enumerate(super().__iter__(), start + 1):
            if isinstance(order, Batches):
                order.done = done  # workers are asked for batches ahead of time: what counts is what goes out here
            yield unpacked(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where the pass at work is, counted in batches handed out, the last one included: save it after the step that used it.

        The same on every rank; it may be loaded with any number of workers.
        """
        return self._resumable().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next pass gives the rest of the saved one; raises UsageError where the state is of another order."""
        order = self._resumable()
        order.load_state_dict(state)
        self._epochs.set_epoch(order.epoch)

    @property
    def _epochs(self) -> HasEpochs:
        found: HasEpochs = self.dataset
        return found

    def _resumable(self) -> Batches:
        if not isinstance(self.sampler, Batches):
            raise UsageError(
                f"a {type(self.sampler).__name__} cannot say where it is",
                where="loader",
                remedy="resume with a sampler of hfprep.samplers",
                kind="not_resumable",
            )
        return self.sampler


def packed(batch: Any) -> Any:
    """A batch as it leaves a worker: pixels in shared memory, all else as plain arrays through the pipe. A tensor costs a file handle
    and up to 3 ms to pass on, and a batch has nine."""
    if not isinstance(batch, dict) or get_worker_info() is None:
        return batch
    return {name: sent(value) if name == "frames" else value.numpy() for name, value in batch.items()}


def unpacked(batch: dict[str, Any]) -> Batch:
    """The same batch, all tensors again."""
    return {name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in batch.items()}
