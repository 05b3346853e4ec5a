"""How fast windows are read, as shares of a plain memcpy of the same bytes: hfprep and others on the same windows.

usage: python benchmarks/read.py [--store STORE] [--windows 160] [--rounds 5] [--batch 16] [--only NAME ...] [--folder DIR]

All readers run in this process, one after the other in every round, in an order drawn anew, so that a busy machine slows them alike;
a row is the median of its rounds. Each gives shuffled batches, uint8 (B,K,H,W,3), from a warm page cache; what it gives is compared
with the windows once. "cpu" is the same share by CPU seconds, which a busy machine disturbs less. Peers come with: pip install
'hfprep[bench]'. Windows are drawn (moving shapes on a textured ground with sensor noise) or taken from a finished store.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hfprep import forms, store
from hfprep.dataset import HyperframeDataset, loader
from hfprep.layout import Layout
from hfprep.records import ClipOutcome, ShardData

Epoch = Callable[[np.ndarray], Iterator[Any]]  # an order of windows -> batches: (frames, the windows' numbers)


def draw(count: int, k: int, side: int) -> np.ndarray:
    """Windows u8 (count,k,side,side,3), about as compressible as real video at this size (lz4 0.8, zstd 0.6 of raw)."""
    rng = np.random.default_rng(0)
    windows = np.empty((count, k, side, side, 3), np.uint8)
    y, x = np.mgrid[:side, :side]
    for window in windows:
        waves = [np.sin(x / rng.uniform(12, 60) + y / rng.uniform(12, 60) + rng.uniform(0, 6)) for _ in range(5)]
        ground = np.stack([sum(waves[c : c + 3]) for c in range(3)], -1) * 18 + rng.uniform(60, 190, 3)
        ground = ground // 6 * 6  # flat places, as a video codec leaves them
        grain = rng.integers(-3, 4, (2 * side, side, 1)) * (rng.random((2 * side, side, 1)) < 0.6)
        left, top, speed = rng.integers(0, side // 2), rng.integers(0, side // 2), rng.integers(1, 4)
        for j in range(k):
            picture = ground + grain[(7 * j) % side :][:side]
            place = (left + speed * j) % (side - side // 4)
            picture[top : top + side // 4, place : place + side // 4] += 40
            window[j] = picture.clip(0, 255)
    return windows


def taken(path: str, count: int) -> np.ndarray:
    """The first windows of a store's train split."""
    reader = store.open_store(path)["train"]
    return reader.read(np.flatnonzero(reader.columns["ok"])[:count])["frames"]


def write_store(path: Path, windows: np.ndarray, codec: str, kind: str = "windows") -> None:
    """The windows as a store; with kind "frames" each is a clip of its own: no two share a tick, the most that this layout reads."""
    count, k, height, width, _ = windows.shape
    once = kind == "frames"
    ticks, per_shard = ((count * k, 0, 0), 32 * k) if once else ((0, 0, 0), 0)
    layout = Layout(k, 0, height, width, (), codec, 32, (count, 0, 0), kind, ticks, per_shard, quality=90 if codec == "jpeg" else 0)
    number = list(range(count))
    clips = {"id": [str(n) for n in number], "split": ["train"] * count, "label": ["a"] * count, "n_windows": [1] * count}
    clips |= {"n_ticks": [k] * count, "first_tick": [n * k for n in number]}
    store.create(path, layout, {"classes": ["a"], "class_weight": [1.0], "axes": [], "pipeline": {}}, clips)
    units = windows.reshape(-1, height, width, 3) if once else windows
    for split, index in layout.shards():
        first, last = layout.shard_units(split, index)
        specs = [s for s in layout.unit_columns(split) if s.name not in layout.written_columns]
        columns: dict[str, Any] = {s.name: np.zeros((last - first, *s.shape[1:]), s.dtype) for s in specs}
        columns["tick_ok" if once else "ok"][:] = True
        here = number[first // k : last // k] if once else number[first:last]
        told = tuple(ClipOutcome(n, k, centers=(k // 2,) if once else ()) for n in here)
        store.write_shard(path, layout, ShardData(split, index, units[first:last], columns, told))
    store.finish(path)


def memcpy(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
    """The limit: one copy from a mapped file into a reused batch."""
    windows.tofile(folder / "flat.bin")
    flat = np.memmap(folder / "flat.bin", np.uint8, "r", shape=windows.shape)
    out = np.empty((batch, *windows.shape[1:]), np.uint8)

    def epoch(order: np.ndarray) -> Iterator[Any]:
        for rows in batches(order, batch):
            for position, row in enumerate(rows):
                np.copyto(out[position], flat[row])
            yield out[: len(rows)], rows

    return epoch


def hfprep(codec: str, kind: str = "windows", workers: int | None = None) -> Callable[[Path, np.ndarray, int], Epoch]:
    """The Dataset, called for whole batches; with workers through its DataLoader."""

    def prepare(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
        path = folder / f"{kind}-{codec}.zarr"
        if not path.exists():
            write_store(path, windows, codec, kind)
        data = HyperframeDataset(path, "train")

        def epoch(order: np.ndarray) -> Iterator[Any]:
            for rows in batches(order, batch):
                found = data.read(rows.tolist())
                yield found["frames"].permute(0, 1, 3, 4, 2).numpy(), rows

        def loaded(order: np.ndarray) -> Iterator[Any]:
            turn.rows = order.tolist()
            for found in batched:
                yield found["frames"].permute(0, 1, 3, 4, 2).numpy(), found["row"].numpy()

        turn = Order(list(range(len(windows))))
        batched = loader(data, batch, sampler=turn, workers=workers or 0)  # its workers live on from round to round
        return epoch if workers is None else loaded

    return prepare


def memcpy_shards(kind: str) -> Callable[[Path, np.ndarray, int], Epoch]:
    """The same copy out of the very files that hfprep reads: where a file's pages lie in memory decides about a third of its speed,
    and files that are written when much of the memory is in use come off worse."""

    def prepare(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
        path = folder / f"{kind}-raw.zarr"
        if not path.exists():
            write_store(path, windows, "raw", kind)
        layout = store.open_store(path).layout
        files = [np.memmap(path / layout.shard_key("train", n), np.uint8, "r") for n in range(len(layout.shards()))]
        per_shard, size = 32, windows[0].nbytes  # raw windows, or all ticks of one, lie one after the other from the first byte
        out = np.empty((batch, *windows.shape[1:]), np.uint8)

        def epoch(order: np.ndarray) -> Iterator[Any]:
            for rows in batches(order, batch):
                for position, row in enumerate(rows):
                    begin = row % per_shard * size
                    np.copyto(out[position].reshape(-1), files[row // per_shard][begin : begin + size])
                yield out[: len(rows)], rows

        return epoch

    return prepare


def reader(codec: str, kind: str = "windows") -> Callable[[Path, np.ndarray, int], Epoch]:
    """`read(rows, out)` of the reader alone, into a reused batch: what the plain memcpy does, from a store."""

    def prepare(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
        path = folder / f"{kind}-{codec}.zarr"
        if not path.exists():
            write_store(path, windows, codec, kind)
        train = store.open_store(path)["train"]
        out = np.empty((batch, *windows.shape[1:]), np.uint8)

        def epoch(order: np.ndarray) -> Iterator[Any]:
            for rows in batches(order, batch):
                yield train.read(rows, out[: len(rows)])["frames"], rows

        return epoch

    return prepare


class Order:
    """A sampler that gives the order of the round."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def plain_zarr(codec: str) -> Callable[[Path, np.ndarray, int], Epoch]:
    """zarr-python on the same store, one call a window, into a reused batch."""

    def prepare(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
        import zarr

        array = zarr.open_array(folder / f"windows-{codec}.zarr/train/frames", mode="r")
        out = np.empty((batch, *windows.shape[1:]), np.uint8)

        def epoch(order: np.ndarray) -> Iterator[Any]:
            for rows in batches(order, batch):
                for position, row in enumerate(rows):
                    out[position] = array[int(row)]
                yield out[: len(rows)], rows

        return epoch

    return prepare


def tensorstore(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
    """tensorstore on the raw store, all windows of a batch in flight, into a reused batch."""
    import tensorstore as ts

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder / "windows-raw.zarr/train/frames")}}
    array = ts.open(spec, open=True, context=ts.Context({"cache_pool": {"total_bytes_limit": 0}})).result()
    out = np.empty((batch, *windows.shape[1:]), np.uint8)
    places = [ts.array(place, copy=False, write=True) for place in out]

    def epoch(order: np.ndarray) -> Iterator[Any]:
        for rows in batches(order, batch):
            for wait in [places[position].write(array[int(row)]) for position, row in enumerate(rows)]:
                wait.result()
            yield out[: len(rows)], rows

    return epoch


class Numbered(torch.utils.data.Dataset[Any]):
    """A map-style set that gives a window and its number: what a DataLoader with workers is given."""

    def __init__(self, get: Callable[[int], torch.Tensor], count: int) -> None:
        self.get, self.count = get, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return self.get(row), row


def with_workers(reader: Callable[..., Any], workers: int = 2) -> Callable[[Path, np.ndarray, int], Epoch]:
    """A map-style reader through torch's DataLoader and its usual collate, workers that live on from round to round."""

    def prepare(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
        turn = Order(list(range(len(windows))))
        data = Numbered(reader(folder, windows), len(windows))
        batched = torch.utils.data.DataLoader(data, batch, sampler=turn, num_workers=workers, persistent_workers=True)

        def epoch(order: np.ndarray) -> Iterator[Any]:
            turn.rows = order.tolist()
            for frames, rows in batched:
                yield frames.numpy(), rows.numpy()

        return epoch

    return prepare


def npy_reader(folder: Path, windows: np.ndarray) -> Callable[[int], torch.Tensor]:
    return lambda row: torch.from_numpy(np.load(folder / f"npy/{row}.npy"))


def mosaic_reader(folder: Path, windows: np.ndarray) -> Callable[[int], torch.Tensor]:
    from streaming import LocalDataset

    data = LocalDataset(str(folder / "mds"))
    return lambda row: torch.from_numpy(data[row]["x"].copy())


def lightning_reader(folder: Path, windows: np.ndarray) -> Callable[[int], torch.Tensor]:
    from litdata import StreamingDataset

    held: list[Any] = []  # opened in the worker: it does not travel

    def get(row: int) -> torch.Tensor:
        if not held:
            held.append(StreamingDataset(str(folder / "lit")))
        return held[0][row]["x"]

    return get


def webdataset_workers(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
    """webdataset with 2 workers, which share its tar files."""
    import webdataset as wds

    files = sorted(str(file) for file in (folder / "wds").iterdir())

    def epoch(order: np.ndarray) -> Iterator[Any]:
        data = wds.WebDataset(files, shardshuffle=len(files), seed=int(order[0]), workersplitter=wds.split_by_worker).shuffle(64).decode()
        pairs = data.map(lambda found: (torch.from_numpy(found["npy"]), int(found["__key__"])))
        for frames, rows in torch.utils.data.DataLoader(pairs, batch, num_workers=2):
            yield frames.numpy(), rows.numpy()

    return epoch


def npy_files(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
    """One .npy a window, np.load and the usual collate."""
    (folder / "npy").mkdir()
    for number, window in enumerate(windows):
        np.save(folder / f"npy/{number}.npy", window)

    def epoch(order: np.ndarray) -> Iterator[Any]:
        for rows in batches(order, batch):
            yield collate([torch.from_numpy(np.load(folder / f"npy/{row}.npy")) for row in rows]), rows

    return epoch


def webdataset(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
    """webdataset, .npy in tar files of 32, shuffled by shards and in a buffer of two shards, usual collate."""
    import webdataset as wds

    (folder / "wds").mkdir()
    with wds.ShardWriter(f"file:{folder}/wds/%04d.tar", maxcount=32, verbose=0) as sink:
        for number, window in enumerate(windows):
            sink.write({"__key__": f"{number:06d}", "npy": window})
    files = sorted(str(file) for file in (folder / "wds").iterdir())

    def epoch(order: np.ndarray) -> Iterator[Any]:
        rows: list[int] = []
        held: list[torch.Tensor] = []
        for found in wds.WebDataset(files, shardshuffle=len(files), seed=int(order[0])).shuffle(64).decode():
            rows.append(int(found["__key__"]))
            held.append(torch.from_numpy(found["npy"]))
            if len(rows) == batch:
                yield collate(held), np.array(rows)
                rows, held = [], []
        if rows:
            yield collate(held), np.array(rows)

    return epoch


def mosaic(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
    """MosaicML Streaming (MDS), uncompressed, random access, usual collate."""
    from streaming import LocalDataset, MDSWriter

    shape = ",".join(map(str, windows.shape[1:]))
    with MDSWriter(out=str(folder / "mds"), columns={"x": f"ndarray:uint8:{shape}"}, size_limit=1 << 27) as sink:
        for window in windows:
            sink.write({"x": window})
    data = LocalDataset(str(folder / "mds"))

    def epoch(order: np.ndarray) -> Iterator[Any]:
        for rows in batches(order, batch):
            yield collate([torch.from_numpy(data[int(row)]["x"].copy()) for row in rows]), rows

    return epoch


def lightning(folder: Path, windows: np.ndarray, batch: int) -> Epoch:
    """litdata, uncompressed chunks, random access, usual collate."""
    from litdata import StreamingDataset
    from litdata.streaming.cache import Cache

    (folder / "lit").mkdir()
    cache = Cache(str(folder / "lit"), chunk_bytes=1 << 27)
    for number, window in enumerate(windows):
        cache[number] = {"x": torch.from_numpy(window)}
    cache.done()
    cache.merge()
    data = StreamingDataset(str(folder / "lit"))

    def epoch(order: np.ndarray) -> Iterator[Any]:
        for rows in batches(order, batch):
            yield collate([data[int(row)]["x"] for row in rows]), rows

    return epoch


def batches(order: np.ndarray, batch: int) -> Iterator[np.ndarray]:
    return (order[start : start + batch] for start in range(0, len(order), batch))


def collate(tensors: list[torch.Tensor]) -> np.ndarray:
    return torch.utils.data.default_collate(tensors).numpy()


READERS: dict[str, tuple[str, Callable[[Path, np.ndarray, int], Epoch]]] = {  # name -> (package it needs, how to prepare it)
    "memcpy": ("", memcpy),
    "memcpy, files of windows raw": ("", memcpy_shards("windows")),
    "memcpy, files of frames raw": ("", memcpy_shards("frames")),
    "hfprep reader, windows raw": ("", reader("raw")),
    "hfprep reader, windows lz4": ("", reader("lz4")),
    "hfprep reader, frames raw": ("", reader("raw", "frames")),
    "hfprep reader, frames lz4": ("", reader("lz4", "frames")),
    "hfprep windows raw": ("", hfprep("raw")),
    "hfprep windows lz4": ("", hfprep("lz4")),
    "hfprep windows zstd": ("", hfprep("zstd")),
    "hfprep windows jpeg": ("simplejpeg", hfprep("jpeg")),
    "hfprep frames raw": ("", hfprep("raw", "frames")),
    "hfprep frames lz4": ("", hfprep("lz4", "frames")),
    "hfprep frames zstd": ("", hfprep("zstd", "frames")),
    "hfprep frames jpeg": ("simplejpeg", hfprep("jpeg", "frames")),
    "hfprep windows raw, loader, 0 workers": ("", hfprep("raw", workers=0)),
    "hfprep windows raw, loader, 2 workers": ("", hfprep("raw", workers=2)),
    "hfprep frames raw, loader, 2 workers": ("", hfprep("raw", "frames", 2)),
    "hfprep frames lz4, loader, 2 workers": ("", hfprep("lz4", "frames", 2)),
    "zarr, same raw store": ("zarr", plain_zarr("raw")),
    "zarr, same lz4 store": ("zarr", plain_zarr("lz4")),
    "tensorstore, same raw store": ("tensorstore", tensorstore),
    "npy files": ("", npy_files),
    "webdataset npy": ("webdataset", webdataset),
    "MosaicML MDS": ("streaming", mosaic),
    "litdata": ("litdata", lightning),
    "npy files, 2 workers": ("", with_workers(npy_reader)),
    "webdataset npy, 2 workers": ("webdataset", webdataset_workers),
    "MosaicML MDS, 2 workers": ("streaming", with_workers(mosaic_reader)),
    "litdata, 2 workers": ("litdata", with_workers(lightning_reader)),
}


def forget(folder: Path) -> None:
    """Take the folder's files out of the page cache."""
    gc.collect()  # pages that are still mapped would stay
    for file in folder.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def cold(windows: np.ndarray, folder: Path, rounds: int, batch: int) -> None:
    """Each codec and layout read from the disk and not from the page cache; windows a second, medians."""
    kinds = [(kind, codec) for kind in ("windows", "frames") for codec in ("raw", "lz4", "zstd", "jpeg")]
    rates: dict[tuple[str, str], list[float]] = {key: [] for key in kinds}
    rng = np.random.default_rng(1)
    for turn in range(rounds + 1):
        order = rng.permutation(len(windows))
        for kind, codec in kinds:
            epoch = hfprep(codec, kind)(folder, windows, batch)
            forget(folder / f"{kind}-{codec}.zarr")
            clock = time.perf_counter()
            seen = sum(len(rows) for _, rows in epoch(order))
            if turn:
                rates[kind, codec].append(seen / (time.perf_counter() - clock))
            del epoch
    print(f"\nfrom the disk: {len(windows)} windows of {'x'.join(map(str, windows.shape[1:]))}, batch {batch}, {rounds} rounds, medians")
    print(f"{'store':38s} {'windows/s':>9s} {'of raw bytes':>12s}")
    for (kind, codec), found in rates.items():
        size = store.size_bytes(folder / f"{kind}-{codec}.zarr") / windows.nbytes
        print(f"{kind + ' ' + codec:38s} {statistics.median(found):9.0f} {size:12.2f}")


def measure(windows: np.ndarray, folder: Path, names: list[str], rounds: int, batch: int) -> None:
    """Run all readers round by round and print the table."""
    ready: dict[str, Epoch] = {}
    for name in names:
        package, prepare = READERS[name]
        if package and find_spec(package) is None:
            print(f"{name:38s} not installed")
            continue
        ready[name] = prepare(folder, windows, batch)
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in ready}
    rng = np.random.default_rng(1)
    for turn in range(rounds + 1):  # the first one warms up and checks
        order = rng.permutation(len(windows))
        for name in rng.permutation(list(ready)).tolist():  # whoever comes before leaves the caches in its own state
            epoch = ready[name]
            gc.collect()
            seen, clock, cpu = 0, time.perf_counter(), cpu_seconds()
            for frames, rows in epoch(order):
                seen += len(rows)
                if turn == 0 and "jpeg" not in name and not np.array_equal(frames, windows[rows]):
                    raise SystemExit(f"{name} gives other windows than were written")
            if seen != len(windows):
                raise SystemExit(f"{name} gave {seen} of {len(windows)} windows")
            if turn:
                rates[name].append((seen / (time.perf_counter() - clock), seen / (cpu_seconds() - cpu)))
    print(f"\n{len(windows)} windows of {'x'.join(map(str, windows.shape[1:]))}, batch {batch}, {rounds} rounds, medians")
    print(f"{'reader':38s} {'windows/s':>9s} {'of memcpy':>9s} {'cpu':>6s}")
    for name, found in rates.items():
        share, cpu_share = (statistics.median(a[i] / b[i] for a, b in zip(found, rates["memcpy"])) for i in (0, 1))
        cpu_text = "" if "workers" in name and " 0 " not in name else f"{cpu_share:6.2f}"
        print(f"{name:38s} {statistics.median(rate for rate, _ in found):9.0f} {share:9.2f} {cpu_text:>6s}")


def cpu_seconds() -> float:
    return time.process_time()


def normalisation(windows: np.ndarray, rounds: int) -> None:
    """One operation on a whole batch against numpy frame by frame."""
    frames = torch.from_numpy(windows[:16].copy()).permute(0, 1, 4, 2, 3)
    mean, std = (np.array(values, np.float32) for values in (forms.MEAN, forms.STD))

    def numpy_frames() -> None:
        for window in windows[:16]:
            for frame in window:
                _ = (frame.astype(np.float32) / 255 - mean) / std

    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    print("\nnormalisation of one batch of 16, ms (median)")
    print(f"  numpy, frame by frame            {median_ms(numpy_frames, rounds):8.1f}")
    for device in devices:
        here = frames.to(device)

        def whole(here: torch.Tensor = here) -> None:
            forms.normalise(here)
            if here.is_cuda:
                torch.cuda.synchronize()

        print(f"  forms.normalise, {device:16s}{median_ms(whole, rounds):8.1f}")


def median_ms(work: Callable[[], None], rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", help="take the windows from this finished store")
    parser.add_argument("--windows", type=int, default=160)
    parser.add_argument("--size", type=int, default=32, help="frames of a drawn window")
    parser.add_argument("--side", type=int, default=160, help="height and width of a drawn window")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--only", nargs="*", default=[], help="readers whose name holds one of these words (memcpy always runs)")
    parser.add_argument("--cold", action="store_true", help="read hfprep's stores from the disk instead: which codec is fastest there")
    parser.add_argument("--folder", help="where the files go for the time of the run; default: the folder for temporary files")
    options = parser.parse_args()
    torch.set_num_threads(1)
    windows = taken(options.store, options.windows) if options.store else draw(options.windows, options.size, options.side)
    names = [name for name in READERS if name == "memcpy" or not options.only or any(word in name for word in options.only)]
    folder = Path(tempfile.mkdtemp(prefix="hfprep-read-", dir=options.folder))
    try:
        if options.cold:
            cold(windows, folder, options.rounds, options.batch)
            return
        measure(windows, folder, names, options.rounds, options.batch)
        for path in sorted(folder.glob("*.zarr")):
            print(f"{path.name}: {store.size_bytes(path) / windows.nbytes:.2f} of the raw bytes")
        if not options.only:
            normalisation(windows, options.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
