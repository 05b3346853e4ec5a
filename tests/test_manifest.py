"""Manifests from any spreadsheet: what is kept, what is at fault, and how it is said."""

from __future__ import annotations

import csv
import io
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprep import manifest, tables
from hfprep.errors import ManifestError
from hfprep.manifest_values import BadCell, milliseconds_ns, seconds_ns
from hfprep.records import Fault, Manifest


def read(folder: Path, text: str | bytes) -> Manifest:
    file = folder / "m.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return manifest.read(file)


def bad(m: Manifest) -> list[tuple[int, int, str]]:
    return [(f.row, f.line, f.kind) for f in m.faults if not f.warning]


def warned(m: Manifest) -> list[Fault]:
    return [f for f in m.faults if f.warning]


def names(folder: Path, m: Manifest) -> list[tuple[str, str]]:
    return [(c.video.removeprefix(f"{folder}/"), c.label) for c in m.clips]


THREE = [("a.mp4", "sit"), ("b.mp4", "stand"), ("c.mp4", "sit")]


@pytest.mark.parametrize(
    "text",
    [
        "video,label\na.mp4,sit\nb.mp4,stand\nc.mp4,sit\n",
        "video,label\r\na.mp4,sit\r\nb.mp4,stand\r\nc.mp4,sit",
        "video,label\ra.mp4,sit\rb.mp4,stand\rc.mp4,sit\r",
        "video;label\na.mp4;sit\nb.mp4;stand\nc.mp4;sit\n",
        "video\tlabel\na.mp4\tsit\nb.mp4\tstand\nc.mp4\tsit\n",
        "video|label\na.mp4|sit\nb.mp4|stand\nc.mp4|sit\n",
        "sep=;\nvideo;label\na.mp4;sit\nb.mp4;stand\nc.mp4;sit\n",
        "video , label\na.mp4 , sit\n b.mp4, stand \nc.mp4,sit \n",
        "video,label\na.mp4,sit,\nb.mp4,stand,\nc.mp4,sit,\n",
        "video,label,,\na.mp4,sit,,\nb.mp4,stand\nc.mp4,sit,\n",
        "\n,\nVideo,LABEL\n\na.mp4,sit\n , \nb.mp4,stand\n,\nc.mp4,sit\n\n\n",
        '"video","label"\n"a.mp4" ,"sit"\n "b.mp4","stand" \n"c.mp4","sit"\n',
        "label,video\nsit,a.mp4\nstand,./b.mp4\nsit,x/..//c.mp4\n",
        "video,label\na.mp4,\xa0sit\nb.mp4,stand\u200b\nc.mp4,sit\u3000\n",
    ],
)
def test_the_same_three_rows_however_they_are_written(tmp_path: Path, text: str) -> None:
    m = read(tmp_path, text)
    assert [(v.replace("x/..//", ""), label) for v, label in names(tmp_path, m)] == THREE
    assert m.classes == ("sit", "stand")
    assert m.faults == ()
    assert [c.row for c in m.clips] == [1, 2, 3]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    m = read(tmp_path, "video,label\ncafé.mp4,naïve\nb.mp4,sit\n".encode(encoding))
    assert names(tmp_path, m) == [("café.mp4", "naïve"), ("b.mp4", "sit")]
    guessed = encoding in ("utf-16-le", "utf-16-be", "cp1252")  # no mark says what they are
    assert [f.kind for f in m.faults] == (["encoding"] if guessed else [])


def test_labels_are_text(tmp_path: Path) -> None:
    labels = ["NA", "None", "null", "nan", "n/a", "007", "1.0", "True", "1e3", "-", "#1", "50%", "don't", "跌倒"]
    m = read(tmp_path, "video,label\n" + "".join(f"{i}.mp4,{name}\n" for i, name in enumerate(labels)))
    assert [c.label for c in m.clips] == labels
    assert m.classes == tuple(sorted(labels))


def test_quotes(tmp_path: Path) -> None:
    m = read(
        tmp_path, 'video,label\n"a,b.mp4","drink, sit"\n"say ""hi"".mp4","the ""kick"""\n5" pipe.mp4,x\n"two\nlines.mp4",y\nend.mp4,z\n'
    )
    expected = [("a,b.mp4", "drink, sit"), ('say "hi".mp4', 'the "kick"'), ('5" pipe.mp4', "x"), ("two\nlines.mp4", "y"), ("end.mp4", "z")]
    assert names(tmp_path, m) == expected
    assert [c.line for c in m.clips] == [2, 3, 4, 5, 7]


def test_an_unclosed_quote_costs_its_own_row_only(tmp_path: Path) -> None:
    m = read(tmp_path, 'video,label\na.mp4,sit\n"b.mp4,stand\nc.mp4,sit\nd.mp4,"fall\ne.mp4,"run"\nf.mp4,walk\n')
    assert bad(m) == [(2, 3, "bad_row"), (4, 5, "bad_row")]
    assert names(tmp_path, m) == [("a.mp4", "sit"), ("c.mp4", "sit"), ("e.mp4", "run"), ("f.mp4", "walk")]


def test_bad_rows_are_listed_at_once_with_line_and_value(tmp_path: Path) -> None:
    rows = [
        "a.mp4,sit,,",
        ",sit,,",
        "b.mp4,,,",
        "c.mp4,sit,abc,1",
        "d.mp4,sit,0.8,0.2",
        "e.mp4,sit,nan,1",
        "f.mp4,sit,0,inf",
        "g.mp4,sit,1,1,more",
        "h.mp4",
    ]
    m = read(tmp_path, "video,label,start,end\n" + "\n".join(rows) + "\n")
    kinds = ["bad_row", "bad_label", "bad_row", "bad_time_range", "bad_row", "bad_row", "bad_row", "bad_label"]
    assert bad(m) == [(r, r + 1, kind) for r, kind in zip(range(2, 10), kinds)]
    assert names(tmp_path, m) == [("a.mp4", "sit")]
    said = [str(f) for f in m.faults]
    for text, value in zip(said, ["line 3", "b.mp4", "abc", "0.8", "nan", "inf", "more", "h.mp4"], strict=True):
        assert value in text


def test_a_class_keeps_its_number_when_all_its_rows_are_at_fault(tmp_path: Path) -> None:
    m = read(tmp_path, "video,label,start,end\na.mp4,sit,,\nb.mp4,fall,2,1\nc.mp4,walk,,\n")
    assert m.classes == ("fall", "sit", "walk")
    assert m.faults[0].label == "fall"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("video,class\na.mp4,sit\n", "bad_columns", ["'label'", "'video'", "'class'", "did you mean"]),
        ("path,label\na.mp4,sit\n", "bad_columns", ["'video'", "'path'", "did you mean"]),
        ("file_name;category\na.mp4;sit\n", "bad_columns", ["'file_name' to 'video'", "'category' to 'label'"]),
        ("vidoe,label\na.mp4,sit\n", "bad_columns", ["'vidoe' to 'video'"]),
        ("a.mp4,sit\nb.mp4,stand\n", "bad_columns", ["looks like a row", "video,label"]),
        ("video,label,Video\na.mp4,sit,b.mp4\n", "bad_columns", ["more than one", "'video'"]),
        ("video,label\n", "no_rows", ["no rows"]),
        ("video,label\n\n,\n", "no_rows", ["no rows"]),
        ("", "no_rows", ["empty"]),
        (b"PK\x03\x04" + bytes(100), "not_text", ["spreadsheet", "export it as CSV"]),
        (b"PAR1" + bytes(100), "not_text", ["Parquet"]),
        (bytes(range(256)) * 20, "not_text", ["binary"]),
        (b"\xef\xbb\xbfvideo,label\na.mp4,\xff\xfe\n", "not_text", ["UTF-8"]),
    ],
)
def test_faults_of_the_whole_file(tmp_path: Path, text: str | bytes, kind: str, words: list[str]) -> None:
    with pytest.raises(ManifestError) as fault:
        read(tmp_path, text)
    assert fault.value.kind == kind
    for word in words:
        assert word in str(fault.value)


def test_missing_files_folders_and_odd_paths(tmp_path: Path) -> None:
    for path, kind in [(tmp_path / "gone.csv", "missing_file"), (tmp_path, "not_a_file"), ("a\0b", "unreadable")]:
        with pytest.raises(ManifestError) as fault:
            manifest.read(path)
        assert fault.value.kind == kind


def test_a_nul_spoils_its_row_only(tmp_path: Path) -> None:
    m = read(tmp_path, "video,label\n" + "".join(f"{i}.mp4,sit\n" for i in range(50)) + "x\0.mp4,sit\nz.mp4,sit\n")
    assert bad(m) == [(51, 52, "bad_row")]
    assert len(m.clips) == 51


def test_an_endless_cell_spoils_its_row_only(tmp_path: Path) -> None:
    m = read(tmp_path, f"video,label\na.mp4,{'x' * 200_000}\nb.mp4,sit\n")
    assert bad(m) == [(1, 2, "bad_row")]
    assert names(tmp_path, m) == [("b.mp4", "sit")]


def test_times_splits_groups_offsets_and_extra_columns(tmp_path: Path) -> None:
    text = "video,label,start,end,split,group,imu,imu_offset_ms,id,Camera,subject\n"
    text += "a.mp4,sit,0.1,0:00:01.5,Training,s1,i/a.csv,-12.5,first,left,7\n"
    text += "s3://b/k.mp4,sit,,,valid,,,,,,\n"
    first, second = read(tmp_path, text).clips
    assert (first.start_ns, first.end_ns, first.imu_offset_ns) == (100_000_000, 1_500_000_000, -12_500_000)
    assert (first.split, first.group, first.id, first.imu) == ("train", "s1", "first", f"{tmp_path}/i/a.csv")
    assert first.extra == (("Camera", "left"), ("subject", "7"))
    assert (second.video, second.group, second.split, second.id) == ("s3://b/k.mp4", "s3://b/k.mp4", "val", "k")
    assert (second.start_ns, second.end_ns, second.imu) == (0, None, "")


def test_decimal_comma_where_semicolons_separate(tmp_path: Path) -> None:
    m = read(tmp_path, "video;label;start;end\na.mp4;sit;0,5;1,25\n")
    assert (m.clips[0].start_ns, m.clips[0].end_ns) == (500_000_000, 1_250_000_000)
    m = read(tmp_path, 'video,label,start\na.mp4,sit,"1,500"\n')  # one and a half, or fifteen hundred: nobody knows
    assert bad(m) == [(1, 2, "bad_row")]


def test_a_start_before_the_video_is_refused(tmp_path: Path) -> None:
    m = read(tmp_path, "video,label,start,end\na.mp4,sit,-0.5,0.5\nb.mp4,sit,-2,-1\nc.mp4,sit,0,1\n")
    assert bad(m) == [(1, 2, "bad_time_range"), (2, 3, "bad_time_range")] and len(m.clips) == 1
    assert "write 0" in m.faults[0].message


def test_duplicates(tmp_path: Path) -> None:
    text = (
        "video,label,start,end,note\na.mp4,sit,,,\n./a.mp4,sit,,,\na.mp4,sit,1,2,\na.mp4,stand,,,\na.mp4,sit,,,other\na.mp4,sit,1.0,2.00,\n"
    )
    m = read(tmp_path, text)
    assert bad(m) == [(2, 3, "duplicate_row"), (6, 7, "duplicate_row")]
    assert "row 3 (line 4)" in m.faults[-1].message
    assert [c.row for c in m.clips] == [1, 3, 4, 5]
    assert [f.row for f in warned(m)] == [4, 5]


def test_ids_are_unique_and_do_not_change_when_a_row_is_corrected(tmp_path: Path) -> None:
    text = "video,label,start,end,id\nx/a.mp4,sit,,,\ny/a.mp4,sit,,,\nb.tar.mp4,sit,,,\nc.mp4,sit,{},1,a-2\nd.mp4,sit,,,a-2\ne,sit,,,\n"
    m = read(tmp_path, text.format("0"))
    assert [c.id for c in m.clips] == ["a-1", "a-2-2", "b.tar", "a-2", "e"]
    assert bad(m) == [(5, 6, "bad_row")]
    assert [c.id for c in read(tmp_path, text.format("wrong")).clips] == ["a-1", "a-2-2", "b.tar", "e"]


def test_warnings_about_what_was_probably_meant(tmp_path: Path) -> None:
    m = read(tmp_path, "video,label,start_time,subject\na.mp4,Sit,1,p1\nb.mp4,sit,2,p2\nc.mp4,sit down,3,p3\nd.mp4,sit_down,3,p3\n")
    said = " ".join(f.message for f in warned(m))
    for words in ["'start_time'", "did you mean 'start'", "'subject'", "'Sit', 'sit'", "'sit down', 'sit_down'"]:
        assert words in said
    assert bad(m) == []


def test_a_group_in_two_splits_is_told_once(tmp_path: Path) -> None:
    m = read(tmp_path, "video,label,split,group\na.mp4,sit,train,p1\nb.mp4,sit,test,p1\nc.mp4,sit,val,p1\nd.mp4,sit,test,p2\n")
    assert [(f.row, f.kind) for f in m.faults] == [(2, "leak")]
    assert len(m.clips) == 4


def test_unknown_splits_are_at_fault(tmp_path: Path) -> None:
    m = read(tmp_path, "video,label,split\na.mp4,sit,TRAIN\nb.mp4,sit,holdout\nc.mp4,sit,\n")
    assert bad(m) == [(2, 3, "bad_row")]
    assert "'holdout'" in m.faults[0].message
    assert [c.split for c in m.clips] == ["train", ""]


def test_a_group_does_not_depend_on_where_the_folder_lies(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir(), two.mkdir()
    text = "video,label\n./clips//a.mp4,sit\nclips/a.mp4,stand\n"
    groups = [[c.group for c in read(folder, text).clips] for folder in (one, two)]
    assert groups == [["clips/a.mp4", "clips/a.mp4"]] * 2


def test_paths_count_from_the_manifest_and_links_stay_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/link.mp4").symlink_to("real.mp4")
    (tmp_path / "data/m.csv").write_text("video,label\nlink.mp4,sit\nfile:///abs/a%20b.mp4,sit\nsub\\w.mp4,sit\n/abs/c.mp4,sit\n")
    monkeypatch.chdir(tmp_path)
    videos = [c.video for c in manifest.read("data/m.csv").clips]
    assert videos == [f"{tmp_path}/data/link.mp4", "/abs/a b.mp4", f"{tmp_path}/data/sub/w.mp4", "/abs/c.mp4"]


def test_too_many_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "MAX_CLASSES", 2)
    with pytest.raises(ManifestError, match="3 different names"):
        read(tmp_path, "video,label\na,1\nb,2\nc,3\n")


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0), ("1.5", 1_500_000_000), (".5", 500_000_000), ("2.", 2_000_000_000), ("+3", 3_000_000_000), ("0.1", 100_000_000),
        ("1e-3", 1_000_000), ("1.0000000019", 1_000_000_001), ("-0.0000000001", -1), ("00:14.00", 14_000_000_000),
        ("1:02:03.25", 3_723_250_000_000), ("0:00:01,5", 1_500_000_000), ("90:00", 5_400_000_000_000), ("-0:00:01.5", -1_500_000_000),
    ],
)  # fmt: skip
def test_exact_times(text: str, ns: int) -> None:
    assert seconds_ns(text, "start") == ns


@pytest.mark.parametrize(
    "text", ["", ".", "-", "1:60", "1:60:00", "0:0:0:1", "1.2.3", "1,5", "١", "1s", "0x10", "1e99", "9" * 15, "1_000", "inf", "NaN"]
)
def test_no_times(text: str) -> None:
    with pytest.raises(BadCell) as fault:
        seconds_ns(text, "start")
    assert fault.value.kind == "bad_row"
    assert repr(text) in fault.value.message


@given(st.decimals(min_value=-(10**6), max_value=10**6, allow_nan=False, places=None))
@settings(max_examples=200, deadline=None)
def test_times_equal_floored_decimals(value: Decimal) -> None:
    text = format(value, "f")[:40]
    value = Decimal(text)
    assert seconds_ns(text, "start") == int((value * 10**9).to_integral_value(ROUND_FLOOR))
    assert milliseconds_ns(text) == int((value * 10**6).to_integral_value(ROUND_FLOOR))


@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8)), min_size=1, max_size=8),
    st.sampled_from(tables.SEPARATORS),
    st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=150, deadline=None)
def test_whatever_a_csv_writer_writes_is_read_back(rows: list[tuple[str, str]], separator: str, end: str) -> None:
    rows = [(f"{i}{v}.mp4", label) for i, (v, label) in enumerate(rows)]
    rows = [r for r in rows if not any(c in "".join(r) for c in "\0\r") and tables.clean(r) == list(r) and r[1]]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([("video", "label"), *rows])
    found = [tables.clean(cells) for _, cells in tables.records(tables.lines_of(text.getvalue()), separator) if not isinstance(cells, str)]
    assert found[1:] == [list(r) for r in rows]


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_end_in_rows_or_a_manifest_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.csv"
    file.write_bytes(b"video,label,start\na.mp4,sit,1\n" + data)
    try:
        m = manifest.read(file)
    except ManifestError:
        return
    assert len({c.id for c in m.clips}) == len(m.clips)
    assert all(c.video and c.label for c in m.clips)
