"""Fixtures that many tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        skip = pytest.mark.skip(reason="takes minutes: give --long to run it")
        for item in items:
            if "long" in item.keywords:
                item.add_marker(skip)


def folder(variable: str, default: Path) -> Path:
    path = Path(os.environ.get(variable, default))
    if not path.is_dir():
        pytest.skip(f"{variable}: no folder {path}")
    return path


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real clips and sensor files that lies beside the clone on development machines."""
    return folder("HFPREP_SHARED", REPO.parent / "shared")


@pytest.fixture(scope="session")
def cases() -> Path:
    """Folder with the awkward-input cases (README.md, make_cases.py, cases.toml)."""
    return folder("HFPREP_CASES", REPO.parent / "shared" / "cases")
