"""hfprep's JPEG chunks as a codec of zarr: found through the entry point `zarr.codecs`, so that plain zarr reads such stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer

from . import jpeg

NAME = "hfprep.jpeg"


@dataclass(frozen=True)
class JpegCodec(BytesBytesCodec):
    """Chunks of RGB frames, height x width, as JPEGs of one quality."""

    is_fixed_size = False
    height: int
    width: int
    quality: int

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """From the array's metadata."""
        return cls(**data["configuration"])

    def to_dict(self) -> dict[str, Any]:
        """As the array's metadata holds it."""
        return {"name": NAME, "configuration": {"height": self.height, "width": self.width, "quality": self.quality}}

    async def _decode_single(self, chunk: Buffer, spec: ArraySpec) -> Buffer:
        frames = np.empty((int(np.prod(spec.shape)) // (self.height * self.width * 3), self.height, self.width, 3), np.uint8)
        jpeg.decode(chunk.to_bytes(), frames)
        return spec.prototype.buffer.from_bytes(frames.tobytes())

    async def _encode_single(self, chunk: Buffer, spec: ArraySpec) -> Buffer | None:
        frames = np.frombuffer(chunk.to_bytes(), np.uint8).reshape(-1, self.height, self.width, 3)
        return spec.prototype.buffer.from_bytes(jpeg.encode(frames, self.quality))

    def compute_encoded_size(self, input_byte_length: int, spec: ArraySpec) -> int:
        """Not known before."""
        raise NotImplementedError
