"""The recipe: defaults as documented, overrides, exact fractions, messages that name the key."""

from __future__ import annotations

import json
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprep import pipeline
from hfprep.errors import UsageError
from hfprep.options import Table, check_as, load_as
from hfprep.pipeline import Pipeline

RECIPES = Path(__file__).resolve().parent.parent / "pipelines"


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for name, value in table.items():
        keys |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return keys


def fault(*overrides: str, path: Path | str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        pipeline.load(path, overrides)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_default_file_holds_every_key_at_its_default() -> None:
    written = tomllib.loads((RECIPES / "default.toml").read_text())
    assert flat(written) == flat(Pipeline().model_dump(mode="json"))
    assert pipeline.load("default") == Pipeline()


def test_default_file_explains_every_key() -> None:
    for line in (RECIPES / "default.toml").read_text().splitlines():
        key, equals, rest = line.partition("=")
        if equals and not line.startswith("#") and key.strip() not in {"val", "test"}:
            assert "#" in rest, line


# the span is what a recipe promises in its first line: (size - 1) x interval
@pytest.mark.parametrize(
    ("name", "size", "interval_ns", "span_ms"),
    [
        ("default", 16, 100_000_000, 1500),
        ("sequence_k32", 32, 33_000_000, 1023),
        ("stacked_t3", 3, 100_000_000, 200),
        ("keyframe_t7", 7, 100_000_000, 600),
        ("multimodal", 16, 50_000_000, 750),
        ("cover", 16, 100_000_000, 1500),
    ],
)
def test_bundled_recipes(name: str, size: int, interval_ns: int, span_ms: int) -> None:
    recipe = pipeline.load(name)
    assert (recipe.window.size, recipe.frame.interval_ns) == (size, interval_ns)
    assert (size - 1) * interval_ns == span_ms * 1_000_000


def test_every_bundled_recipe_loads() -> None:
    names = {file.stem for file in RECIPES.glob("*.toml")}
    assert {"default", "sequence_k32", "stacked_t3", "keyframe_t7", "multimodal", "cover"} <= names
    assert pipeline.bundled() == RECIPES
    for name in names:
        assert pipeline.load(name) == pipeline.load(RECIPES / f"{name}.toml") == pipeline.load(f"{name}.toml")


def test_overrides_follow_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("\ufeffseed = 4\n[window]\nsize = 8\nstride = 2\n", encoding="utf-8")  # as Windows editors save it
    recipe = pipeline.load(file, ("window.size=32", "window.placement=cover", "imu.channels=ax, ay", 'frame.fit="pad"', "seed = 7"))
    assert (recipe.seed, recipe.window.size, recipe.window.stride, recipe.window.placement) == (7, 32, 2, "cover")
    assert (recipe.imu.channels, recipe.frame.fit) == (("ax", "ay"), "pad")
    assert recipe.window.margin == Pipeline().window.margin


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("33", Fraction(33_000_000)),
        ("33.3", Fraction(33_300_000)),
        ("1001/30", Fraction(1001 * 10**6, 30)),
        ("1000/3", Fraction(10**9, 3)),
        ('"1001/24"', Fraction(1001 * 10**6, 24)),
        ("0.001", Fraction(1000)),
    ],
)
def test_interval_is_exact(text: str, nanoseconds: Fraction) -> None:
    frame = pipeline.load(None, (f"frame.interval_ms={text}",)).frame
    assert frame.interval_ns == nanoseconds
    assert pipeline.Frame.model_validate_json(frame.model_dump_json()).interval_ns == nanoseconds


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_interval_has_one_spelling(up: int, down: int) -> None:
    if Fraction(up, down) < Fraction(1, 1000):
        return
    a, b = pipeline.Frame(interval_ms=f"{up}/{down}"), pipeline.Frame(interval_ms=f"{3 * up}/{3 * down}")
    assert a.interval_ms == b.interval_ms
    assert a.interval_ns == b.interval_ns == Fraction(up * 10**6, down)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("window.sise=32", ["unknown key 'window.sise'", "did you mean 'window.size'?"]),
        ("size=32", ["unknown key 'size'", "did you mean 'window.size'?"]),
        ("window.fit=pad", ["unknown key 'window.fit'", "did you mean 'frame.fit'?"]),
        ("windows.size=32", ["unknown key 'windows'", "did you mean 'window'?"]),
        ("nonsense=1", ["unknown key 'nonsense'", "known here: seed, frame, window,"]),
        ("window.size=big", ["window.size = 'big'", "must be a whole number"]),
        ("window.size=16.5", ["window.size = 16.5", "must be a whole number"]),
        ("window.size=true", ["window.size = True", "must be a whole number"]),
        ('window.size="16"', ["window.size = '16'", "must be a whole number"]),
        ("window.size=0", ["window.size = 0", "must be at least 1"]),
        ("window.max_clamped=1.5", ["window.max_clamped = 1.5", "must be at most 1"]),
        ("balance.max_factor=inf", ["balance.max_factor = inf", "must be a finite number"]),
        ("window.placement=hotspt", ["window.placement = 'hotspt'", "must be one of 'hotspot' or 'cover'"]),
        ("window=3", ["window = 3", "is a table", "size, margin, placement"]),
        ("frame.interval_ms=fast", ["frame.interval_ms = 'fast'", "1001/30"]),
        ("frame.interval_ms=1/0", ["frame.interval_ms = '1/0'", "1001/30"]),
        ("frame.interval_ms=0", ["frame.interval_ms = 0", "must lie between"]),
        ("imu.channels=7", ["imu.channels = 7", "list of axis names"]),
        ('imu.channels=["ax", "ax"]', ["imu.channels", "names an axis twice"]),
        ("split={train=0,val=0,test=0}", ["split: at least one share must be above 0"]),
    ],
)
def test_messages_name_key_value_and_remedy(override: str, words: list[str]) -> None:
    message = fault(override)
    assert message.startswith("--set: ")
    for word in words:
        assert word in message


@pytest.mark.parametrize("override", ["window.size", "=3", "window..size=3", ".=3"])
def test_override_must_be_key_and_value(override: str) -> None:
    message = fault(override)
    assert repr(override) in message
    assert "--set window.size=32" in message


def test_override_inside_a_value() -> None:
    assert "'seed' has a value already" in fault("seed=1", "seed.more=2")


def test_fault_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[window]\nsize = 'x'\n")
    assert fault(path=file) == f"{file}: window.size = 'x': must be a whole number"
    both = fault("seed=-1", path=file)
    assert both.startswith(f"{file}: ")
    assert "seed = -1: must be at least 0" in both
    file.write_text("[window\n")
    assert f"{file}: cannot be read as TOML" in fault(path=file)
    file.write_bytes(b"# \xff\xfe")
    assert f"{file}: cannot be read as TOML" in fault(path=file)


def test_unknown_recipe_lists_what_there_is() -> None:
    message = fault(path="stacked_t4")
    assert "'stacked_t4'" in message
    assert "did you mean 'stacked_t3'?" in message
    assert "sequence_k32" in message


def test_fingerprint_counts_only_what_differs_from_the_defaults() -> None:
    plain = pipeline.fingerprint(Pipeline())
    said_aloud = pipeline.load("default", ("window.size=16", "frame.interval_ms=100.0", "balance.max_factor=8"))
    assert pipeline.fingerprint(said_aloud) == plain
    changed = {pipeline.fingerprint(pipeline.load(None, (o,))) for o in ("seed=1", "window.size=32", "window.margin=32", "imu.channels=ax")}
    assert len(changed | {plain}) == 5
    again = pipeline.check(json.loads(pipeline.load("cover").model_dump_json()))  # as a store keeps it
    assert pipeline.fingerprint(again) == pipeline.fingerprint(pipeline.load("cover"))


def test_fingerprint_does_not_see_keys_that_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    class Window(pipeline.Window):
        later: int = 5

    class Later(Pipeline):
        window: Window = Window()

    now = pipeline.fingerprint(pipeline.load("sequence_k32"))
    table = tomllib.loads((RECIPES / "sequence_k32.toml").read_text())
    later = Later.model_validate(table)
    monkeypatch.setattr(pipeline, "Pipeline", Later)
    assert later.model_dump()["window"]["later"] == 5
    assert pipeline.fingerprint(later) == now


def test_differences_are_named() -> None:
    old, new = Pipeline().model_dump(mode="json"), pipeline.load(None, ("window.size=32", "seed=3")).model_dump(mode="json")
    assert pipeline.differences(old, new) == ["seed: 0 -> 3", "window.size: 16 -> 32"]
    assert pipeline.differences(old, old) == []


def test_recipes_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Pipeline().window.size = 3  # type: ignore[misc]


def test_other_options_objects_read_the_same_way(tmp_path: Path) -> None:
    class Settings(Table):
        rate: float = 0.5
        flip: bool = False

    file = tmp_path / "run.toml"
    file.write_text("rate = 1\n")
    assert load_as(Settings, file, ("flip=true",), where="training") == Settings(rate=1.0, flip=True)
    with pytest.raises(UsageError, match="unknown key 'flipp', did you mean 'flip'"):
        load_as(Settings, None, ("flipp=true",), where="training")
    with pytest.raises(UsageError, match="training: flip = 3: must be true or false"):
        check_as(Settings, {"flip": 3}, where="training")
