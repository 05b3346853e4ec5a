"""Memory that batches of pixels lie in: taken again in the main process, shared memory in worker processes, pinned for a GPU."""

from __future__ import annotations

import math
import weakref

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from .records import U8

SPARE = 4  # pieces of memory that wait for reuse; more are freed


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
    if len(free) < SPARE:
        free.append(memory)
