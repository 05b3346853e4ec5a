"""How long `hfprep --help` takes: median wall time of fresh processes, beside a bare interpreter on the same machine.

    python benchmarks/startup.py [RUNS]

The goal is 0.3 s on an idle machine. The first run of each is left out: it compiles.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import hfprep": [sys.executable, "-c", "import hfprep"],
    "hfprep --version": [sys.executable, "-m", "hfprep", "--version"],
    "hfprep --help": [sys.executable, "-m", "hfprep", "--help"],
    "hfprep build --help": [sys.executable, "-m", "hfprep", "build", "--help"],
}


def median_seconds(command: list[str], runs: int) -> float:
    """Median wall time of `runs` runs after one that does not count."""
    times = []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    for name, command in COMMANDS.items():
        print(f"{name:22} {median_seconds(command, number):.3f} s")
