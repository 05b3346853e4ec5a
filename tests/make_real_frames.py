"""Write tests/data/real_frames.json: what the ffmpeg program decodes from each real clip, to hold hfprep's frames against.

    python tests/make_real_frames.py CLIPS_FOLDER

Needs the programs ffmpeg and ffprobe, and numpy; nothing of hfprep, so that both could not be wrong in the same way. For each
file: number of frames in display order, their times in ns by the rule of the design (best-effort time stamps; where these do
not increase, output order at the nominal rate), and at every 100 ms a grey picture of 8 x 8 together with its distance from
the nearest of the two neighbouring frames: where that is large, an error of one frame cannot hide.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIDE = 8
TICK_NS = 100_000_000
OUT = Path(__file__).parent / "data" / "real_frames.json"


def ask(path: Path, *what: str) -> dict[str, list[dict[str, object]]]:
    done = subprocess.run(["ffprobe", "-v", "error", *what, "-of", "json", str(path)], capture_output=True, text=True, errors="replace")
    answer: dict[str, list[dict[str, object]]] = json.loads(done.stdout or "{}")
    return answer


def stream_of(path: Path) -> int | None:
    """The stream that the ffmpeg program takes by itself: the default one, then the largest; no cover pictures."""
    found = ask(path, "-select_streams", "V", "-show_entries", "stream=index,width,height:stream_disposition=default").get("streams", [])
    rank = [(s["disposition"]["default"], s["width"] * s["height"], -s["index"]) for s in found]  # type: ignore[index,operator]
    return -max(rank)[2] if rank else None


def times_of(path: Path, stream: int) -> list[int]:
    wanted = "frame=best_effort_timestamp:stream=time_base,r_frame_rate"
    answer = ask(path, "-select_streams", str(stream), "-show_entries", wanted)
    base = Fraction(str(answer["streams"][0]["time_base"])) * 10**9
    stamps = [f.get("best_effort_timestamp") for f in answer.get("frames", [])]
    known = [int(str(s)) for s in stamps if s is not None]
    if len(known) == len(stamps) and all(a < b for a, b in pairwise(known)):
        return [int((s - known[0]) * base) for s in known]
    rate = Fraction(str(answer["streams"][0]["r_frame_rate"]))
    return [int(k * 10**9 / rate) for k in range(len(stamps))]


def pictures_of(path: Path, stream: int) -> NDArray[np.float32]:
    """Every frame as grey 8 x 8, from 64 x 64 RGB."""
    args = ["-map", f"0:{stream}", "-fps_mode", "passthrough", "-vf", "scale=64:64:flags=bilinear,format=rgb24", "-f", "rawvideo", "-"]
    raw = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-i", str(path), *args], capture_output=True).stdout
    rgb = np.frombuffer(raw, np.uint8)
    return small(rgb[: len(rgb) // 12288 * 12288].reshape(-1, 64, 64, 3))


def small(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Grey 8 x 8 by area means of pictures u8 (n,64,64,3)."""
    grey = rgb.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    means: NDArray[np.float32] = grey.reshape(-1, SIDE, 64 // SIDE, SIDE, 64 // SIDE).mean((2, 4))
    return means


def pack(array: NDArray[np.generic]) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()


def facts_of(path: Path) -> dict[str, object] | None:
    stream = stream_of(path)
    if stream is None:
        return None
    times, pictures = times_of(path, stream), pictures_of(path, stream)
    if not times:
        return None
    facts: dict[str, object] = {"stream": stream, "frames": len(times), "times": pack(np.diff(np.array(times, "<i8"), prepend=0))}
    if len(times) != len(pictures):
        print(f"{path.name}: {len(times)} times, {len(pictures)} pictures")
        return facts
    ticks = np.arange(0, times[-1] + 1, TICK_NS)
    at = np.searchsorted(times, ticks, "right") - 1
    gap = np.abs(np.diff(pictures, axis=0)).mean((1, 2)) if len(times) > 1 else np.zeros(0)
    apart = np.minimum(np.concatenate([[np.inf], gap])[at], np.concatenate([gap, [np.inf]])[at])
    shown = np.rint(pictures[at]).astype(np.uint8)
    facts["pictures"] = pack(np.diff(shown, axis=0, prepend=np.zeros((1, SIDE, SIDE), np.uint8)))  # wraps; so does adding up
    facts["apart"] = pack(np.minimum(np.nan_to_num(apart, posinf=31) * 8, 255).astype(np.uint8))
    return facts


def main(folder: Path) -> None:
    found = {path.name: facts_of(path) for path in sorted(folder.iterdir()) if path.suffix not in (".csv", ".md")}
    OUT.parent.mkdir(exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in found.items() if facts]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} of {len(found)} files, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
