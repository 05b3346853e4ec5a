"""The facts of a store in words: what `hfprep inspect` and `hfprep verify` print. Every line fits into 80 columns or may be cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..records import SPLITS

MOST_RATES, MOST_LINES, MOST_ROWS = 5, 20, 12


def told(facts: dict[str, Any], *, everything: bool = False) -> list[RenderableType]:
    """What to print of `facts.facts`, finished or not; lists of rows are cut after 20 unless everything is asked for."""
    return _unfinished(facts) if facts["status"] != "complete" else _finished(facts, everything)


def _unfinished(facts: dict[str, Any]) -> list[RenderableType]:
    shards = facts["shards"]
    share = shards["written"] / shards["total"] if shards["total"] else 1.0
    lines = [
        ("window", _window(facts["layout"])),
        ("written", ", ".join(f"{split} {shards[split]['written']} of {shards[split]['total']} shards" for split in SPLITS)),
        ("made by", _origin(facts)),
    ]
    head = f"{facts['store']}: not finished, {shards['written']} of {shards['total']} shards are written ({share:.0%})"
    return [Text(head, style="bold yellow"), _pairs(lines), Text("this command goes on:"), Text(f"  {facts['command']}", style="bold")]


def _finished(facts: dict[str, Any], everything: bool) -> list[RenderableType]:
    windows = sum(split["windows"] for split in facts["splits"].values())
    clips = sum(split["clips"] for split in facts["splits"].values())
    parts: list[RenderableType] = [
        Text(
            f"{facts['store']}: {_count(windows, 'window')} of {_count(clips, 'clip')}, {size(facts['sizes']['stored_bytes'])}",
            style="bold",
        ),
        _pairs(_lines(facts)),
        "",
        _splits(facts["splits"]),
        "",
        _classes(facts["classes"]),
        "",
    ]
    empty = [split for split in SPLITS if not facts["splits"][split]["windows"]]
    if empty:
        parts.append(Text(f"no windows in {' and '.join(empty)}", style="yellow"))
    parts += _rows("quarantined, nothing of it is in the store", facts["quarantine"], "red", everything)
    parts += _rows("kept in part", facts["partial"], "yellow", everything)
    parts += _rows("kept, but to be known", facts["notes"], "yellow", everything)
    return parts


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    layout, recipe, sizes = facts["layout"], facts["pipeline"], facts["sizes"]
    clamped, repeated = facts["clamped"], facts["repeated"]
    ratio = "" if sizes["ratio"] is None else f" (ratio {sizes['ratio']:.2g})"
    lines = [
        ("window", _window(layout)),
        ("picture", f"{layout['width']} x {layout['height']} RGB, fit {recipe.get('frame', {}).get('fit', '?')}"),
        ("placement", _placement(recipe)),
        ("size", f"{size(sizes['stored_bytes'])} stored of {size(sizes['raw_bytes'])} pixels{ratio}, codec {layout['codec']}, "
                 + ("each tick once (layout frames)" if layout["layout"] == "frames"
                    else f"{_count(layout['windows_per_shard'], 'window')} a shard")),
        ("labels", _several(facts["labels"])),
        ("loss", _loss(facts["loss"])),
        ("sources", _sources(facts["sources"])),
        ("clamped", f"{percent(clamped['share'])} of frames repeat a clip's end, in {_count(clamped['windows'], 'window')}"),
        ("repeated", f"{percent(repeated['share'])} of ticks show the frame before again (source slower than the grid); "
                     f"above 5 % in {_count(repeated['clips'], 'clip')}"),
        ("hotspots", _hotspots(facts["hotspots"])),
        ("sensors", _sensors(facts["sensors"])),
        ("made by", _origin(facts)),
    ]  # fmt: skip
    return [(name, words) for name, words in lines if words]


def _loss(loss: dict[str, Any] | None) -> str:
    if loss is None or loss["psnr_mean_db"] is None:
        return ""
    return f"JPEG, quality {loss['quality']}: PSNR {loss['psnr_mean_db']:.1f} dB on average, {loss['psnr_min_db']:.1f} dB at least"


def _several(labels: dict[str, Any] | None) -> str:
    if labels is None or labels["mean"] is None:
        return ""
    more = f"{_count(labels['windows'], 'window')} with more than one"
    return f"several a window: {labels['mean']:.3g} on average, at most {labels['most']}; {more}"


def _window(layout: dict[str, Any]) -> str:
    margin = f"; margin {layout['margin']} on each side, {layout['stored_ticks']} stored ({layout['stored_span_s']:g} s)"
    return f"{_count(layout['size'], 'frame')}, {layout['interval_ms']:g} ms apart: {layout['span_s']:g} s from first to last" + (
        margin if layout["margin"] else ""
    )


def _placement(recipe: dict[str, Any]) -> str:
    window, balance = recipe.get("window", {}), recipe.get("balance", {})
    if window.get("placement") == "cover":
        return f"cover: windows tile every clip (stride {window.get('stride') or 'automatic'})"
    balanced = (
        "not balanced" if balance.get("method") == "none" else f"balanced ({balance.get('method')}, at most {balance.get('max_factor'):g}x)"
    )
    return f"train: {window.get('per_clip')} windows a clip around its hotspot, {balanced}; val and test: {window.get('eval')}"


def _sources(sources: dict[str, Any]) -> str:
    rates = sources["fps"]
    if not rates:
        return ""
    low, high = sources["fps_min"], sources["fps_max"]
    span = f"{low:g}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.4g} to {high:.4g}"
    named = [f"{rate['fps']:g} in {_count(rate['clips'], 'clip')}" for rate in rates[:MOST_RATES]]
    rest = sum(rate["clips"] for rate in rates[MOST_RATES:])
    words = f"{span} frames/s: {', '.join(named)}" + (f", others in {_count(rest, 'clip')}" if rest else "")
    words += f"; variable rate in {_count(sources['vfr_clips'], 'clip')}"
    if sources["rotated_clips"]:
        words += f"; rotated: {_count(sources['rotated_clips'], 'clip')}"
    codecs = ", ".join(f"{codec['codec']} ({codec['clips']})" for codec in sources["codecs"][:MOST_RATES])
    return words + (f"; {codecs}" if codecs else "")


def _hotspots(hotspots: dict[str, Any]) -> str:
    if not hotspots["quartiles"]:
        return "none were searched"
    low, first, middle, third, high = hotspots["quartiles"]
    spread = f"quartiles {first:.2f}, {middle:.2f}, {third:.2f}, from {low:.2f} to {high:.2f}"
    return f"scores of {_count(hotspots['clips'], 'clip')}: {spread} (0 flat, near 1 one sharp peak)"


def _sensors(sensors: dict[str, Any] | None) -> str:
    if sensors is None:
        return "none"
    by_share: dict[str, list[str]] = {}
    for axis in sensors["axes"]:
        unit = f" ({axis['unit']})" if axis["unit"] else ""
        by_share.setdefault(percent(axis["masked_share"]), []).append(f"{axis['axis']}{unit}")
    each = "; ".join(f"{' '.join(axes)}: {share} of frames without a value" for share, axes in by_share.items())
    words = each if len(by_share) == 1 else f"{each}; {percent(sensors['masked_share'])} lack some axis"
    if sensors["hz"]:
        low, high = (f"{hz:.4g}" for hz in sensors["hz"])
        words += f"; {low if low == high else f'{low} to {high}'} rows/s in {_count(sensors['clips'], 'clip')}, "
        words += f"which cover {percent(sensors['cover'])} of their ticks"
    for told, rows in sensors["formats"].items():
        words += f"; {told} ({_count(rows, 'clip')})"
    return words


def _origin(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    manifest = f"from {facts['manifest']}; " if facts["manifest"] else ""
    return f"{manifest}{versions}; format {facts['format_version']}, pipeline {facts['fingerprint']}"


def _pairs(lines: Iterable[tuple[str, str]]) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="cyan")
    grid.add_column(overflow="fold")
    for name, words in lines:
        grid.add_row(name, Text(words))
    return Padding(grid, (0, 0, 0, 2))


def _splits(splits: dict[str, dict[str, int]]) -> Table:
    table = _table("split", "windows", "lost", "clips", "shards")
    for name, split in splits.items():
        table.add_row(name, *(str(split[key]) for key in ("windows", "lost_windows", "clips", "shards")))
    return table


def _classes(classes: Sequence[dict[str, Any]]) -> Table:
    """Windows of each split, with train's before balancing, the clips that they come from, and the loss weight."""
    table = _table("class", "train", "unbalanced", "val", "test", "clips", "weight")
    for row in classes:
        before = "-" if row["unbalanced_train_windows"] is None else str(row["unbalanced_train_windows"])
        weight = "-" if row["weight"] is None else f"{row['weight']:.3f}"
        label, windows = Text(" ".join(row["label"].split())), row["windows"]
        clips = str(sum(row["clips"].values()))
        table.add_row(label, str(windows["train"]), before, str(windows["val"]), str(windows["test"]), clips, weight)
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True, overflow="ellipsis", min_width=8)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _rows(title: str, rows: Sequence[dict[str, Any]], style: str, everything: bool) -> list[RenderableType]:
    """A line a manifest row, whole however long it is, so that it can be searched for."""
    if not rows:
        return []
    shown = rows if everything else rows[:MOST_LINES]
    lines: list[RenderableType] = [Text(f"{title}: {_count(len(rows), 'row')}", style=f"bold {style}")]
    for row in shown:
        line = f" (line {row['line']})" if row["line"] else ""
        lines.append(Text(f"  row {row['row']}{line} {row['video']}: {' '.join(row['reason'].split())} [{row['kind']}]"))
    if len(shown) < len(rows):
        lines.append(Text(f"  and {len(rows) - len(shown)} more (-v or --json names all)"))
    return lines


def window_told(window: dict[str, Any]) -> list[RenderableType]:
    """A window frame by frame: tick and source time in ms, what is special, sensor values."""
    axes = list(window["frames"][0].get("imu", {})) if window["frames"] else []
    table = _table("frame", "tick ms", "source ms", "late ms")
    table.add_column("what")
    for axis in axes[:6]:
        table.add_column(axis, justify="right", no_wrap=True)
    for number, frame in enumerate(window["frames"]):
        what = " ".join(name for name in ("centre", "clamped", "margin") if frame[name])
        times = (frame["time_ns"], frame["source_ns"], frame["time_ns"] - frame["source_ns"])
        values = ["-" if frame["imu"][axis] is None else f"{frame['imu'][axis]:.4g}" for axis in axes[:6]]
        table.add_row(str(number), *(f"{ns / 1e6:.3f}" for ns in times), Text(what), *values)
    parts: list[RenderableType] = [Text(window["title"], style="bold"), Text(window["subtitle"]), table]
    if window["trouble"]:
        parts.insert(2, Text(f"not used: {window['trouble']}", style="red"))
    if len(axes) > 6:
        parts.append(Text(f"{len(axes) - 6} more axes: --json names all"))
    return parts


def clip_told(clip: dict[str, Any]) -> list[RenderableType]:
    """A clip: its hotspot, and its windows with their times in ms."""
    table = _table("window", "first ms", "centre ms", "last ms", "clamped")
    for window in clip["windows"]:
        times = (f"{window[name] / 1e6:.3f}" for name in ("first_ns", "center_ns", "last_ns"))
        table.add_row(f"{clip['split']}:{window['row']}", *times, str(window["clamped"]))
    spot, score = clip["hotspot_ns"], clip["hotspot_score"]
    told = (
        "no hotspot was looked for"
        if spot is None
        else f"hotspot at {spot / 1e6:.3f} ms" + ("" if score is None else f", score {score:.2f}")
    )
    parts: list[RenderableType] = [Text(clip["title"], style="bold"), Text(clip["subtitle"]), Text(told), table]
    if clip["trouble"]:
        parts.insert(2, Text(f"not used: {clip['trouble']}", style="red"))
    return parts


def verdict_told(verdict: dict[str, Any]) -> list[RenderableType]:
    """What verify found: a line each damage with its file, rows and clips, then the command that mends."""
    checked = f"{_count(verdict['windows'], 'window')} in {_count(verdict['shards'], 'shard')} read"
    if verdict["status"] == "good":
        return [Text(f"{verdict['store']}: good, {checked}", style="bold green")]
    damages = verdict["damages"]
    rows = {(damage["split"], row) for damage in damages for row in damage["rows"]}
    head = f"{verdict['store']}: damaged: {_count(len(damages), 'fault')}, {_count(len(rows), 'window')} concerned; {checked}"
    parts: list[RenderableType] = [Text(head, style="bold red")]
    for damage in damages:
        words = f"  {damage['file']}: {damage['what']}"
        if damage["rows"]:
            words += f"; {damage['split']} {spans(damage['rows'])}"
        if damage["clips"]:
            more = f" and {len(damage['clips']) - MOST_ROWS} more" if len(damage["clips"]) > MOST_ROWS else ""
            words += f"; clips {', '.join(damage['clips'][:MOST_ROWS])}{more}"
        parts.append(Text(words))
    return [*parts, Text("this command mends it:"), Text(f"  {verdict['mend']}", style="bold")]


def spans(rows: Sequence[int]) -> str:
    """Row numbers as spans, at most twelve.

    >>> spans([0, 1, 2, 7, 9, 10])
    'rows 0-2, 7, 9-10'
    """
    found: list[list[int]] = []
    for row in sorted(rows):
        if found and row == found[-1][1] + 1:
            found[-1][1] = row
        else:
            found.append([row, row])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in found]
    return f"{'row' if len(rows) == 1 else 'rows'} {', '.join(words[:MOST_ROWS])}" + (", ..." if len(words) > MOST_ROWS else "")


def size(n: int) -> str:
    """Bytes for people.

    >>> size(950), size(1_234_567), size(45_600_000_000)
    ('950 B', '1.23 MB', '45.6 GB')
    """
    value, unit = float(n), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{n} B" if unit == "B" else f"{value:.3g} {unit}"


def percent(share: float) -> str:
    """A share for people; a small one never reads as none.

    >>> percent(0), percent(0.0004), percent(0.0312), percent(1)
    ('0 %', '0.04 %', '3.1 %', '100 %')
    """
    value = share * 100
    return f"{value:.2g} %" if value < 10 else f"{value:.0f} %"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
