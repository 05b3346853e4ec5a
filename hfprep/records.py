"""Values that flow through the rooms: frozen, checked when made, printing shapes and not pixels."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]

SPLITS = ("train", "val", "test")


def require(condition: bool, message: str) -> None:
    """Raise ValueError where a record would contradict itself (a bug in the caller, not in the user's data)."""
    if not condition:
        raise ValueError(message)


def visible(text: str) -> str:
    """Text for a terminal or a log line: control characters, which could clear the screen, are written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)


@dataclass(frozen=True, slots=True)
class Clip:
    """One manifest row: a stretch of one video with its label.

    row             data row of the manifest, from 1, blank lines not counted
    line            line of the manifest file, from 1
    video, imu      absolute paths ("" = no sensor file); text, not Path, because object-store addresses must survive
    split           "train" | "val" | "test", or "" to be drawn from the hash of the group
    group           subject or source recording; never crosses splits
    start_ns        from the video's first presented frame
    end_ns          half-open end, or None for the whole video
    imu_offset_ns   video time = sensor time + offset
    imu_drift_ppm   the sensor's clock is so much slower than the video's, counted from its first row
    imu_layout      absolute path of a TOML file that says how the sensor files are laid out ("" = the recipe, or recognised)
    label, labels   the class as text; where a cell names several, their names, and label has the separator between them
    extra           further manifest columns, (name, text) pairs, carried into `clips/`
    fps             (from extra) frames a second where `video` is a folder of numbered pictures, as text
    """

    row: int
    line: int
    id: str
    video: str
    label: str
    split: str = ""
    group: str = ""
    start_ns: int = 0
    end_ns: int | None = None
    imu: str = ""
    imu_offset_ns: int = 0
    extra: tuple[tuple[str, str], ...] = ()
    labels: tuple[str, ...] = ()
    imu_layout: str = ""
    imu_drift_ppm: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its classes."""
        return self.labels or (self.label,)

    @property
    def fps(self) -> str:
        """The manifest's column fps, "" where there is none."""
        return next((text for name, text in self.extra if name.casefold() == "fps"), "")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with one manifest row (or a warning about a kept one), in words a person can act on."""

    row: int
    line: int
    video: str
    kind: str
    message: str
    label: str = ""
    warning: bool = False  # True: the row is kept

    def __str__(self) -> str:
        where = f"row {self.row} (line {self.line}) {self.video}: " if self.row else ""
        return visible(f"{where}{self.message} [{self.kind}]")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest file as read: the clips that can be tried, the class names (sorted), and what is wrong with the other rows."""

    path: str
    clips: tuple[Clip, ...]
    classes: tuple[str, ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """What the probe found in one video file: when each frame that decodes is presented.

    pts_ns      int64 (N,), times of the frames in the decoder's output order, first = 0, never decreasing
    pts         int64 (N,), the same frames' raw time stamps in `time_base`, all different; empty where the file has no such
                stamps: a frame is then found by its number in the decoder's output order
    clock       "pts" (frame time stamps), "dts" or "rate" (AVI and others whose time stamps lie: output order at DTS or
                at the stream's frame rate), "pictures" (a folder of numbered ones)
    trusted     True: found by demuxing alone; False: the file was decoded to find out
    packets     int64 (N,), number of each frame's packet in file order; empty where not trusted
    keyframes   numbers of the packets at which decoding can begin afresh (nothing after one needs anything before it, but for
                pictures presented before it); empty where not trusted
    width, height   pixels as stored, before `rotation` (degrees counter-clockwise to the upright picture, in quarter turns)
    lead        pictures that the decoder gives before the first whole one: left out, they are not counted as frames
    missing     frames that the file promises but does not hold (cut download), 0 when whole
    notes       what a person should know ("time stamps missing: 25 frames/s assumed"), printed once a file
    files       names of the pictures where `path` is a folder of them
    """

    path: str
    pts_ns: I64
    pts: I64
    time_base: Fraction
    stream: int
    clock: str
    trusted: bool
    reordered: bool
    keyframes: I64
    width: int
    height: int
    rotation: int
    codec: str
    container: str
    fps: float
    packets: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    lead: int = 0
    missing: int = 0
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(self.pts_ns.ndim == 1 and len(self.pts_ns) > 0, f"{self.path}: a timeline needs at least one frame")
        require(len(self.pts) in (0, len(self.pts_ns)), f"{self.path}: pts and pts_ns differ in length")
        require(bool(np.all(np.diff(self.pts_ns) >= 0)), f"{self.path}: a timeline never goes back")

    def __repr__(self) -> str:
        return f"Timeline({self.path!r}, {len(self.pts_ns)} frames, {self.width}x{self.height}, {self.codec}, clock={self.clock})"

    @property
    def last_ns(self) -> int:
        """Time of the last presented frame."""
        return int(self.pts_ns[-1])

    @property
    def vfr(self) -> bool:
        """Variable frame rate: gaps between frames differ by more than 2 ms and 5 % (container rounding is less)."""
        gaps = np.diff(self.pts_ns)
        return bool(len(gaps) > 1 and gaps.max() - gaps.min() > max(2_000_000, int(gaps.max()) // 20))


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """One clip, resampled: frames u8 (T,H,W,3) RGB; time_ns (T,) ticks; source_ns (T,) the shown frame's own time;
    ok (T,) False where the frame could not be decoded whole."""

    frames: U8
    time_ns: I64
    source_ns: I64
    ok: Bool

    def __post_init__(self) -> None:
        t = len(self.time_ns)
        require(self.frames.ndim == 4 and self.frames.shape[0] == t and self.frames.shape[3] == 3, f"frames {self.frames.shape}")
        require(self.source_ns.shape == self.ok.shape == (t,), f"source_ns {self.source_ns.shape}, ok {self.ok.shape}, {t} ticks")

    def __repr__(self) -> str:
        return f"Frames{self.frames.shape}"


@dataclass(frozen=True, slots=True, eq=False)
class Sensor:
    """One sensor file as read: time_ns int64 (R,) strictly increasing on the file's own clock, values f32 (R,M) with NaN
    where a cell is missing, axes and units (M names each), notes (what was recognised or repaired)."""

    time_ns: I64
    values: F32
    axes: tuple[str, ...]
    units: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(self.values.shape == (len(self.time_ns), len(self.axes)), f"values {self.values.shape}, axes {self.axes}")

    def __repr__(self) -> str:
        return f"Sensor({len(self.time_ns)} rows, axes={self.axes})"


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """Sensor rows at given times: values f32 (T,M), NaN where unknown; ok bool (T,), True where every axis is measured."""

    values: F32
    ok: Bool

    def __post_init__(self) -> None:
        require(self.values.ndim == 2 and self.ok.shape == (len(self.values),), f"values {self.values.shape}, ok {self.ok.shape}")


@dataclass(frozen=True, slots=True)
class Hotspot:
    """Where the action is: tick index, and score = 1 - mean/peak of the smoothed energy (0: flat, near 1: one sharp peak).

    width   ticks of the hot region around it, in which the energy is above half its peak; 0 where no energy was found
    """

    tick: int
    score: float
    width: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Hyperframes:
    """N windows of L = size + 2 x margin ticks of one clip.

    frames u8 (N,L,H,W,3); time_ns, source_ns i64 (N,L); clamped bool (N,L): repeats of the clip's first or last tick;
    center_ns i64 (N,); ok bool (N,): False where a frame of the window is damaged; imu f32 (N,L,M) and imu_ok (N,L), or None.
    """

    frames: U8
    time_ns: I64
    source_ns: I64
    clamped: Bool
    center_ns: I64
    ok: Bool
    imu: F32 | None = None
    imu_ok: Bool | None = None

    def __post_init__(self) -> None:
        n, length = self.time_ns.shape
        require(self.frames.ndim == 5 and self.frames.shape[:2] == (n, length), f"frames {self.frames.shape}, times {(n, length)}")
        require(self.source_ns.shape == self.clamped.shape == (n, length), "source_ns and clamped are (N,L)")
        require(self.center_ns.shape == self.ok.shape == (n,), "center_ns and ok are (N,)")

    def __repr__(self) -> str:
        return f"Hyperframes{self.frames.shape}"


@dataclass(frozen=True, slots=True)
class Piece:
    """Windows (or ticks, in a store of frames) first .. first + count - 1 of plan clip `clip`, side by side in one shard."""

    clip: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard of a split: pieces in row order. Unit u of the split lies in shard u // units_per_shard (see layout.Layout)."""

    split: str
    index: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive shards of one split: what one task prepares and writes whole."""

    shards: tuple[Shard, ...]


@dataclass(frozen=True, slots=True)
class ClipOutcome:
    """What became of one clip when it was prepared; becomes a row of `clips/`.

    hotspot_ns -1 and hotspot_score NaN where no hotspot was searched; repeated_share: share of ticks that show the same
    frame as the tick before; error "" or the reason why windows of it are missing, with its kind; centers: ticks on which its
    windows are centred, in row order, told where the store holds ticks.
    """

    clip: int
    n_ticks: int = 0
    hotspot_ns: int = -1
    hotspot_score: float = float("nan")
    repeated_share: float = 0.0
    error: str = ""
    error_kind: str = ""
    notes: tuple[str, ...] = ()
    centers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ShardData:
    """All units of one shard, ready to be written: frames u8 (n, unit shape); columns: name -> array of n rows, every unit column
    of the layout but the digest; outcomes of the clips that have units here."""

    split: str
    index: int
    frames: U8
    columns: dict[str, NDArray[np.generic]]
    outcomes: tuple[ClipOutcome, ...]

    def __repr__(self) -> str:
        return f"ShardData({self.split}/{self.index}, {self.frames.shape})"
