"""forms: channel order, the middle frames, mirrored ends, one normalisation for all frames."""

from __future__ import annotations

import doctest
import inspect

import pytest
import torch
from torch import Tensor

from hfprep import forms
from hfprep.errors import UsageError


def batch(b: int = 2, k: int = 7, h: int = 2, w: int = 3) -> Tensor:
    """uint8 (b,k,3,h,w), a channels_last view as the dataset gives it; the pixels of window i, frame j, colour c are 100i + 10j + c."""
    i, j, c = torch.arange(b).view(-1, 1, 1), torch.arange(k).view(1, -1, 1), torch.arange(3)
    values = (100 * i + 10 * j + c).to(torch.uint8)
    return values[:, :, None, None].expand(b, k, h, w, 3).contiguous().permute(0, 1, 4, 2, 3)


def test_examples_of_the_docstrings() -> None:
    assert doctest.testmod(forms).failed == 0


def test_stacked_is_the_middle_frames_earliest_first() -> None:
    stacked = forms.stacked(batch(), 3)
    assert stacked.shape == (2, 9, 2, 3)
    assert stacked.dtype == torch.uint8
    assert stacked[0, :, 0, 0].tolist() == [20, 21, 22, 30, 31, 32, 40, 41, 42]
    assert stacked[1, :, 1, 2].tolist() == [120, 121, 122, 130, 131, 132, 140, 141, 142]


def test_stacked_of_an_even_window_has_the_centre_frame_in_the_middle() -> None:
    assert forms.stacked(batch(k=8), 3)[0, ::3, 0, 0].tolist() == [30, 40, 50]  # the centre of 8 frames is number 4
    assert forms.stacked(batch(k=3), 3)[0, ::3, 0, 0].tolist() == [0, 10, 20]
    assert forms.stacked(batch(k=8), 1)[0, :, 0, 0].tolist() == [40, 41, 42]


@pytest.mark.parametrize("t", [0, 2, 4, 9, -1])
def test_stacked_refuses_what_has_no_middle_or_is_too_long(t: int) -> None:
    with pytest.raises(UsageError, match=f"t = {t}"):
        forms.stacked(batch(), t)


def test_normalise_is_one_mean_and_std_for_all_frames() -> None:
    frames = batch()
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 0.125)
    found = forms.normalise(frames, mean, std)
    assert found.dtype == torch.float32
    for colour in range(3):
        expected = (frames[:, :, colour].double() / 255 - mean[colour]) / std[colour]
        assert torch.allclose(found[:, :, colour].double(), expected, atol=1e-5)
    # a step of brightness between two frames is still there: the same number of units wherever it happens
    steps = found[:, 1:, 0] - found[:, :-1, 0]
    assert torch.allclose(steps, torch.full_like(steps, 10 / 255 / 0.5), atol=1e-5)
    values, before = frames.float(), frames.clone()
    assert torch.equal(forms.normalise(values, mean, std), found)
    assert torch.equal(values, before.float())  # what was given is left alone
    planar = forms.normalise(frames.contiguous(), mean, std)
    assert torch.allclose(planar, found, atol=1e-6)
    assert planar.is_contiguous()


def test_no_mode_with_a_mean_a_frame() -> None:
    """Frames that differ in brightness alone still do so, and there is no option that would change it."""
    assert set(inspect.signature(forms.normalise).parameters) == {"frames", "mean", "std"}
    dark = torch.full((1, 2, 3, 2, 2), 50, dtype=torch.uint8)
    dark[:, 1] = 100
    found = forms.normalise(dark, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    assert torch.allclose(found[:, 0], torch.tensor(50 / 127.5 - 1))
    assert torch.allclose(found[:, 1], torch.tensor(100 / 127.5 - 1))


def test_the_one_operation_of_a_gpu_gives_the_same() -> None:
    """Run here on the CPU, where it is slower but the same operation."""
    scale, shift = torch.tensor([1 / (255 * s) for s in forms.STD]), torch.tensor([-m / s for m, s in zip(forms.MEAN, forms.STD)])
    for frames in (batch(), batch().contiguous(), batch().float(), batch()[:, 0]):
        found, expected = forms._at_once(frames, scale, shift), forms.normalise(frames)
        assert found.dtype == torch.float32
        assert torch.allclose(found, expected, atol=1e-6)
        assert found.stride() == expected.stride()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use")
def test_normalise_on_a_gpu() -> None:
    frames = batch()
    found = forms.normalise(frames.cuda())
    assert found.is_cuda
    assert torch.allclose(found.cpu(), forms.normalise(frames), atol=1e-6)


def test_normalise_keeps_the_memory_format() -> None:
    frames = batch().flatten(0, 1)
    assert frames.is_contiguous(memory_format=torch.channels_last)
    assert forms.normalise(frames).is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(UsageError, match="3 colours"):
        forms.normalise(forms.stacked(batch(), 3))


def test_black_and_white_under_the_usual_statistics() -> None:
    ends = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 3, 1, 1)
    found = forms.normalise(ends).flatten(1)
    assert torch.allclose(found[0], torch.tensor([-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225]), atol=1e-5)
    assert torch.allclose(found[1], torch.tensor([0.515 / 0.229, 0.544 / 0.224, 0.594 / 0.225]), atol=1e-5)


@pytest.mark.parametrize(
    ("clamped", "places"),
    [
        ("...", [0, 1, 2]),
        ("CC...", [4, 3, 2, 3, 4]),
        ("...CC", [0, 1, 2, 1, 0]),
        ("CC..CCC", [2, 3, 2, 3, 2, 3, 2]),  # a clip of two ticks goes to and fro
        ("CCC.C", [3, 3, 3, 3, 3]),
        ("CCC", [0, 1, 2]),
    ],
)
def test_mirrored_ends_come_from_the_window_itself(clamped: str, places: list[int]) -> None:
    flags = torch.tensor([[c == "C" for c in clamped]])
    assert forms.mirrored(flags).tolist() == [places]


def test_keyframe_gives_key_and_context() -> None:
    frames = batch(k=5)
    clamped = torch.tensor([[True, True, False, False, False], [False] * 5])
    key, context = forms.keyframe(frames, clamped)
    assert key[:, 0, 0, 0].tolist() == [20, 120]
    assert context is frames
    marked = clamped.clone()
    key, context = forms.keyframe(frames, clamped, edge="mirror")
    assert torch.equal(clamped, marked)  # mirrored frames are still repeats
    assert key[:, 0, 0, 0].tolist() == [20, 120]
    assert context[:, :, 0, 0, 0].tolist() == [[40, 30, 20, 30, 40], [100, 110, 120, 130, 140]]
    assert context.shape == frames.shape
    with pytest.raises(UsageError, match="'wrap'"):
        forms.keyframe(frames, clamped, edge="wrap")  # type: ignore[arg-type]


def test_volume_is_groups_of_stacked_frames_in_time_order() -> None:
    grouped = forms.volume(batch(k=8))
    assert grouped.shape == (2, 2, 12, 2, 3)
    assert grouped[0, 0, :4, 0, 0].tolist() == [0, 1, 2, 10]
    assert grouped[0, 1, ::3, 0, 0].tolist() == [40, 50, 60, 70]
    with pytest.raises(UsageError, match="8 frames in 3 groups"):
        forms.volume(batch(k=8), 3)
