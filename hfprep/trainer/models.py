"""The networks: a 2-D encoder on every frame, and what makes a hyperframe of it.

Every model takes the tensor of its form (and sensor rows where it has a use for them) and gives logits (B, classes).
`build` makes one from the options; the same call rebuilds it from a run's config.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import UsageError
from .options import Model


@dataclass(frozen=True)
class Sensors:
    """What the sensor encoder must know: M axes, and per axis the mean and spread of the training rows (their units differ)."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def build(options: Model, form: str, n_classes: int, t: int, sensors: Sensors | None = None) -> nn.Module:
    """The network of a form, freshly initialised from torch's global generator.

    form "frame": (B,3,H,W); "stacked": (B,3T,H,W); "sequence": (B,T,3,H,W) with (B,T,M) sensor rows and their (B,T) mask if
    `sensors` is given. Raises UsageError for a backbone that cannot be had.
    """
    encoder = FrameEncoder(backbone(options), options)
    if form == "sequence":
        return Sequence(encoder, n_classes, t, options.dropout, sensors)
    network = nn.Sequential(encoder, nn.GELU(), nn.Dropout(options.dropout), nn.Linear(options.features, n_classes))
    if form == "stacked":
        inflate(network, t)
    return network


class SmallBackbone(nn.Module):
    """Our own small 2-D network: (N,3,H,W) -> (N, 4 x width, H/16, W/16), about 0.17 M weights at width 24.

    A wide first convolution at stride 4, as in patch networks: on two CPU cores the full-resolution stages would cost more
    than all the rest.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.num_features = 4 * width
        self.stages = nn.Sequential(
            _conv(3, width, size=7, stride=4),
            _conv(width, 2 * width, size=3, stride=2),
            _conv(2 * width, 4 * width, size=3, stride=2),
            _conv(4 * width, 4 * width, size=3, stride=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.stages(x)
        return out


def _conv(inputs: int, outputs: int, *, size: int, stride: int) -> nn.Module:
    # GroupNorm: the T frames of a window are near copies, so batch statistics would be those of few windows; and its backward
    # pass took a seventh of BatchNorm's time (channels last, torch 2.14, one core)
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return nn.Sequential(conv, nn.GroupNorm(outputs // 8, outputs), nn.ReLU(inplace=True))


def backbone(options: Model) -> nn.Module:
    """A 2-D network that gives feature maps (N,C,h,w) and says C as `num_features`; never downloads weights."""
    if options.backbone == "small":
        return SmallBackbone(options.width)
    where = f"model.backbone = {options.backbone!r}"
    try:
        import timm
    except ImportError:
        raise UsageError("timm is not installed", where=where, remedy="pip install timm, or use small", kind="no_timm") from None
    try:
        network: nn.Module = timm.create_model(options.backbone, pretrained=False, num_classes=0, global_pool="")
    except (RuntimeError, ValueError, TypeError) as fault:
        raise UsageError(f"timm cannot make it: {fault}", where=where, remedy="see timm.list_models()", kind="bad_backbone") from None
    return network


class FrameEncoder(nn.Module):
    """One frame, one vector: (N,3,H,W) -> (N, features).

    The backbone's map is narrowed by a 1x1 convolution and pooled to grid x grid places rather than to one: a mean over the whole
    picture forgets where things are, and motion is a change of place.
    """

    def __init__(self, network: nn.Module, options: Model) -> None:
        super().__init__()
        self.backbone = network
        narrow = max(8, options.features // 4)
        self.narrow = nn.Conv2d(_channels(network, options.backbone), narrow, 1)
        self.grid = options.grid
        self.project = nn.Linear(narrow * options.grid**2, options.features)

    def forward(self, x: Tensor) -> Tensor:
        maps = functional.relu(self.narrow(self.backbone(x)))
        places = functional.adaptive_avg_pool2d(maps, self.grid)
        out: Tensor = self.project(places.flatten(1))
        return out


def _channels(network: nn.Module, name: str) -> int:
    # some timm networks (vit, swin) give tokens or channels last: found out here, not in the middle of a run
    was_training = network.training
    with torch.no_grad():
        maps = network.eval()(torch.zeros(1, 3, 224, 224))
    network.train(was_training)
    if maps.ndim != 4 or maps.shape[1] != network.num_features:
        what = f"gives {tuple(maps.shape)}, not feature maps (N,C,h,w)"
        raise UsageError(what, where=f"model.backbone = {name!r}", remedy="choose a convolutional one", kind="bad_backbone")
    return int(maps.shape[1])


class Sequence(nn.Module):
    """Frames in time order: a 2-D encoder on all frames in one call, then two convolutions over time.

    (B,T,3,H,W) [, sensors (B,T,M), measured (B,T)] -> (B, classes). Temporal positions are learned, and interpolated where T
    differs. Sensor features join the frame's on channels before the fusion.
    """

    def __init__(self, encoder: FrameEncoder, n_classes: int, t: int, dropout: float, sensors: Sensors | None) -> None:
        super().__init__()
        self.encoder = encoder
        features = encoder.project.out_features
        self.sensors = SensorEncoder(sensors, features // 2) if sensors else None
        self.join = nn.Linear(features + features // 2, features) if sensors else None
        self.positions = nn.Parameter(torch.zeros(1, features, t))
        self.fusion = nn.Sequential(TimeConv(features), TimeConv(features))
        self.norm = nn.LayerNorm(features)
        self.dropout = nn.Dropout(dropout)
        self.classify = nn.Linear(features, n_classes)

    def forward(self, frames: Tensor, sensors: Tensor | None = None, measured: Tensor | None = None) -> Tensor:
        b, t = frames.shape[:2]
        x = self.encoder(frames.flatten(0, 1)).unflatten(0, (b, t))
        if self.sensors is not None and self.join is not None:
            if sensors is None or measured is None:
                raise ValueError("this network was made for stores with sensor rows")
            x = self.join(torch.cat([x, self.sensors(sensors, measured)], dim=-1))
        positions: Tensor = self.positions
        if positions.shape[-1] != t:
            positions = functional.interpolate(positions, size=t, mode="linear", align_corners=True)
        x = self.fusion(x + positions.transpose(1, 2))
        out: Tensor = self.classify(self.dropout(self.norm(x).mean(dim=1)))
        return out


class TimeConv(nn.Module):
    """Residual convolution over time: (B,T,C) -> (B,T,C); LayerNorm over channels, so that no frame's statistics leak into another."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.conv = nn.Conv1d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + functional.gelu(self.conv(self.norm(x).transpose(1, 2)).transpose(1, 2))


class SensorEncoder(nn.Module):
    """Sensor rows, one vector each: (B,T,M) and mask (B,T) -> (B,T,features). Rows not measured count as zeros, and the network is
    told which they are."""

    mean: Tensor
    std: Tensor

    def __init__(self, sensors: Sensors, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(sensors.mean))
        self.register_buffer("std", torch.tensor(sensors.std))
        self.rows = nn.Sequential(nn.Linear(len(sensors.mean) + 1, features), nn.GELU(), nn.Linear(features, features))

    def forward(self, sensors: Tensor, measured: Tensor) -> Tensor:
        known = measured.unsqueeze(-1)
        # where, not a product: unknown cells are NaN, and NaN x 0 is NaN
        rows = torch.where(known, (sensors - self.mean) / self.std, 0.0)
        out: Tensor = self.rows(torch.cat([rows, known.to(rows.dtype)], dim=-1))
        return out


def inflate(network: nn.Module, t: int) -> None:
    """Make the first convolution of a single-frame network take T stacked frames, in place: (N,3,H,W) -> (N,3T,H,W).

    Its weights are repeated T times and divided by T, so that on a still clip the network gives what it gave on one frame (the
    inflation of Carreira and Zisserman, CVPR 2017, applied to channels). Without the division that layer is T times too large.
    """
    found = next(((n, m) for n, m in network.named_modules() if isinstance(m, nn.Conv2d)), None)
    if found is None or found[1].groups != 1:
        raise ValueError("no plain first convolution to inflate")
    name, conv = found
    wide = nn.Conv2d(
        conv.in_channels * t,
        conv.out_channels,
        conv.kernel_size,  # type: ignore[arg-type]  # torch types them as tuples of any length
        conv.stride,  # type: ignore[arg-type]
        conv.padding,  # type: ignore[arg-type]
        conv.dilation,  # type: ignore[arg-type]
        bias=conv.bias is not None,
        padding_mode=conv.padding_mode,
    )
    with torch.no_grad():
        wide.weight.copy_(conv.weight.repeat(1, t, 1, 1) / t)
        if conv.bias is not None and wide.bias is not None:
            wide.bias.copy_(conv.bias)
    parent, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(parent), leaf, wide)
