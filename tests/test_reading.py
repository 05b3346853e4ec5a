"""docs/reading.md: its blocks run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tickkit import make_ticks

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reading.md"


def test_blocks_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make_ticks(tmp_path / "frames.zarr", [40, 30, 30, 25, 40, 35, 50, 30], count=8, size=8, side=16)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 7
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    said = capsys.readouterr().out
    assert "torch.Size([3, 3, 3, 16, 16]) torch.uint8 torch.Size([3, 3])" in said
    assert "torch.Size([2, 9, 16, 16])" in said and "torch.Size([2, 2, 12, 16, 16])" in said
    assert "64 64 [8, 8]" in said
    assert names["context"].shape == (2, 8, 3, 16, 16)
    assert names["values"].shape == (2, 8, 2)
    assert names["saved"]["done"] == 2
    again = names["again"].state_dict()
    assert again["done"] == len(names["again"]) and again["epoch"] == names["saved"]["epoch"]
