"""Which packets of a file a decoder must be given so that the wanted frames come out exactly as if it had been given all.

Arithmetic on packet numbers and first bytes; no decoder.
"""

from __future__ import annotations

import numpy as np

from .records import I64, Bool

# Decoders that, told to leave out pictures nobody refers to, leave out exactly those (hevc with one temporal layer only).
SKIPPING_CODECS = frozenset({"h264", "hevc", "mpeg4", "mpeg2video", "mpeg1video", "vp8"})


def needed(wanted: I64, pts: I64, packets: I64, keyframes: I64) -> Bool:
    """Mask over packet numbers 0 .. last needed: those from a group's key frame to its last wanted frame.

    wanted   frame numbers (W,), at least one
    pts      raw stamps (N,) and packets (N,) packet numbers of all frames, both in presentation order
    keyframes  packet numbers, increasing, at which decoding can begin afresh

    A wanted picture presented before its group's key frame (open group) may need the group before, so that is fed whole.

    >>> needed(np.array([1]), np.array([0, 1, 2, 3]), np.array([0, 2, 1, 3]), np.array([0])).tolist()
    [True, True, True]
    """
    numbers = packets[wanted]
    starts = keyframes if len(keyframes) and keyframes[0] == 0 else np.concatenate([np.zeros(1, np.int64), keyframes])
    group = np.searchsorted(starts, numbers, side="right") - 1
    feed = np.zeros(int(numbers.max()) + 1, np.bool_)
    by_packet = np.argsort(packets)
    for g in np.unique(group).tolist():
        mine = group == g
        feed[starts[g] : numbers[mine].max() + 1] = True
        at = np.searchsorted(packets[by_packet], starts[g])
        key_shown = at < len(packets) and packets[by_packet[at]] == starts[g]
        # A hidden key frame (edit list) has no stamp here to compare with: take the careful way.
        if g and not (key_shown and pts[wanted[mine]].min() >= pts[by_packet[at]]):
            feed[starts[g - 1] : starts[g]] = True
    return feed


def begins_afresh(codec: str, data: bytes, extradata: bytes) -> bool:
    """Can decoding begin at this key packet with nothing before it? For H.264 and HEVC that takes an IDR picture: a recovery
    point (open groups, rolling refresh) is marked key too, and what follows it may still need older pictures."""
    if codec not in ("h264", "hevc"):
        return True
    kinds = [unit[0] & 31 if codec == "h264" else unit[0] >> 1 & 63 for unit in _units(codec, data, extradata) if unit]
    return 5 in kinds if codec == "h264" else bool({19, 20} & set(kinds))


def may_skip(codec: str, extradata: bytes) -> bool:
    """May a decoder of this stream be told to leave out unreferenced pictures that nobody wants?

    HEVC marks a picture unreferenced within its temporal layer only; with more layers than one, a higher one may refer to it.
    """
    if codec == "hevc":
        return len(extradata) > 21 and extradata[0] == 1 and extradata[21] >> 3 & 7 == 1
    return codec in SKIPPING_CODECS


def is_hidden(codec: str, data: bytes) -> bool:
    """Does this packet hold a picture that is never shown? (VP8 alternate references; MPEG-4 placeholders.)"""
    if codec == "vp8":
        return bool(data) and not data[0] >> 4 & 1
    return codec == "mpeg4" and len(data) < 20


def _units(codec: str, data: bytes, extradata: bytes) -> list[bytes]:
    """First bytes of the NAL units in a packet: length-prefixed (MP4, Matroska) or behind start codes."""
    if extradata[:1] != b"\x01":
        return [part[:2] for part in data.split(b"\x00\x00\x01")[1:]]
    place = 4 if codec == "h264" else 21
    width = (extradata[place] & 3) + 1 if len(extradata) > place else 4
    units, at = [], 0
    while at + width < len(data):
        units.append(data[at + width : at + width + 2])
        at += width + int.from_bytes(data[at : at + width], "big")
    return units
