"""A block in a process of its own: what kills or hangs that process costs one clip, not the run.

A decoder that crashes, loops or eats memory cannot be caught inside its process. So the block runs in a child that says which
clip it begins; when the child dies or is silent for too long, that clip is named, the shards already written stay, and the
block is run again. A clip that ends its process twice, or hangs once, is quarantined.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from . import store
from .errors import StoreError
from .prepare import BlockResult, Stopped, Task, prepare_block
from .records import Block

TRIES = 2  # a clip that ends its process so often is quarantined; once may be the machine's fault
POLL_S = 0.2


def prepare_isolated(task: Task, should_stop: Callable[[], bool] = lambda: False, *, clip_timeout_s: float = 0.0) -> BlockResult:
    """`prepare_block` in a child process; clip_timeout_s: seconds that one clip may take (0 = any).

    Raises what prepare_block raises, and StoreError `crashed` where the child dies before it begins a clip.
    """
    deaths: Counter[int] = Counter()
    while True:
        child = _Child(task)
        try:
            answer = child.wait(should_stop, clip_timeout_s)
        finally:
            child.end()
        if isinstance(answer, BlockResult):
            return answer
        if isinstance(answer, BaseException):
            raise answer
        clip, kind, text = answer
        if clip is None:
            raise StoreError(text, where=task.out, remedy="see the lines above; the same command continues", kind="crashed")
        deaths[clip] += 1
        if kind == "timeout" or deaths[clip] >= TRIES:
            task = replace(task, banned={**task.banned, clip: (kind, text)})
        task = _left(task)


def _left(task: Task) -> Task:
    """The task without the shards that the dead child had committed."""
    written = store.written(task.out, task.layout)
    return replace(task, block=Block(tuple(s for s in task.block.shards if (s.split, s.index) not in written)))


Ending = tuple[int | None, str, str]  # clip (None: before the first), kind, text


class _Child:
    """One child process and the pipe on which it says which clip it begins and what came out."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["hfprep.prepare"])
        self._pipe, theirs = context.Pipe(duplex=False)
        self._process: BaseProcess = context.Process(target=_run, args=(task, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def wait(self, should_stop: Callable[[], bool], clip_timeout_s: float) -> BlockResult | BaseException | Ending:
        clip, since = None, time.monotonic()
        while True:
            if should_stop():
                return Stopped()
            if self._pipe.poll(POLL_S):
                try:
                    word, value = self._pipe.recv()
                except (EOFError, OSError):
                    return self._death(clip)
                if word == "clip":
                    clip, since = value, time.monotonic()
                else:
                    assert isinstance(value, BlockResult | BaseException)
                    return value
            elif clip_timeout_s and clip is not None and time.monotonic() - since > clip_timeout_s:
                return clip, "timeout", f"not prepared within {clip_timeout_s:g} s (--clip-timeout)"

    def end(self) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()

    def _death(self, clip: int | None) -> Ending:
        self._process.join()
        code = self._process.exitcode or 0
        how = f"signal {-code}" + (" (out of memory?)" if code == -9 else "") if code < 0 else f"exit code {code}"
        return clip, "crashed", f"its process ended with {how}"


def _run(task: Task, pipe: Connection[Any, Any]) -> None:
    try:
        result: BlockResult | BaseException = prepare_block(task, began=lambda clip: pipe.send(("clip", clip)))
    except Exception as fault:  # noqa: BLE001 - handed to the parent, which raises it
        result = fault
    pipe.send(("end", result))
