"""The blocks of a build as one Dask graph: the only room that knows the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dask.threaded
from dask.callbacks import Callback

from .isolate import prepare_isolated
from .planned import BuildOptions, cpus
from .prepare import BlockResult, Task, prepare_block


def run_graph(
    tasks: Sequence[Task], options: BuildOptions, should_stop: Callable[[], bool], told: Callable[[BlockResult], None]
) -> list[BlockResult]:
    """Run all tasks as one Dask graph, options.jobs at once; told(result) after each block.

    With engine "processes" each of Dask's threads minds a child process. Raises what a block raises; the others end at their
    next clip.
    """
    work: Callable[[Task], BlockResult] = partial(prepare_block, should_stop=should_stop)
    if options.engine == "processes":
        work = partial(prepare_isolated, should_stop=should_stop, clip_timeout_s=options.clip_timeout_s)
    graph: dict[Any, Any] = {("block", number): (work, task) for number, task in enumerate(tasks)}

    def posttask(key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
        if isinstance(result, BlockResult):
            told(result)

    with Callback(posttask=posttask):  # type: ignore[no-untyped-call]
        return list(dask.threaded.get(graph, list(graph), num_workers=options.jobs or cpus()))
