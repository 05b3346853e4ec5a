"""How good a model is, counted over clips: plain arithmetic on numpy arrays, no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..records import F32, I64, require


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Counts of one evaluation: confusion i64 (classes, classes), row = true class, column = predicted class; loss of the windows.

    A class that no clip has counts nowhere; a class that is never predicted has precision 0.
    """

    confusion: I64
    loss: float

    def __post_init__(self) -> None:
        require(self.confusion.ndim == 2 and self.confusion.shape[0] == self.confusion.shape[1], f"confusion {self.confusion.shape}")

    @property
    def clips(self) -> int:
        """Clips that were judged."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """Share of clips judged right; NaN without clips."""
        return float(np.trace(self.confusion) / self.clips) if self.clips else float("nan")

    @property
    def recall(self) -> F32:
        """Per class, the share of its clips judged right (its accuracy); NaN where it has none."""
        return _share(np.diag(self.confusion), self.confusion.sum(axis=1), np.nan)

    @property
    def precision(self) -> F32:
        """Per class, the share of the clips judged to be of it that are."""
        return _share(np.diag(self.confusion), self.confusion.sum(axis=0), 0.0)

    @property
    def f1(self) -> F32:
        """Per class, the harmonic mean of precision and recall; NaN where the class has no clip."""
        both = self.confusion.sum(axis=0) + self.confusion.sum(axis=1)
        f1 = _share(2 * np.diag(self.confusion), both, 0.0)
        f1[self.confusion.sum(axis=1) == 0] = np.nan
        return f1

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that have clips: rare classes count as much as frequent ones."""
        return float(np.nanmean(self.f1)) if self.clips else float("nan")


def _share(part: I64, whole: I64, empty: float) -> F32:
    return np.where(whole > 0, part / np.maximum(whole, 1), empty).astype(np.float32)


def per_clip(logits: F32, clips: I64) -> tuple[F32, I64]:
    """Mean of the window logits of each clip: logits (N,C), clip number of each window (N,) -> (clips,C), their numbers, sorted."""
    numbers, place = np.unique(clips, return_inverse=True)
    sums = np.zeros((len(numbers), logits.shape[1]), np.float64)
    np.add.at(sums, place, logits)
    return (sums / np.bincount(place)[:, None]).astype(np.float32), numbers.astype(np.int64)


def score(logits: F32, labels: I64, clips: I64, loss: float) -> Scores:
    """Judge clips by the mean of their windows' logits: logits f32 (N,C), labels and clip numbers i64 (N,)."""
    n_classes = logits.shape[1]
    means, _ = per_clip(logits, clips)
    truth = labels[np.unique(clips, return_index=True)[1]]  # every window of a clip has its label
    confusion = np.bincount(truth * n_classes + means.argmax(axis=1), minlength=n_classes**2).reshape(n_classes, n_classes)
    return Scores(confusion.astype(np.int64), loss)
