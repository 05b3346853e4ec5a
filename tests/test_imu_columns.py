"""Sensor files as apps and loggers write them: what was recognised, in which units, and every layout of the real files.

Expected numbers are the files' own first lines, read by eye.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hfprep import imu, pipeline
from hfprep.errors import ClipError
from hfprep.imu_table import date_ns
from hfprep.pipeline import ImuFormat
from hfprep.records import Clip, Sensor

G = 9.80665
DEGREE = math.pi / 180


def write(folder: Path, text: str | bytes, name: str = "sensor.csv") -> str:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


def first(sensor: Sensor) -> dict[str, float]:
    return {name: round(float(sensor.values[0, i]), 5) for i, name in enumerate(sensor.axes)}


# --- real files ------------------------------------------------------------------------------------------------------------------

# file -> rows (None: cut by repairs), first two times in ns, first values
READ = {
    "androsensor_stairs/Downstairs1.csv":
        (232, (12_000_000, 511_000_000), {"ax": -4.3214, "lin_ay": 0.0316, "grav_z": 8.3578, "gz": 0.3487, "mz": -16.14}),
    "comma2k19_npy/accelerometer_value.npy":
        (6256, (46_408_580_034_290, 46_408_589_616_810), {"ax": 1.07437, "ay": -0.12921, "az": -9.54497}),
    "metamotion/Accelerometer.csv":
        (4578, (0, 10_000_000), {"ax": -0.061 * G, "ay": 0.991 * G, "az": 0.036 * G}),
    "metawear_pill/base_accel.csv":
        (None, (1518705124826000000, 1518705251675000000), {"ax": -0.042, "ay": 0.253, "az": 1.023}),
    "metawear_pill/base_gyro.csv":
        (None, (1518705251625000000, 1518705251725000000), {"gx": -126.341, "gy": -215.122, "gz": 98.415}),
    "ms_xyz/Accelerometer.csv":
        (1156, (2_000_000, 12_000_000), {"ax": 1.91025, "ay": 6.78123, "az": 7.68640}),
    "opencamera_gyro/gyro_0-session_0.csv":
        (2370, (690_644_433_293_611, 690_644_435_267_611), {"gx": 1.21072, "gy": -3.81247, "gz": -0.72287}),
    "phyphox_gait/Accelerometer_2.csv":
        (3316, (9_783_166, 29_898_166), {"ax": 9.91044, "ay": -0.55310, "az": -2.11570}),
    "phyphox_semicolon/Linear Acceleration.csv":
        (6892, (150_071_388, 167_783_241), {"lin_ax": -0.40708, "lin_ay": -0.08207, "lin_az": -0.16251}),
    "sensorlogger_basketball/Accelerometer.csv":
        (4211, (19_942_871, 29_989_990), {"ax": -0.09162, "ay": 0.83792, "az": 0.15040}),
    "sensorlogger_squats/Gyroscope.csv":
        (3063, (73_869_873, 83_892_089), {"gx": -0.37280, "gy": 0.13791, "gz": -0.08321}),
    "sensorrecord/Accelerometer.csv":
        (3163, (2_000_000, 11_000_000), {"ax": -0.21070, "ay": 7.43183, "az": 5.92344}),
    "tumvi_euroc/mav0_imu0_data.csv":
        (30, (1548685904964781323, 1548685904969760323), {"gx": -0.04928, "gz": -0.00320, "ax": 9.66338, "az": 0.95258}),
    "two_header_lines/accelerometer_1.csv":
        (9214, (1279034942000000, 1279034944000000), {"ax": 1.96325, "ay": 2.26970, "az": 9.35654}),
    "two_header_lines/gyroscope_2.csv":
        (8237, (1279035037000000, 1279035039000000), {"gx": -0.00742, "gy": 0.01227, "gz": 0.02957}),
    "txyz_quoted/Gyroscope.csv":
        (1819, (8_547_250, 18_624_249), {"gx": -0.06151, "gy": -0.06603, "gz": 0.02339}),
    "unsorted_lowprec/Accelerometer.csv":
        (None, (300_000_000, 600_000_000), {"ax": -0.569, "ay": -0.173, "az": 9.75}),
    "ximu3_fusion/sensor_data.csv":
        (4842, (0, 10_078_907), {"gx": 0.01644619 * DEGREE, "ax": 0.001015204 * G, "az": 0.9970807 * G, "mx": 15.3017}),
}  # fmt: skip
# layouts that cannot be told, and a word of the refusal
REFUSED = {
    "comma2k19_npy/gyro_value.npy": "gyro_t.npy",
    "gpmf_raw/hero7.raw": "binary",
    "metawear_pill/led_sync.csv": "6 columns without names",
    "percent_comments/Nudge.txt": "SampleNumber",
    "picoquake/car_vibration.csv": "rate_hz = 2000",
    "uzhfpv_txt/imu.txt": "8 columns without names",
}


@pytest.mark.parametrize("name", READ)
def test_real_files_read_right(shared: Path, name: str) -> None:
    rows, times, values = READ[name]
    sensor = imu.read(str(shared / "real/imu" / name))
    assert rows is None or len(sensor.time_ns) == rows
    assert sensor.time_ns[:2].tolist() == pytest.approx(times, abs=10 if name.endswith(".npy") else 0)  # numpy prints 10 ns
    found = first(sensor)
    assert {axis: found.get(axis) for axis in values} == pytest.approx(values, abs=2e-5)
    assert any(note.startswith(imu.READ_AS) for note in sensor.notes)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_told_is_refused_with_a_way_out(shared: Path, name: str) -> None:
    with pytest.raises(ClipError, match=REFUSED[name]) as fault:
        imu.read(str(shared / "real/imu" / name))
    assert fault.value.kind == "imu_bad"
    assert fault.value.where.endswith(name.rpartition("/")[2])


def test_refused_files_read_with_a_layout(shared: Path) -> None:
    folder = shared / "real/imu"
    axes = dict(zip(("gx", "gy", "gz", "ax", "ay", "az"), "345678", strict=True))
    uzh = imu.read(str(folder / "uzhfpv_txt/imu.txt"), ImuFormat(time=("2",), unit="s", columns=axes))
    assert uzh.time_ns[:2].tolist() == [4908696301000, 4908698298000]
    assert first(uzh) == pytest.approx(
        {"gx": 0.13742, "gy": -0.07137, "gz": 0.00639, "ax": 1.74776, "ay": -3.74930, "az": 6.31108}, abs=2e-5
    )
    quake = imu.read(str(folder / "picoquake/car_vibration.csv"), ImuFormat(rate_hz=2000, units={"acc": "g", "gyro": "deg/s"}))
    assert quake.axes == ("ax", "ay", "az", "gx", "gy", "gz")
    assert quake.time_ns[:3].tolist() == [0, 500_000, 1_000_000]
    assert quake.units == ("m/s2",) * 3 + ("rad/s",) * 3
    nudge = imu.read(str(folder / "percent_comments/Nudge.txt"), ImuFormat(rate_hz=100))
    assert first(nudge) == {"mx": 383, "my": -25, "mz": 585, "ax": 2, "ay": 2, "az": 353}


def test_utd_mhad(shared: Path) -> None:
    pytest.importorskip("scipy")
    from scipy.io import loadmat

    path = str(shared / "real/imu/utd_mhad/a1_s1_t1_inertial.mat")
    written = loadmat(path)["d_iner"]
    sensor = imu.read(path)
    assert sensor.time_ns.tolist() == [20_000_000 * i for i in range(len(written))]
    np.testing.assert_allclose(sensor.values[:, :3], written[:, :3] * G, rtol=1e-6)
    np.testing.assert_allclose(sensor.values[:, 3:], written[:, 3:] * DEGREE, rtol=1e-6)


def test_gopro(shared: Path) -> None:
    """Counts and rates are those of the file's index: GYRO 1589 samples, ACCL 794, in 4 packets of 1.001 s."""
    sensor = imu.read(str(shared / "real/clips/gopro_hero5_karma_0-4s.mp4"))
    assert sensor.axes == ("ax", "ay", "az", "gx", "gy", "gz")
    assert sensor.units == ("m/s2",) * 3 + ("rad/s",) * 3
    assert np.isfinite(sensor.values[:, 0]).sum() == 794
    assert np.isfinite(sensor.values[:, 3]).sum() == 1589
    assert sensor.time_ns[0] == 0
    assert 4_000_000_000 < sensor.time_ns[-1] < 4_004_000_000
    assert float(np.nanmean(sensor.values[:, 2])) == pytest.approx(G, rel=0.1)  # z is up, and the camera stands upright


def test_gopro_payloads_turn_the_axes_as_the_stream_says(shared: Path) -> None:
    from hfprep import gpmf

    whole = (shared / "real/imu/gpmf_raw/hero7.raw").read_bytes()
    found = gpmf.samples(whole[: 8 + int.from_bytes(whole[6:8]) * whole[5]])
    assert [(s.key, s.count) for s in found] == [("ACCL", 189), ("GYRO", 189)]
    raw = np.frombuffer(bytes.fromhex("f29d0157065f"), ">i2") / 418  # ORIN "YxZ": y, minus x, z; SCAL 418
    assert found[0].values is not None
    np.testing.assert_allclose(found[0].values[0], [-raw[1], raw[0], raw[2]], rtol=1e-5)
    with pytest.raises(gpmf.BadPayload):
        gpmf.samples(whole[:1000])


# --- layouts ---------------------------------------------------------------------------------------------------------------------


def test_decimal_commas_and_semicolons(tmp_path: Path) -> None:
    sensor = imu.read(write(tmp_path, "Zeit;time [ms];acc_x [g];acc_y [g];acc_z [g]\nx;0,0;0,5;0;1\nx;12,5;1,5;0;1\n"))
    assert sensor.time_ns.tolist() == [0, 12_500_000]
    assert first(sensor) == pytest.approx({"ax": 0.5 * G, "ay": 0, "az": G}, abs=1e-4)


def test_dates(tmp_path: Path) -> None:
    text = "timestamp,gx\n2022-10-22 18:36:24:895,1\n2022-10-22 18:36:25.394,2\n2022-10-22T20:36:25.5+02:00,3\n"
    assert (imu.read(write(tmp_path, text)).time_ns - 1_666_463_784_000_000_000).tolist() == [895_000_000, 1_394_000_000, 1_500_000_000]
    assert date_ns(["2022-13-01 00:00:00", "", "1970-01-01 00:00:01Z"])[1].tolist() == [False, False, True]
    with pytest.raises(ClipError, match=r"line 3.*not a date"):
        imu.read(write(tmp_path, "timestamp,gx\n2022-10-22 18:36:24,1\nyesterday,2\n2022-10-22 18:36:26,2\n"))


def test_two_time_columns_add_up(tmp_path: Path) -> None:
    path = write(tmp_path, "sec,nsec,ax\n100,999999999,1\n101,5,2\n")
    how = ImuFormat(time=("sec", "nsec"), unit=("s", "ns"), origin="start")
    assert imu.read(path, how).time_ns.tolist() == [0, 6]
    assert imu.read(path, how.model_copy(update={"origin": "video"})).time_ns.tolist() == [100_999_999_999, 101_000_000_005]


def test_names_of_axes_in_many_spellings(tmp_path: Path) -> None:
    for names, axes in {
        "Acc_X,Acc_Y,Acc_Z,Gyr_X,Gyr_Y,Gyr_Z": "ax ay az gx gy gz",
        "accelerometer.x,accelerometer.y,accelerometer.z,gyroscope.x,gyroscope.y,gyroscope.z": "ax ay az gx gy gz",
        "AccelX,AccelY,AccelZ,GyroX,GyroY,GyroZ": "ax ay az gx gy gz",
        "Angular velocity x (rad/s),Angular velocity y (rad/s),Angular velocity z (rad/s),mag_x,mag_y,mag_z": "gx gy gz mx my mz",
        "linear_acceleration_x,linear_acceleration_y,linear_acceleration_z,gravity_x,gravity_y,gravity_z":
            "lin_ax lin_ay lin_az grav_x grav_y grav_z",
        "X (m/s^2),Y (m/s^2),Z (m/s^2),accuracy,status,count": "ax ay az",
    }.items():  # fmt: skip
        sensor = imu.read(write(tmp_path, f"time,{names}\n0,1,2,3,4,5,6\n0.1,1,2,3,4,5,6\n"))
        assert " ".join(sensor.axes) == axes
        assert sensor.values[0, :3].tolist() == [1, 2, 3]


def test_our_own_plain_form_keeps_every_column(tmp_path: Path) -> None:
    sensor = imu.read(write(tmp_path, "t,ax,heart rate\n0,1,70\n2,1,71\n"))
    assert sensor.axes == ("ax", "heart rate")
    assert sensor.time_ns.tolist() == [0, 2_000_000_000]
    assert sensor.notes == ()


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"timestamp": pyarrow.array([5, 15], pyarrow.timestamp("ms")), "acc_x": [1.5, None], "acc_y": [2, 3], "device": ["a", "a"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    sensor = imu.read(str(tmp_path / "x.parquet"))
    assert sensor.axes == ("ax", "ay")
    assert sensor.time_ns.tolist() == [5_000_000, 15_000_000]
    np.testing.assert_array_equal(sensor.values, np.array([[1.5, 2], [np.nan, 3]], np.float32))
    (tmp_path / "y.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ClipError, match=r"y\.parquet"):
        imu.read(str(tmp_path / "y.parquet"))


def test_files_of_two_rates_stand_side_by_side(tmp_path: Path) -> None:
    acc = write(tmp_path, "t,ax\n0,0\n0.1,1\n0.2,2\n", "acc.csv")
    gyro = write(tmp_path, "t,gx\n0.05,5\n0.1,10\n0.15,15\n", "gyro.csv")
    sensor = imu.read(f"{acc}|{gyro}")
    assert sensor.time_ns.tolist() == [0, 50_000_000, 100_000_000, 150_000_000, 200_000_000]
    found = imu.align(sensor, np.array([60_000_000, 170_000_000]), axes=("ax", "gx"), max_gap_ns=10**9)
    np.testing.assert_allclose(found.values, [[0.6, 6], [1.7, np.nan]], rtol=1e-6)
    with pytest.raises(ClipError, match="'ax' is in two"):
        imu.read(f"{acc}|{acc}")


def test_drift_and_mean() -> None:
    times = np.arange(0, 10_001, 10, dtype=np.int64) * 1_000_000
    line = Sensor(times, (times / 1e9).astype(np.float32)[:, None], ("ax",))
    asked = np.array([0, 5_000_000_000])
    slow = imu.align(line, asked, axes=("ax",), max_gap_ns=10**9, drift_ppm=1000)
    np.testing.assert_allclose(slow.values[:, 0], [0, 5 / 1.001], rtol=1e-6)
    square = Sensor(times, ((times / 1e9) ** 2).astype(np.float32)[:, None], ("ax",))
    mean = imu.align(square, np.array([5_000_000_000, 0, 10_000_000_000]), axes=("ax",), max_gap_ns=10**9, mean_ns=2_000_000_000)
    assert mean.values[:, 0].tolist() == pytest.approx([25 + 1 / 3, 0, 100], rel=1e-4)  # mean of t^2 over [4, 6]; nothing beyond the ends


def test_a_layout_file_named_by_the_row(tmp_path: Path) -> None:
    data = write(tmp_path, "a b\n1 10\n2 20\n", "x.txt")
    layout = write(tmp_path, 'time = "a"\nunit = "ms"\ncolumns = { ax = "b" }\nunits = { ax = "g" }\n', "x.toml")
    clip = Clip(1, 2, "c", "v.mp4", "sit", imu=data, imu_layout=layout)
    sensor = imu.of_clip(clip, pipeline.Pipeline().imu)
    assert sensor.time_ns.tolist() == [1_000_000, 2_000_000]
    assert first(sensor) == {"ax": pytest.approx(10 * G, rel=1e-5)}
    Path(layout).write_text('tmie = "a"\n')
    with pytest.raises(ClipError, match="time") as fault:
        imu.of_clip(clip, pipeline.Pipeline().imu)
    assert fault.value.kind == "imu_layout"


def test_layout_keys_are_checked() -> None:
    for overrides, words in ((("imu.rate_hz=50", "imu.time=t"), "not both"), (('imu.unit=["s","ns"]', "imu.time=t"), "2 units for 1")):
        with pytest.raises(Exception, match=words):
            pipeline.load(None, overrides)
    assert pipeline.load(None, ("imu.columns.ax=2",)).imu.columns == {"ax": "2"}
