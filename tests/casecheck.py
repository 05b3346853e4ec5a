"""Every field of a case's expectation (README.md of the cases) held against a built store. Each check returns what is wrong, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from caserun import Case, Got, Row, Window
from casevalues import check_imu, check_pictures

Expect = dict[str, Any]
FIELDS = {  # all that the checks below look at; a field that nobody checks would be an expectation lost in silence
    "row", "status", "error", "mention", "line", "label", "n", "codes", "codes_nearest", "codes_any", "codes_between", "inside",
    "codes_prefix_of", "max_repeat", "monotone", "order", "forbid_interleave", "offset_frames_max", "end_open_ok", "twin_row", "twin_tol",
    "levels", "right_edge", "channels_equal_tol", "imu", "imu_tol", "imu_valid", "or_marked", "outside", "imu_all_marked_except",
    "windows", "warn", "same_as", "lost_class", "peak_extra_mb_max", "seconds_max",
}  # fmt: skip
PICTURE_FIELDS = {"twin_row", "levels", "right_edge", "channels_equal_tol"}


def check_case(case: Case, got: Got) -> list[str]:
    """All that is wrong with a store, for all rows of a case."""
    wrong = []
    for expect in case.get("rows", []):
        unknown = set(expect) - FIELDS
        wrong += [f"field {name!r} is not checked by this harness" for name in sorted(unknown)]
        wrong += [f"row {expect['row']}: {text}" for text in check_row(case, expect, got)]
    expected = {expect["row"] for expect in case.get("rows", [])}
    wrong += [f"row {n} is in the store but not in the manifest" for n, row in got.rows.items() if row.windows and n not in expected]
    if "n_classes" in case and len(got.classes) != case["n_classes"]:
        wrong.append(f"{len(got.classes)} classes {got.classes}, expected {case['n_classes']}")
    return [*wrong, *check_exit(case, got)]


def check_exit(case: Case, got: Got) -> Iterator[str]:
    """0 where every row was prepared, 3 where some were not."""
    failed = [e["row"] for e in case.get("rows", []) if e["status"] != "merged" and not whole(got.row(e["row"]))]
    merged = any(e["status"] == "merged" for e in case.get("rows", []))
    allowed = {3} if failed else {0, 3} if merged else {0}
    if got.ran.code not in allowed:
        yield f"exit code {got.ran.code} with failed rows {failed}, expected {sorted(allowed)}; output:\n{got.ran.text}"


def whole(row: Row) -> bool:
    """Every window of the row is there."""
    return bool(row.windows) and all(w.ok for w in row.windows)


def check_row(case: Case, expect: Expect, got: Got) -> list[str]:
    """All that is wrong with one row."""
    row, status = got.row(expect["row"]), expect["status"]
    if status == "merged":
        return [*check_merged(expect, row, got)]
    if status == "failed" or (not row.good and status in ("ok_or_failed", "partial_or_failed")):
        return [*check_failed(expect, row, got)]
    if not row.good:
        return [f"not built: {got.said(row).strip() or 'nothing said'}"]
    wrong = [*row.faults, *check_label(expect, row), *check_windows_hold(case, expect, row), *check_codes(expect, row)]
    if status == "partial_or_failed":
        wrong += check_partial(expect, row, got)
    elif not whole(row):
        wrong.append(f"{sum(not w.ok for w in row.windows)} of {len(row.windows)} windows are not ok: {got.said(row)}")
    wrong += check_windows(expect.get("windows", {}), row)
    if not wrong and PICTURE_FIELDS & set(expect):  # pictures are compared place by place: only where the places are right
        wrong += check_pictures(expect, row, got)
    if got.axes:
        wrong += check_imu(expect, row, got)
    if "warn" in expect:
        wrong += check_warned(expect, row, got)
    if "seconds_max" in expect and got.ran.seconds > expect["seconds_max"]:
        wrong.append(f"took {got.ran.seconds:.1f} s")
    return wrong


# ---------------------------------------------------------------- rows that fail
def check_failed(expect: Expect, row: Row, got: Got) -> Iterator[str]:
    if row.good:
        yield f"{len(row.good)} windows were stored, expected a failure ({expect['error']})"
    if row.kind != expect["error"]:
        yield f"failed as {row.kind!r}, expected {expect['error']!r}: {got.said(row).strip()}"
    if not mentioned(expect, row, got):
        yield f"the report does not mention {expect['mention']!r}: {got.said(row).strip()}"
    if "lost_class" in expect and not names_class(expect["lost_class"], row, got):
        yield f"the report does not name the class {expect['lost_class']!r}: {got.ran.text}"
    if "seconds_max" in expect and got.ran.seconds > expect["seconds_max"]:
        yield f"took {got.ran.seconds:.1f} s"


def mentioned(expect: Expect, row: Row, got: Got) -> bool:
    """The printed report names the row, and what is said of it holds the text; a bare number is a line or the row's number."""
    if not re.search(rf"\brow {row.row}\b", got.ran.text):
        return False
    text = str(expect.get("mention", ""))
    if text.isdigit():
        return any(re.search(rf"\b(row|line) {n}\b", got.said(row)) for n in (int(text), row.row))
    return text in got.said(row)


def names_class(name: str, row: Row, got: Got) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", got.ran.text) is not None and name in got.classes


def check_merged(expect: Expect, row: Row, got: Got) -> Iterator[str]:
    """A duplicate adds nothing, or is reported."""
    if row.good and not mentioned(expect, row, got):
        yield f"the duplicate of row {expect.get('same_as')} was stored again and not reported"


def check_partial(expect: Expect, row: Row, got: Got) -> Iterator[str]:
    """A damaged row kept in part is reported as such."""
    if not mentioned(expect, row, got):
        yield f"kept in part but the report does not say so: {got.ran.text}"


def check_warned(expect: Expect, row: Row, got: Got) -> Iterator[str]:
    lines = [line for line in got.said(row).splitlines() if line.strip()]
    if not any(re.search(rf"\b{re.escape(expect['warn'])}", line, re.IGNORECASE) for line in lines):
        yield f"kept without a word about {expect['warn']!r}; said: {lines}"
    if not re.search(rf"\brow {row.row}\b", got.ran.text):
        yield "kept with a warning that is in the store but was not printed"


# ---------------------------------------------------------------- which frames
def check_label(expect: Expect, row: Row) -> Iterator[str]:
    labels = {row.label, *(w.label for w in row.windows)}
    if "label" in expect and labels != {expect["label"]}:
        yield f"labels {labels}, expected {expect['label']!r}"


def check_windows_hold(case: Case, expect: Expect, row: Row) -> Iterator[str]:
    """Each window is a run of neighbours of the grid; repeats stand only at the ends of a short clip; together they hold every place."""
    size, grid = case["window"], row.grid()
    last = max(grid)
    for w in row.good:
        where = f"{w.split}/{w.index}"
        if len(w.codes) != size:
            yield f"{where}: {len(w.codes)} frames, expected {size}"
        if -1 in w.codes:
            yield f"{where}: unreadable pictures, codes {w.codes}"
        if any(code != grid[tick] for tick, code in zip(w.ticks, w.codes, strict=True)):
            yield f"{where}: another window shows another frame at the same time"
        yield from _run(w, last, size)
    if sorted(grid) != list(range(last + 1)):
        yield f"places {sorted(set(range(last + 1)) - set(grid))} of the grid are in no window"
    if len({tuple(w.ticks) for w in row.windows if w.ok}) != len(row.good):
        yield "a window is stored twice"


def _run(w: Window, last: int, size: int) -> Iterator[str]:
    """One window's places: one after the other, or held at 0 or the last place, marked as clamped, and that only in a short clip."""
    steps = [(b - a) for a, b in zip(w.ticks, w.ticks[1:])]
    if any(step not in (0, 1) for step in steps) or any(s == 0 and t not in (0, last) for s, t in zip(steps, w.ticks)):
        yield f"{w.split}/{w.index}: places {w.ticks} are no run of neighbours"
    repeats = steps.count(0)
    if repeats != max(0, size - last - 1):
        yield f"{w.split}/{w.index}: {repeats} repeated places in a clip of {last + 1}"
    if sum(w.clamped) != repeats or any(c and t not in (0, last) for c, t in zip(w.clamped, w.ticks)):
        yield f"{w.split}/{w.index}: clamped {w.clamped} does not mark the repeats of {w.ticks}"


def check_codes(expect: Expect, row: Row) -> Iterator[str]:
    """The frame shown at each place of the grid."""
    codes = row.codes()
    if "codes" in expect and not _same(codes, expect):
        yield f"frames {codes}, expected {expect['codes']}"
    if "codes_any" in expect and (len(codes) != expect["n"] or any(c not in of for c, of in zip(codes, expect["codes_any"]))):
        yield f"frames {codes}, expected one of each of {expect['codes_any']}"
    if "n" in expect and len(codes) not in {expect["n"], expect["n"] - bool(expect.get("end_open_ok"))}:
        yield f"{len(codes)} places, expected {expect['n']}"
    for key in ("inside", "codes_between"):
        if key in expect and not all(expect[key][0] <= c <= expect[key][1] for c in codes):
            yield f"frames {codes} leave {expect[key]}"
    if "codes_prefix_of" in expect and codes != expect["codes_prefix_of"][: len(codes)]:
        yield f"frames {codes} are not the beginning of {expect['codes_prefix_of']}"
    if "max_repeat" in expect and longest_run(codes) > expect["max_repeat"]:
        yield f"frames {codes} repeat more than {expect['max_repeat']} times"
    if expect.get("monotone") and codes != sorted(codes):
        yield f"frames {codes} go back"
    yield from _halves(expect, codes)


def _same(codes: list[int], expect: Expect) -> bool:
    wanted = expect["codes"]
    if expect.get("end_open_ok") and codes == wanted[:-1]:
        return True
    off = expect.get("offset_frames_max", 0)
    if off:
        return abs(len(codes) - len(wanted)) <= off and all(abs(a - b) <= off for a, b in zip(codes, wanted))
    return codes == wanted


def longest_run(codes: list[int]) -> int:
    best = run = 0
    for i, code in enumerate(codes):
        run = run + 1 if i and code == codes[i - 1] else 1
        best = max(best, run)
    return best


def _halves(expect: Expect, codes: list[int]) -> Iterator[str]:
    """`order`: all codes below a number come before all codes from it; `forbid_interleave`: and each part runs forwards."""
    if "order" not in expect:
        if expect.get("forbid_interleave") and codes != sorted(codes):
            yield f"frames {codes} are mixed"
        return
    found = re.search(r"below (\d+) come before all codes from (\d+)", expect["order"])
    if found is None or found[1] != found[2]:
        yield f"the order {expect['order']!r} is not understood by this harness"
        return
    later = [c >= int(found[1]) for c in codes]
    first, second = [c for c in codes if c < int(found[1])], [c for c in codes if c >= int(found[1])]
    if later != sorted(later) or (expect.get("forbid_interleave") and (first != sorted(first) or second != sorted(second))):
        yield f"frames {codes}: {expect['order']}"


def check_windows(expect: Expect, row: Row) -> Iterator[str]:
    """The field `windows`: numbers in it are frame numbers."""
    codes, runs = row.codes(), [w.codes for w in row.good]
    place = {code: i for i, code in enumerate(codes)}
    tests = {
        "length": lambda v: all(len(r) == v for r in runs),
        "count_min": lambda v: len(runs) >= v,
        "distinct": lambda v: sorted(map(list, {tuple(r) for r in runs})) == sorted(v),
        "consecutive": lambda v: not v or all([place[c] for c in r] == list(range(place[r[0]], place[r[0]] + len(r))) for r in runs),
        "monotone": lambda v: not v or all(r == sorted(r) for r in runs),
        "uses": lambda v: set(v) <= {c for r in runs for c in r},
        "starts_in": lambda v: all(r[0] in v for r in runs),
        "some_contains": lambda v: any(set(v) <= set(r) for r in runs),
        "last_max": lambda v: all(r[-1] <= v for r in runs),
    }
    for key, value in expect.items():
        if key not in tests:
            yield f"windows.{key} is not checked by this harness"
        elif not tests[key](value):
            yield f"windows.{key} = {value} does not hold for {runs}"
