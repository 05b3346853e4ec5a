"""`hfprep manifest`: make a manifest of what lies in folders, or of a published annotation."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

_out = click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("manifest.csv"), show_default=True, help="The manifest to write."
)
_overwrite = click.option("--overwrite", is_flag=True, help="Replace a manifest that is there.")
_json = click.option("--json", "as_json", is_flag=True, help="What was done as JSON on stdout.")


@click.group(epilog="Example: hfprep manifest from-folder videos/ -o videos.csv")
def manifest() -> None:
    """Make a manifest, the list of videos and labels that `hfprep build` reads."""


@manifest.command("from-folder", epilog="Example: hfprep manifest from-folder UCF-101/ -o ucf101.csv")
@click.argument("folder", type=click.Path(path_type=Path))
@_out
@click.option("--fps", default="", metavar="RATE", help="Frames a second of folders of numbered pictures, which then count as videos.")
@_overwrite
@_json
def from_folder(folder: Path, out: Path, fps: str, overwrite: bool, as_json: bool) -> int:
    """List the videos of FOLDER: the folder that holds a video names its class.

    Folders train, val and test (also above or below the class) give the split; names as in UCF101 (v_Class_g07_c02.avi) give the
    group, so that clips of one recording stay in one split.
    """
    from ..folders import from_folder as listed

    _check_out(out, overwrite)
    made = listed(folder, out, fps=fps)
    made.write(out)
    if as_json:
        told = {"manifest": str(out), "videos": len(made.rows), "classes": sorted({row[1] for row in made.rows}), "notes": made.notes}
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return 0
    click.echo(f"{out}: {len(made.rows)} rows")
    for note in made.notes:
        click.echo(f"  {note}")
    click.echo(f"next: hfprep build {out}")
    return 0


KINDS = (
    "ucf101", "hmdb51", "kinetics", "something", "jester", "epic-kitchens", "ava", "multisports", "activitynet", "charades",
    "mmaction", "ego4d", "utd-mhad", "ut-interaction", "lerobot",
)  # fmt: skip  # a test holds them to the importers, which are loaded only when one runs


@manifest.command("from", epilog="Example: hfprep manifest from ucf101 ucfTrainTestlist/ --videos UCF-101/ -o ucf101.csv")
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--videos", type=click.Path(path_type=Path), help="Folder of the videos, searched by name. [default: that of SOURCE]")
@_out
@click.option("--split", type=click.Choice(["train", "val", "test"]), help="Split of all rows, where the annotation does not say it.")
@click.option("--fold", type=click.IntRange(min=1), default=1, show_default=True, help="Which official split of UCF101 or HMDB51.")
@click.option("--labels", type=click.Path(path_type=Path), help="Names of numbered classes. [default: the file beside SOURCE]")
@click.option("--fps", default="", metavar="RATE", help="Frames a second of folders of pictures, and of lists that count in frames.")
@click.option("--form", type=click.Choice(["offset", "rawvideo"]), help="Form of an mmaction list that the file cannot tell.")
@click.option(
    "--target", type=click.Choice(["verb", "noun", "action"]), default="verb", show_default=True, help="Class of EPIC-KITCHENS, Ego4D."
)
@click.option("--keep-missing", is_flag=True, help="Keep the rows of videos that are not there, as if they lay in --videos.")
@_overwrite
@_json
def from_kind(
    kind: str,
    source: Path,
    videos: Path | None,
    out: Path,
    split: str | None,
    fold: int,
    labels: Path | None,
    fps: str,
    form: str | None,
    target: str,
    keep_missing: bool,
    overwrite: bool,
    as_json: bool,
) -> int:
    """Make a manifest of a published annotation: SOURCE is its file or folder, KIND what it is.

    \b
    ucf101          trainlist01.txt, testlist01.txt, or their folder
    hmdb51          NAME_test_split1.txt, or their folder
    kinetics        CSV; videos are ID_000010_000020.mp4, or whole as ID.mp4
    something       something-something-v2-train.json (Something-Something v2)
    jester          CSV id;label, or a list with classInd.txt
    epic-kitchens   EPIC_100_train.csv, EPIC_train_action_labels.csv (100 and 55)
    ava             ava_train_v2.2.csv: time and labels, without the boxes
    multisports     multisports_GT.pkl: time and label, without the boxes
    activitynet     JSON of ActivityNet, HACS and Captions; CSV of HACS clips
    charades        Charades_v1_train.csv, charades_sta_train.txt
    mmaction        lists of mmaction2: video, rawframe, several labels, --form offset
    ego4d           moments, fho_lta and nlq JSON
    utd-mhad        a list of takes, or the folder of RGB videos; with inertial files
    ut-interaction  ut-interaction_labels_110912.xls
    lerobot         folder of a LeRobot v3 data set

    Videos that are not there are counted, listed and left out.
    """
    from ..importers import import_rows
    from ..importers.rows import ImportOptions
    from ..listing import write

    _check_out(out, overwrite)
    options = ImportOptions(str(labels or ""), fps, split or "", form or "", target, fold)
    made = import_rows(kind, source, out, videos=videos, options=options, keep_missing=keep_missing)
    write(out, made.text())
    if as_json:
        classes = sorted({label for row in made.rows for label in row[1].split("|")})
        told = {"manifest": str(out), "rows": len(made.rows), "classes": classes, "missing": made.missing, "notes": made.notes}
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return 0
    click.echo(f"{out}: {len(made.rows)} rows")
    for note in made.notes:
        click.echo(f"  {note}")
    click.echo(f"next: hfprep build {out}")
    return 0


def _check_out(out: Path, overwrite: bool) -> None:
    from ..errors import UsageError

    if os.path.lexists(out) and not out.is_file():
        raise UsageError("is no file that could be replaced", where=str(out), remedy="give another name with -o", kind="exists")
    if out.is_file() and not overwrite:
        raise UsageError(
            "a file is there already", where=str(out), remedy="give --overwrite to replace it, or another name with -o", kind="exists"
        )
