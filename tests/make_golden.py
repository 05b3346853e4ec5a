"""Write the golden stores: small stores of one format version that every later hfprep must read.

usage: python tests/make_golden.py

Each is kept for ever as tests/data/golden/v<format>-<layout>-<codec>.tar.gz; one that is there is never written again. What must
come out is known from the drawing: a frame shows its number, the sensor measures its time.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from pathlib import Path

import drawn

from hfprep.build import build_store
from hfprep.layout import CODECS, FORMAT_VERSION, KINDS
from hfprep.pipeline import load
from hfprep.planned import BuildOptions

GOLDEN = Path(__file__).parent / "data" / "golden"
SIZES = ("frame.height=24", "frame.width=40", "frame.fit=stretch", "window.size=4", "window.margin=1", "window.per_clip=2")
SIZES += ("store.windows_per_shard=3", "window.eval=hotspot")


def build(folder: Path, kind: str, codec: str) -> Path:
    """Three clips, one with a sensor; the same for all layouts and codecs."""
    rows = []
    for k, (split, label) in enumerate((("train", "left"), ("train", "right"), ("test", "left"))):
        drawn.write(folder / f"v{k}.mp4", drawn.steady(15, 40), first=20 * k)
        (folder / f"s{k}.csv").write_text("t,ax\n" + "".join(f"{n / 10},{n + k}\n" for n in range(12)))
        rows.append(f"v{k}.mp4,{label},{split},s{k}.csv")
    (folder / "m.csv").write_text("video,label,split,imu\n" + "\n".join(rows) + "\n")
    recipe = load(None, (*SIZES, f"store.layout={kind}", f"store.codec={codec}"))
    return build_store(folder / "m.csv", folder / "s.zarr", recipe, options=BuildOptions(cache=folder / "cache", jobs=1)).out


def packed(store: Path) -> bytes:
    """The store as tar.gz without times and owners."""
    kept = io.BytesIO()
    with gzip.GzipFile(fileobj=kept, mode="wb", mtime=0) as squeezed, tarfile.open(fileobj=squeezed, mode="w") as archive:
        for file in sorted(p for p in store.rglob("*") if p.is_file()):
            entry = tarfile.TarInfo(file.relative_to(store).as_posix())
            entry.size = file.stat().st_size
            archive.addfile(entry, io.BytesIO(file.read_bytes()))
    return kept.getvalue()


def main() -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        for codec in CODECS:
            name = f"v{FORMAT_VERSION}-{kind}-{codec}"
            if (GOLDEN / f"{name}.tar.gz").exists():
                continue
            with tempfile.TemporaryDirectory() as folder:
                (GOLDEN / f"{name}.tar.gz").write_bytes(packed(build(Path(folder), kind, codec)))


if __name__ == "__main__":
    main()
