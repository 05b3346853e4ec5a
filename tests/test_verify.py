"""`hfprep verify`: whole stores are good, any damage is named with its shard and clips, and one digest stands for the content."""

from __future__ import annotations

import json
import random
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import xxhash
from click.testing import CliRunner, Result
from storekit import Made, make_store

from hfprep.cli.verify import verify as command
from hfprep.errors import HfprepError, StoreError
from hfprep.report import verify as verifying
from hfprep.report.verify import Damage, Verdict, verify


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_store(tmp_path_factory.mktemp("verify") / "whole.zarr", axes=("ax", "gx"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Digest of the store that test_digest_differs_for_other_content changes in one way at a time."""
    return verify(make_store(tmp_path_factory.mktemp("verify") / "plain.zarr", n_clips=4).path).digest


@pytest.fixture
def hurt(made: Made, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(made.path, tmp_path / "hurt.zarr"))


def run(*args: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in args], standalone_mode=False)


def clips_of(made: Made, split: str, rows: list[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(made.clips["id"][clip] for clip in made.columns[split]["clip"][rows].tolist()))


def only(verdict: Verdict) -> Damage:
    assert not verdict.good and len(verdict.damages) == 1, verdict.damages
    return verdict.damages[0]


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_a_whole_store_is_good(tmp_path: Path, codec: str) -> None:
    path = make_store(tmp_path / "s.zarr", codec=codec, lost={2: ("damaged", "nothing decodes")}).path
    seen: list[int] = []
    verdict = verify(path, seen.append)
    assert verdict.good and not verdict.mend
    assert sum(seen) == verdict.windows == 8 * 3
    result = run(path)
    assert result.return_value == 0 and "good, 24 windows" in result.stdout


def test_row_digests_are_those_of_pixels_and_columns(made: Made) -> None:
    """Once computed here by hand, so that a digest that covers nothing would be seen."""
    from hfprep.store import open_store

    split = open_store(made.path)["train"]
    names = [spec.name for spec in made.layout.columns("train") if spec.name != "digest"]
    for row in (0, 7):
        data = made.frames["train"][row].tobytes() + b"".join(made.columns["train"][name][row].tobytes() for name in names)
        assert int(split.columns["digest"][row]) == xxhash.xxh3_64_intdigest(data)


@pytest.mark.parametrize("spoil", ["missing", "cut", "empty", "garbled"])
def test_a_shard_that_cannot_be_read(made: Made, hurt: Path, spoil: str) -> None:
    shard = hurt / made.layout.shard_key("train", 1)
    data = shard.read_bytes()
    if spoil == "missing":
        shard.unlink()
    else:
        shard.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "garbled": random.Random(0).randbytes(len(data))}[spoil])
    damage = only(verify(hurt))
    rows = list(range(4, 8))
    assert (damage.file, damage.split, list(damage.rows)) == ("train/frames/c/1/0/0/0/0", "train", rows)
    assert damage.clips == clips_of(made, "train", rows)
    result = run(hurt)
    assert result.return_value == 1
    assert "train/frames/c/1/0/0/0/0" in result.stdout and "rows 4-7" in result.stdout
    assert all(clip in result.stdout for clip in damage.clips)


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_one_flipped_bit_names_one_row(tmp_path: Path, codec: str) -> None:
    made = make_store(tmp_path / "s.zarr", codec=codec)
    shard = made.path / made.layout.shard_key("train", 2)
    data = bytearray(shard.read_bytes())
    chunks = len(data) - (16 * made.layout.windows_per_shard + 4)
    data[chunks // 2 + chunks // 8] ^= 16  # in the third of four windows of much the same length, well after its header
    shard.write_bytes(data)
    damage = only(verify(made.path))
    assert (damage.file, damage.rows) == (made.layout.shard_key("train", 2), (10,))
    assert damage.clips == clips_of(made, "train", [10])


def test_altered_pixels_that_decode_are_seen(made: Made, hurt: Path) -> None:
    """A shard put where another belongs is whole in itself: only the digests tell."""
    one, other = (hurt / made.layout.shard_key("train", index) for index in (0, 1))
    one.write_bytes(other.read_bytes())
    damage = only(verify(hurt))
    assert damage.rows == (0, 1, 2, 3) and "digest" in damage.what


@pytest.mark.parametrize("name", ["label", "time_ns", "ok", "imu", "digest"])
def test_a_column_that_cannot_be_read(made: Made, hurt: Path, name: str) -> None:
    chunk = next(file for file in (hurt / "val" / name / "c").rglob("*") if file.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-3])
    damage = only(verify(hurt))
    assert damage.file == f"val/{name}" and damage.rows == tuple(range(made.layout.n_rows("val")))


def test_a_missing_chunk_of_a_column_does_not_pass_as_zeros(made: Made, hurt: Path) -> None:
    shutil.rmtree(hurt / "val" / "clamped" / "c")
    damage = only(verify(hurt))
    assert (damage.what, damage.split, damage.rows) == ("is missing", "val", tuple(range(made.layout.n_rows("val"))))
    assert damage.file.startswith("val/clamped/c/")


def test_other_damage_is_named_beside_a_lost_column(made: Made, hurt: Path) -> None:
    shutil.rmtree(hurt / "train" / "label" / "c")
    (hurt / made.layout.shard_key("train", 0)).unlink()
    files = {damage.file for damage in verify(hurt).damages}
    assert made.layout.shard_key("train", 0) in files and any(file.startswith("train/label") for file in files)


@pytest.mark.parametrize("name", ["video", "source_fps"])
def test_the_table_of_clips(hurt: Path, name: str) -> None:
    chunk = next(file for file in (hurt / "clips" / name / "c").rglob("*") if file.is_file())
    data = chunk.read_bytes()
    chunk.write_bytes(data[:-2] + bytes((data[-2] ^ 1, data[-1])))
    assert only(verify(hurt)).file == f"clips/{name}"
    chunk.unlink()
    assert only(verify(hurt)).file.startswith(f"clips/{name}/c")


def test_a_column_that_is_gone_from_the_table_of_clips(hurt: Path) -> None:
    shutil.rmtree(hurt / "clips" / "hotspot_ns")
    assert only(verify(hurt)) == Damage("is missing", "clips/hotspot_ns")


@pytest.mark.parametrize("text", [None, b"{", b"[]", b"{}", b"\xff\xfe"])
def test_metadata(hurt: Path, text: bytes | None) -> None:
    """Of a group, pixels, a column and two columns of the table of clips, all at once: each is named, none is a traceback."""
    groups = ("val", "train/frames", "train/label", "clips/id", "clips/source_fps")
    for group in groups:
        file = hurt / group / "zarr.json"
        if text is None:
            file.unlink()
        else:
            file.write_bytes(text)
    named = [damage.file for damage in verify(hurt).damages]
    assert sorted(named) == sorted(f"{group}/zarr.json" for group in groups)


def test_what_is_no_finished_store(tmp_path: Path) -> None:
    half = make_store(tmp_path / "half.zarr", finish=False).path
    for path, kind in ((half, "incomplete"), (tmp_path / "none.zarr", "not_a_store")):
        fault = run(path).exception
        assert isinstance(fault, StoreError) and fault.kind == kind and fault.exit_code == 1


def test_the_command_that_mends_is_named(made: Made, hurt: Path) -> None:
    (hurt / made.layout.shard_key("test", 0)).unlink()
    told = json.loads(run(hurt, "--json").stdout)
    words = shlex.split(told["mend"])
    assert words[:5] == ["hfprep", "build", "drawn.csv", "-o", str(hurt)] and words[-1] == "--overwrite"
    assert told["status"] == "damaged" and told["digest"] is None
    assert told["mend"] in run(hurt).stdout


def test_digest_is_the_last_line(made: Made, hurt: Path) -> None:
    last = run(made.path, "--digest").stdout.splitlines()[-1]
    assert last == verify(made.path).digest == json.loads(run(made.path, "--json").stdout)["digest"]
    assert len(last) == 32 and int(last, 16) >= 0
    (hurt / made.layout.shard_key("test", 0)).unlink()
    result = run(hurt, "--digest")
    assert result.return_value == 1 and "no digest" in result.stdout.splitlines()[-1]


def test_digest_is_the_same_for_any_codec_shard_size_and_place(tmp_path: Path) -> None:
    one = make_store(tmp_path / "a.zarr", codec="raw", windows_per_shard=3, folder="/here").path
    other = make_store(tmp_path / "b.zarr", codec="zstd", windows_per_shard=8, folder="/there/and/on").path
    assert verify(one).digest == verify(other).digest


@pytest.mark.parametrize(
    "other",
    [
        {"windows": 2}, {"n_clips": 5}, {"size": 5}, {"margin": 2}, {"n_ticks": 11}, {"classes": ("left", "Right")},
        {"interval_ms": 50}, {"axes": ("ax",)}, {"lost": {0: ("damaged", "x")}}, {"splits": ("train",)},
    ],
)  # fmt: skip
def test_digest_differs_for_other_content(plain: str, tmp_path: Path, other: dict[str, Any]) -> None:
    assert verify(make_store(tmp_path / "b.zarr", **{"n_clips": 4, **other}).path).digest != plain


def test_shards_larger_than_memory_are_read_in_pieces(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "BATCH_BYTES", made.layout.window_bytes * 3)
    seen: list[int] = []
    assert verify(made.path, seen.append).good
    assert max(seen) == 3 and sum(seen) == sum(made.layout.rows)


def test_random_damage_is_reported_or_harmless(made: Made, hurt: Path) -> None:
    """Any file cut, garbled, emptied or with a flipped bit: damage, a StoreError, or the very same content; never another exception."""
    rng = random.Random(7)
    whole = verify(made.path).digest
    # words for other programs, and the recipe in the root, are not content
    files = sorted(file for file in hurt.rglob("*") if file.is_file() and file.name != "zarr.json")
    for file in rng.sample(files, 10):
        data = file.read_bytes()
        place = rng.randrange(len(data))
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        file.write_bytes(rng.choice([data[:place], bytes(flipped), rng.randbytes(len(data)), b""]))
        try:
            verdict = verify(hurt)
            assert not verdict.good or verdict.digest == whole, file
        except HfprepError:
            pass
        file.write_bytes(data)
    assert verify(hurt).digest == whole
