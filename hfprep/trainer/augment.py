"""Changes from one look at a window to the next: on the batch, on its device, one for all frames of a window.

A change that differs between frames would look like motion. Random numbers come from the generator passed in.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def crops(batch: int, height: int, width: int, zoom: float, generator: torch.Generator) -> Tensor:
    """One box a window, int64 (batch,4) as top, left, height, width: up to `zoom` of each side cut away, anywhere."""
    shares = torch.rand(batch, 3, generator=generator)
    sides = torch.tensor([height, width])
    size = (sides * (1 - zoom * shares[:, :1])).round().long().clamp(min=1)  # both sides by one share: shapes keep their ratio
    corner = (shares[:, 1:] * (sides - size + 1)).long()
    return torch.cat([corner, size], dim=1)


def picture(frames: Tensor, height: int, width: int, boxes: Tensor | None = None) -> Tensor:
    """Cut the boxes out and bring all to one size: uint8 (B,T,3,H,W) -> float32 (B,T,3,height,width), still 0 to 255.

    Shrinking averages over the pixels that fall together (antialias): without it small things would flicker from frame to frame.
    """
    if boxes is None:
        return _resized(frames.flatten(0, 1), height, width).view(*frames.shape[:3], height, width)
    windows = [window[..., top : top + h, left : left + w] for window, (top, left, h, w) in zip(frames, boxes.tolist())]
    return torch.stack([_resized(window, height, width) for window in windows])


def _resized(frames: Tensor, height: int, width: int) -> Tensor:
    if frames.shape[-2:] == (height, width):
        return frames.float()
    # on a CPU torch resizes 8-bit channels-last pictures six times faster than float ones; a GPU takes float alone
    on_cpu = frames.device.type == "cpu"
    frames = frames.contiguous(memory_format=torch.channels_last) if on_cpu else frames.float()
    return functional.interpolate(frames, (height, width), mode="bilinear", antialias=True).float()


def colour(frames: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    """Brightness and contrast changed by at most +-strength, one draw a window: float (B,T,3,H,W), 0 to 255 -> the same, in place."""
    draws = (torch.rand(len(frames), 2, generator=generator) * 2 - 1) * strength
    gain = (1 + draws[:, 0]).view(-1, 1, 1, 1, 1)
    shift = 127.5 * (1 - gain + draws[:, 1].view(-1, 1, 1, 1, 1))  # contrast about mid-grey
    return frames.mul_(gain.to(frames.device)).add_(shift.to(frames.device)).clamp_(0, 255)
