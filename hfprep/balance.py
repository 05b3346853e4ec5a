"""How many windows each clip gives so that rare classes are seen as often, and what weight a loss should give each class."""

from __future__ import annotations

import numpy as np

from .labels import Members
from .records import F32, I64


def window_counts(members: Members, capacity: I64, *, per_clip: int, method: str, max_factor: float) -> I64:
    """Windows of each clip: int64 (n,), per_clip x min(factor, max_factor) rounded half up, at most the clip's capacity.

    factor is 1 for method "none", n_max / n_class for "full" and its square root for "sqrt", where n counts the class's clips
    that can give windows at all; a clip of several classes has the factor of the rarest. Equal labels and capacity give equal
    counts; a clip with capacity gives at least one.

    >>> one_each = Members.single(np.array([0, 0, 0, 1]))
    >>> window_counts(one_each, np.array([99, 99, 5, 99]), per_clip=8, method="full", max_factor=8).tolist()
    [8, 8, 5, 24]
    """
    if members.count == 0:
        return np.zeros(0, dtype=np.int64)
    n = np.bincount(members.label[(capacity > 0)[members.clip]], minlength=int(members.label.max()) + 1)
    factor = n.max() / np.maximum(n, 1)
    if method == "none":
        factor = np.ones_like(factor)
    elif method == "sqrt":
        factor = np.sqrt(factor)
    elif method != "full":
        raise ValueError(f"unknown balance method {method!r}")
    wanted = np.floor(per_clip * np.minimum(factor, max_factor) + 0.5).astype(np.int64)
    counts: I64 = np.minimum(members.largest(np.maximum(wanted, 1)), capacity)
    return counts


def class_weight(labels: I64, n_classes: int) -> F32:
    """Weight of each class for a loss: float32 (n_classes,), inversely proportional to its windows, with a mean of 1 over all windows.

    labels holds the class of every window (each of its classes), after balancing, so that a loss which uses the weights does not
    correct twice.
    A class without windows gets 0.

    >>> class_weight(np.array([0, 0, 0, 1]), 3).round(3).tolist()
    [0.6669999957084656, 2.0, 0.0]
    """
    windows = np.bincount(labels, minlength=n_classes)
    present = np.count_nonzero(windows)
    return np.where(windows > 0, len(labels) / np.maximum(windows * present, 1), 0).astype(np.float32)


def positive_weight(labels: I64, windows: int, n_classes: int) -> F32:
    """Weight of each class's positives for a loss that judges the classes one by one (BCE): float32 (n_classes,), windows without the
    class over windows with it, as `pos_weight` of torch's BCEWithLogitsLoss; 0 for a class without windows.

    labels holds each class of each of `windows` windows.

    >>> positive_weight(np.array([0, 0, 0, 1]), 4, 3).round(3).tolist()
    [0.3330000042915344, 3.0, 0.0]
    """
    held = np.bincount(labels, minlength=n_classes)
    return np.where(held > 0, (windows - held) / np.maximum(held, 1), 0).astype(np.float32)
