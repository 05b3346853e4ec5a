"""Manifests of published annotations: one plain function a kind, SOURCE -> rows; `files` finds their videos."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from ..errors import ManifestError, UsageError
from . import activitynet, lists, recorded, timed
from .files import Placed, place
from .rows import ImportOptions, Listing

# kind -> its reader, and the rate of the folders of pictures that it was published as ("" = it has none)
KINDS: dict[str, tuple[Callable[[Path, ImportOptions], Listing], str]] = {
    "ucf101": (lists.ucf101, ""),
    "hmdb51": (lists.hmdb51, ""),
    "kinetics": (timed.kinetics, ""),
    "something": (lists.something, "12"),
    "jester": (lists.jester, "12"),
    "epic-kitchens": (timed.epic, ""),
    "ava": (timed.ava, ""),
    "multisports": (timed.multisports, ""),
    "activitynet": (activitynet.read, ""),
    "charades": (timed.charades, "24"),
    "mmaction": (lists.mmaction, ""),
    "ego4d": (timed.ego4d, ""),
    "utd-mhad": (recorded.utd_mhad, ""),
    "ut-interaction": (recorded.ut_interaction, ""),
    "lerobot": (recorded.lerobot, ""),
}

NOTHING_SAID = ImportOptions()


def read(kind: str, source: str | Path, options: ImportOptions = NOTHING_SAID) -> Listing:
    """Rows of an annotation, no file looked for; raises UsageError (bad_kind), ManifestError where SOURCE is not what KIND says.

    >>> list(KINDS)[:3]
    ['ucf101', 'hmdb51', 'kinetics']
    """
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(KINDS)}"
        raise UsageError(f"no kind of annotation is called {kind!r}", remedy=hint, kind="bad_kind")
    try:
        return KINDS[kind][0](Path(source), options)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as fault:
        what = f"is not what a file of kind {kind} holds ({type(fault).__name__}: {fault})"
        raise ManifestError(what, where=str(source), remedy="is it the right kind of annotation?", kind="bad_annotation") from fault


def import_rows(
    kind: str,
    source: str | Path,
    manifest: str | Path,
    *,
    videos: str | Path | None = None,
    options: ImportOptions = NOTHING_SAID,
    keep_missing: bool = False,
) -> Placed:
    """The manifest of an annotation, for a file that will lie at `manifest`; videos: the folder they lie in, else the annotation's own."""
    listed = read(kind, source, options)
    source = Path(source)
    folder = Path(videos) if videos is not None else source if source.is_dir() else source.parent
    return place(listed, folder, Path(manifest), options.fps or KINDS[kind][1], keep_missing=keep_missing)
