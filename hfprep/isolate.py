"""A block in a process of its own: what kills or hangs that process costs one clip, not the run.

A decoder that crashes, loops or eats memory cannot be caught inside its process. So the block runs in a child that says which
clip it begins; when the child dies, or one clip takes too long, that clip is named, the shards already written stay, and what is
left of the block is run again. A clip that ends its process twice, or takes too long once, is quarantined.

The child is started by its own command line and not forked: a fork of a process with threads can hang, and a spawned one would
import the caller's main module again.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from . import store
from .errors import StoreError
from .prepare import BlockResult, Stopped, Task, prepare_block
from .records import Block

TRIES = 2  # a clip that ends its process so often is quarantined; once may be the machine's fault
POLL_S = 0.2
_idle: list[Child] = []  # children that wait for their next block: starting one costs a second of imports


def prepare_isolated(task: Task, should_stop: Callable[[], bool] = lambda: False, *, clip_timeout_s: float = 0.0) -> BlockResult:
    """`prepare_block` in a child process; clip_timeout_s: seconds that one clip may take (0 = any).

    Raises what prepare_block raises, and StoreError (kind crashed) where the child dies before it begins a clip.
    """
    deaths: Counter[int] = Counter()
    while True:
        child = _idle.pop() if _idle else Child()
        try:
            answer = child.run(task, should_stop, clip_timeout_s)
        except BaseException:
            child.kill()
            raise
        if isinstance(answer, Ending):
            child.kill()
            task = _without(task, answer, deaths)
            continue
        _idle.append(child)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Ending(tuple[int, str, str]):
    """How a block ended with its process: clip (-1 before the first), kind, text."""


def _without(task: Task, ending: Ending, deaths: Counter[int]) -> Task:
    """What is left of the task after its process died, the clip quarantined where it is to blame."""
    clip, kind, text = ending
    if clip < 0:
        remedy = "see the lines above; the same command continues"
        raise StoreError(f"a worker process ended before its first clip: {text}", where=task.out, remedy=remedy, kind="crashed")
    deaths[clip] += 1
    if kind == "timeout" or deaths[clip] >= TRIES:
        task = replace(task, banned={**task.banned, clip: (kind, text)})
    written = store.written(task.out, task.layout)
    return replace(task, block=Block(tuple(s for s in task.block.shards if (s.split, s.index) not in written)))


class Child:
    """One worker process; blocks go in and news come out through pipes that die with either side."""

    def __init__(self) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self._tasks, self._news = Connection(ours_out, readable=False), Connection(ours_in, writable=False)
        path = os.pathsep.join((str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", ""))).rstrip(os.pathsep)
        command = [sys.executable, "-c", f"from hfprep.isolate import serve; serve({theirs_in}, {theirs_out})"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=(theirs_in, theirs_out), env={**os.environ, "PYTHONPATH": path}, start_new_session=True
        )
        os.close(theirs_in)
        os.close(theirs_out)

    def run(self, task: Task, should_stop: Callable[[], bool], clip_timeout_s: float) -> BlockResult | BaseException | Ending:
        """Hand over a block and wait for what comes of it."""
        clip, since = -1, time.monotonic()
        try:
            self._tasks.send(task)
            while True:
                if should_stop():
                    raise Stopped
                if self._news.poll(POLL_S):
                    news: Any = self._news.recv()
                    if isinstance(news, BlockResult | BaseException):
                        return news
                    clip, since = int(news), time.monotonic()
                elif clip_timeout_s and clip >= 0 and time.monotonic() - since > clip_timeout_s:
                    return Ending((clip, "timeout", f"not prepared within {clip_timeout_s:g} s (--clip-timeout)"))
        except (EOFError, OSError):
            return Ending((clip, "crashed", f"its process ended with {self._how()}"))

    def kill(self) -> None:
        """End the process at once; its half-written files are not counted as written."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()
        self._tasks.close()
        self._news.close()

    def _how(self) -> str:
        code = self._process.wait()
        return f"exit code {code}" if code >= 0 else f"signal {-code}" + (" (out of memory?)" if code == -9 else "")


@atexit.register
def end_idle() -> None:
    """End the children that wait for work."""
    while _idle:
        _idle.pop().kill()


def serve(tasks_fd: int, news_fd: int) -> None:
    """The child's life: one block after the other until the parent closes its end or dies."""
    tasks, news = Connection(tasks_fd, writable=False), Connection(news_fd, readable=False)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            task: Task = tasks.recv()
        except EOFError:
            os._exit(0)  # and not return: the thread that watches the parent would be cut off in mid-read
        try:
            result: BlockResult | Exception = prepare_block(task, began=news.send)
        except Exception as fault:  # noqa: BLE001 - handed to the parent, which raises it
            result = fault
        news.send(result)


def _die_with_parent() -> None:
    """The parent holds the other end of stdin and writes nothing: an end of file says that it is gone."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(1)
