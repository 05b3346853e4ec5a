"""Memory that batches of pixels lie in: taken again in the main process, lent by it to worker processes, pinned for a GPU."""

from __future__ import annotations

import itertools
import math
import os
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from .records import U8

SPARE = 4  # pieces of memory that wait for reuse; more are freed
SLABS = 4  # a worker's pieces: two that wait in the loader's queue, one that the training step holds, one that is being filled
PAGE = 4096


class Buffers:
    """Memory of batches. A new 39 MB array a batch costs more in page faults than reading its pixels, so that the main process
    takes one again as soon as nothing refers to the batch that lay in it."""

    def __init__(self) -> None:
        self._free: list[U8] = []

    def __reduce__(self) -> tuple[object, ...]:
        return Buffers, ()

    def take(self, shape: tuple[int, ...]) -> tuple[U8, Tensor]:
        """An array u8 of this shape and the tensor that shares its memory; the content is undefined."""
        need = math.prod(shape)
        if get_worker_info() is not None:
            if _mine is not None and (lent := _mine[0].borrow(_mine[1], need)) is not None:
                return lent.numpy().reshape(shape), lent.view(shape)
            tensor = _shared(need).view(shape)  # a worker's tensor leaves through shared memory: made there at once, it is not copied again
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


class Slabs:
    """Shared memory for the batches of worker processes, used again and again: SLABS pieces a worker, of `size` bytes each.

    New shared memory costs a batch of 39 MB its page faults twice, in the worker and here. A worker borrows a piece and fills it; what
    travels is the piece's place (`packed`). It is given back when nothing in the main process refers to the batch any more. Where all
    are lent, or a batch is larger, a worker makes new shared memory: held batches cost memory, never a wait.
    """

    def __init__(self, workers: int, size: int) -> None:
        self.size = -(-size // PAGE) * PAGE
        self._memory = _shared(workers * SLABS * self.size)
        self._lent = torch.zeros(workers * SLABS, dtype=torch.uint8).share_memory_()  # type: ignore[no-untyped-call]
        self._token = next(_tokens)
        self._borrowed: dict[int, Any] = {}  # in a worker: pieces that have not been sent
        _lenders[self._token] = self

    @staticmethod
    def fit(workers: int, size: int) -> bool:
        """Whether so much shared memory is free: containers often have 64 MB of it, and writing beyond kills the process."""
        try:
            found = os.statvfs("/dev/shm")
        except OSError:  # no such place on this system: torch has its shared memory elsewhere
            return False
        return workers * SLABS * size <= found.f_bavail * found.f_frsize // 2

    def install(self, worker: int) -> None:
        """For a DataLoader's worker_init_fn: this worker takes its memory here."""
        global _mine
        _mine = (self, worker)

    def borrow(self, worker: int, need: int) -> Tensor | None:
        """A free piece of this worker as a tensor u8 (need,), or None. Only the worker marks it lent, only the main process free."""
        if need > self.size:
            return None
        for slab in range(worker * SLABS, (worker + 1) * SLABS):
            if not self._lent[slab]:
                self._lent[slab] = 1
                tensor = self._memory[slab * self.size :][:need]
                held = tensor.numpy()
                self._borrowed[slab] = weakref.finalize(held, self._free, slab)  # until it is sent: a read may fail
                return torch.from_numpy(held)
        return None

    def sent(self, tensor: Tensor) -> Lent | None:
        """What travels instead of a tensor that lies in a borrowed piece; None for any other."""
        start = tensor.data_ptr() - self._memory.data_ptr()
        waiting = self._borrowed.pop(start // self.size, None) if 0 <= start < self._memory.numel() else None
        if waiting is None:
            return None
        waiting.detach()
        return Lent(self._token, start, tuple(tensor.shape), tensor.stride())

    def received(self, lent: tuple[int, tuple[int, ...], tuple[int, ...]]) -> Tensor:
        """The batch in the main process; its piece is free when nothing refers to the tensor any more."""
        start, shape, stride = lent
        view = self._memory[start:].numpy()[: math.prod(shape)]
        weakref.finalize(view, self._free, start // self.size).atexit = False
        return torch.from_numpy(view).as_strided(shape, stride)

    def _free(self, slab: int) -> None:
        self._borrowed.pop(slab, None)
        self._lent[slab] = 0


class Lent:
    """Pixels on their way from a worker. Unpickled, it is the tensor itself: so a batch that nobody fetches gives its piece back too."""

    def __init__(self, token: int, *place: Any) -> None:
        self._token, self._place = token, place

    def __reduce__(self) -> tuple[object, ...]:
        return _received, (self._token, self._place)


def sent(tensor: Tensor) -> Tensor | Lent:
    """A tensor as it leaves a worker."""
    return tensor if _mine is None else _mine[0].sent(tensor) or tensor


_tokens = itertools.count()
_lenders: weakref.WeakValueDictionary[int, Slabs] = weakref.WeakValueDictionary()  # of the main process
_mine: tuple[Slabs, int] | None = None  # of a worker process: its lender, and which worker it is


def _received(token: int, place: Any) -> Tensor:
    return _lenders[token].received(place)


def _shared(size: int) -> Tensor:
    storage: torch.UntypedStorage = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _give_back(free: list[U8], memory: U8) -> None:
    if len(free) < SPARE:
        free.append(memory)
