"""`hfprep build` on every awkward-input case of a folder in the format of `cases.toml` (HFPREP_CASES, default ../shared/cases).

No case is known here by its name: what is checked follows from the fields of the index, what is run from its `procedure`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import caseprocedures as procedures
import pytest
from casecheck import check_case
from caserun import Case, Got, Inputs, Ran, hfprep, index_of, options
from conftest import REPO

FOLDER = Path(os.environ.get("HFPREP_CASES", REPO.parent / "shared" / "cases"))
CASES: list[Case] = index_of(FOLDER) if (FOLDER / "cases.toml").is_file() else []

Procedure = Callable[[Case, Path, Path], None]
PROCEDURES: list[tuple[str, Procedure]] = [
    (r"several workers", procedures.many_workers),
    (r"SIGKILL", procedures.killed_and_resumed),
    (r"num_workers", procedures.loader_workers),
    (r"build to the same path", procedures.output_exists),
    (r"one and with four workers", procedures.any_workers),
    (r"another working directory", procedures.elsewhere),
]


@pytest.fixture(scope="session")
def inputs(cases: Path, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inputs]:
    cache = getattr(pytestconfig, "cache", None)
    made = Inputs(cases, cache.mkdir("cases") if cache else tmp_path_factory.mktemp("cases"))
    yield made
    made.close()


def test_the_folder_of_cases_is_there(cases: Path) -> None:
    """One clear skip where it is not; an index without cases would pass everything."""
    assert CASES, f"{cases}/cases.toml lists no case"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['group']}-{case['id']}")
def test_case(case: Case, inputs: Inputs, tmp_path: Path) -> None:
    procedure = case.get("procedure", "")
    if "skip when the effective user is root" in procedure and os.geteuid() == 0:
        pytest.skip("means nothing to root")
    root = inputs.root(case)
    if case["manifest_status"] != "ok":
        run_with_doubtful_manifest(case, root, tmp_path)
        return
    if any("peak_extra_mb_max" in row for row in case.get("rows", [])):
        procedures.memory(case, root, tmp_path)
        return
    for words, run in PROCEDURES:
        if re.search(words, procedure):
            run(case, root, tmp_path)
            return
    procedures.plain(case, root, tmp_path)
    if procedure and "root" not in procedure:
        pytest.skip(f"rows are as expected after a plain build; this harness does not know the procedure {procedure!r}")


def run_with_doubtful_manifest(case: Case, root: Path, tmp_path: Path) -> None:
    """A manifest that must be refused as a whole, or may be: no store that looks finished is left, and the reason is named."""
    out = tmp_path / "out.zarr"
    ran = hfprep("build", root / case["manifest"], "-o", out, *options(case))
    if case["manifest_status"] == "ok_or_error" and ran.code in (0, 3):
        assert not (wrong := check_case(case, Got(out, ran, case["step_ms"]))), "\n".join(wrong)
        return
    check_refusal(case, root, ran, out)


def check_refusal(case: Case, root: Path, ran: Ran, out: Path) -> None:
    from hfprep import build_store
    from hfprep.errors import HfprepError

    assert ran.code == 1, f"exit code {ran.code}: {ran.text}"
    assert not out.exists() or not finished(out), "a refused manifest left a store that looks finished"
    assert case.get("manifest_mention", "") in ran.text
    assert len(ran.text.strip().splitlines()) == 1, f"a fault is one line: {ran.text}"
    with pytest.raises(HfprepError) as caught:
        build_store(root / case["manifest"], out)
    assert caught.value.kind == case["manifest_error"]


def finished(store: Path) -> bool:
    import zarr

    return zarr.open_group(str(store), mode="r").attrs.get("status") == "complete"
