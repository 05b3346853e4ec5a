"""From a batch of hyperframes to the tensor that a model takes. Each form is a small function on a batch, on its device.

A batch is uint8 or float (B,K,3,H,W), frames in time order; frame K//2 is the one that the window was centred on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from .errors import UsageError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as the pretrained 2-D networks expect

Edge = Literal["clamp", "mirror"]


def normalise(frames: Tensor, mean: Sequence[float] = MEAN, std: Sequence[float] = STD) -> Tensor:
    """(x / 255 - mean) / std as float32, one mean and std a colour for all frames of all windows, the whole batch at once.

    frames  (...,3,H,W), 0 to 255, uint8 or float; the result keeps shape, device and memory format
    mean, std  R, G, B on the scale 0 to 1
    On a GPU it is one operation: it reads the uint8 and writes the float32 once. There is no mode with a mean a frame: it would take
    the brightness change between frames away, which is motion.

    >>> normalise(torch.full((1, 2, 3, 1, 1), 255), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)).flatten()
    tensor([1., 1., 1., 1., 1., 1.])
    """
    if frames.shape[-3] != 3 or len(mean) != 3 or len(std) != 3:
        raise UsageError(
            f"frames {tuple(frames.shape)}, {len(mean)} means: 3 colours are needed", where="forms.normalise", kind="bad_shape"
        )
    scale = torch.tensor([1 / (255 * s) for s in std], device=frames.device)
    shift = torch.tensor([-m / s for m, s in zip(mean, std)], device=frames.device)
    if frames.device.type == "cuda":
        return _at_once(frames, scale, shift)
    last = frames.movedim(-3, -1)
    if not last.is_contiguous():
        return frames.to(torch.float32, copy=True).mul_(scale.view(3, 1, 1)).add_(shift.view(3, 1, 1))
    # Channels last, as the dataset gives them: a whole row of pixels at once is twice as fast on a CPU as three numbers at a time.
    width = last.shape[-2]
    rows = last.flatten(-2).to(torch.float32, copy=True).mul_(scale.repeat(width)).add_(shift.repeat(width))
    return rows.view(last.shape).movedim(-1, -3)


def _at_once(frames: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """frames x scale + shift in one kernel. On a CPU this takes three times as long as rows of pixels do."""
    return torch.addcmul(shift.view(3, 1, 1), frames, scale.view(3, 1, 1))


def middle(frames: Tensor, t: int) -> Tensor:
    """The middle t of K frames, (B,K,...) -> (B,t,...): frames K//2 - t//2 and on.

    >>> middle(torch.arange(7)[None], 3)
    tensor([[2, 3, 4]])
    """
    k = frames.shape[1]
    first = k // 2 - t // 2
    if t < 1 or first < 0 or first + t > k:
        raise UsageError(f"t = {t}: the windows have {k} frames", where="forms", remedy=f"take t from 1 to {k}", kind="bad_window")
    return frames[:, first : first + t]


def stacked(frames: Tensor, t: int) -> Tensor:
    """The middle t frames behind one another on the channels: (B,K,3,H,W) -> (B,3t,H,W); channels 0-2 are the earliest frame.

    t must be odd, so that one frame is the middle one. Raises UsageError.

    >>> frames = torch.arange(7).view(1, 7, 1, 1, 1).expand(1, 7, 3, 1, 1)     # frame k holds the number k
    >>> stacked(frames, 3).shape, stacked(frames, 3).flatten().tolist()
    (torch.Size([1, 9, 1, 1]), [2, 2, 2, 3, 3, 3, 4, 4, 4])
    """
    if t % 2 == 0:
        raise UsageError(f"t = {t} is even", where="forms.stacked", remedy=f"take t = {t - 1} or {t + 1}", kind="bad_window")
    return middle(frames, t).flatten(1, 2)


def keyframe(frames: Tensor, clamped: Tensor, edge: Edge = "clamp") -> tuple[Tensor, Tensor]:
    """The key frame (B,3,H,W), in the middle of the window, and its context, all frames (B,K,3,H,W).

    clamped  bool (B,K): frames that repeat the clip's first or last one, as the dataset gives them
    edge     "clamp": context as stored; "mirror": the repeats become the window's own frames in reverse, so that the context never
             stands still; they stay marked in `clamped`. Ticks 0 0 [0 1 2] become 2 1 [0 1 2].

    >>> frames = torch.tensor([0, 0, 0, 1, 2]).view(1, 5, 1, 1, 1).expand(1, 5, 3, 1, 1)     # two repeats of the first tick
    >>> clamped = torch.tensor([[True, True, False, False, False]])
    >>> key, context = keyframe(frames, clamped, edge="mirror")
    >>> key.shape, context[0, :, 0].flatten().tolist()
    (torch.Size([1, 3, 1, 1]), [2, 1, 0, 1, 2])
    """
    if edge not in ("clamp", "mirror"):
        raise UsageError(f"edge = {edge!r}", where="forms.keyframe", remedy='take "clamp" or "mirror"', kind="bad_edge")
    key = frames[:, frames.shape[1] // 2]
    if edge == "clamp":
        return key, frames
    index = mirrored(clamped).to(frames.device)
    rows = torch.arange(len(frames), device=frames.device)[:, None]
    return key, frames[rows, index]


def mirrored(clamped: Tensor) -> Tensor:
    """For each place in a window the place whose frame stands there when ends are mirrored: bool (B,K) -> int64 (B,K).

    >>> mirrored(torch.tensor([[True, True, False, False, False]]))
    tensor([[4, 3, 2, 3, 4]])
    """
    own = (~clamped).long()
    places = torch.arange(clamped.shape[1], device=clamped.device)
    low = own.argmax(1, keepdim=True)  # argmax: the first of equal values
    high = clamped.shape[1] - 1 - own.flip(1).argmax(1, keepdim=True)
    turn = 2 * (high - low)
    steps = (places - low) % turn.clamp(min=1)
    index = low + torch.minimum(steps, turn - steps) * (turn > 0)
    return torch.where(own.any(1, keepdim=True), index, places)


def volume(frames: Tensor, groups: int = 2) -> Tensor:
    """Groups of stacked frames: (B,K,3,H,W) -> (B,groups,3K/groups,H,W), in time order; 8 frames make 2 groups of 4.

    >>> frames = torch.arange(8).view(1, 8, 1, 1, 1).expand(1, 8, 3, 1, 1)
    >>> volume(frames).shape, volume(frames)[0, 1, ::3].flatten().tolist()     # the red channels of the second group
    (torch.Size([1, 2, 12, 1, 1]), [4, 5, 6, 7])
    """
    k = frames.shape[1]
    if groups < 1 or k % groups:
        raise UsageError(
            f"{k} frames in {groups} groups", where="forms.volume", remedy="take a number that divides them", kind="bad_window"
        )
    return frames.reshape(len(frames), groups, k // groups, *frames.shape[2:]).flatten(2, 3)
