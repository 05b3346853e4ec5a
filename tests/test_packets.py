"""Which packets a decoder needs, on numbers alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hfprep import packets

I64 = np.int64


def fed(wanted: list[int], pts: list[int], numbers: list[int], keys: list[int]) -> list[int]:
    mask = packets.needed(np.array(wanted, I64), np.array(pts, I64), np.array(numbers, I64), np.array(keys, I64))
    return np.flatnonzero(mask).tolist()


def test_from_the_key_frame_to_the_last_wanted_frame_of_each_group() -> None:
    plain = list(range(12))
    assert fed([5], plain, plain, [0, 4, 8]) == [4, 5]
    assert fed([1, 9], plain, plain, [0, 4, 8]) == [0, 1, 8, 9]
    assert fed([3], plain, plain, []) == [0, 1, 2, 3]


def test_a_picture_before_its_key_frame_pulls_in_the_group_before() -> None:
    # in file order: I0 P1 | I4 b2 b3 P5, presented 0 1 2 3 4 5
    numbers = [0, 1, 3, 4, 2, 5]
    assert fed([3], list(range(6)), numbers, [0, 2]) == [0, 1, 2, 3, 4]
    assert fed([5], list(range(6)), numbers, [0, 2]) == [2, 3, 4, 5]


def test_a_hidden_key_frame_is_handled_with_care() -> None:
    # packets 0-3 hidden by an edit list but for frames 4.. ; key frames 0 and 3 (3 is hidden: no stamp)
    assert fed([0], [0, 1], [4, 5], [0, 3]) == [0, 1, 2, 3, 4]


@given(st.data())
def test_every_wanted_packet_and_its_key_are_fed_and_nothing_behind(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 30))
    keys = sorted({0, *data.draw(st.lists(st.integers(0, n - 1)))})
    wanted = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1)))
    plain = list(range(n))
    got = set(fed(wanted, plain, plain, keys))
    assert got == {p for w in wanted for p in range(max(k for k in keys if k <= w), w + 1)}


def test_only_idr_pictures_begin_afresh_in_h264_and_hevc() -> None:
    avcc = b"\x01\x64\x00\x1f\xff\xe1"
    idr, other = b"\x00\x00\x00\x02\x09\xf0\x00\x00\x00\x03\x65\x88\x80", b"\x00\x00\x00\x02\x06\x05\x00\x00\x00\x03\x41\x9a\x00"
    assert packets.begins_afresh("h264", idr, avcc) and not packets.begins_afresh("h264", other, avcc)
    assert packets.begins_afresh("h264", b"\x00\x00\x00\x01\x67\x01\x00\x00\x01\x65\x88", b"")
    hvcc = b"\x01" + bytes(20) + b"\x0f"
    assert packets.begins_afresh("hevc", b"\x00\x00\x00\x03\x26\x01\xaf", hvcc)  # IDR_W_RADL = 19
    assert not packets.begins_afresh("hevc", b"\x00\x00\x00\x03\x2a\x01\xaf", hvcc)  # CRA = 21
    assert packets.begins_afresh("vp9", b"", b"")


def test_hevc_with_temporal_layers_is_not_skipped() -> None:
    one, two = (b"\x01" + bytes(20) + bytes([layers << 3 | 7]) for layers in (1, 2))
    assert packets.may_skip("hevc", one) and not packets.may_skip("hevc", two) and not packets.may_skip("hevc", b"")
    assert packets.may_skip("h264", b"") and not packets.may_skip("vp9", b"")


def test_hidden_pictures() -> None:
    assert packets.is_hidden("vp8", b"\x01") and not packets.is_hidden("vp8", b"\x11")
    assert packets.is_hidden("mpeg4", b"\x00\x00\x01\xb6\x51\x20\x7f") and not packets.is_hidden("h264", b"\x00")
