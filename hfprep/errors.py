"""Faults that people can act on: what is wrong, the value seen, where, and what to do."""

from __future__ import annotations


class HfprepError(Exception):
    """One fault, told in one line.

    what    what is wrong, with the value seen
    where   file, row, key or store it concerns
    remedy  what to do about it
    kind    a short stable name (`not_a_video`, `bad_label`, ...), for programs and tests

    >>> str(HfprepError("no column named 'label'", where="m.csv", remedy="add one"))
    "m.csv: no column named 'label'; add one"
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", remedy: str = "", kind: str = "error") -> None:
        super().__init__(what)
        self.what, self.where, self.remedy, self.kind = what, where, remedy, kind

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.remedy}" if self.remedy else text

    def __reduce__(self) -> tuple[object, ...]:  # exceptions with keyword arguments do not pickle by themselves
        return _rebuild, (type(self), self.what, self.where, self.remedy, self.kind)


def _rebuild(cls: type[HfprepError], what: str, where: str, remedy: str, kind: str) -> HfprepError:
    return cls(what, where=where, remedy=remedy, kind=kind)


class UsageError(HfprepError):
    """The command, an option or a pipeline key is wrong: exit code 2."""

    exit_code = 2


class ManifestError(HfprepError):
    """The whole manifest cannot be used (kinds: `bad_columns`, `bad_row`, `no_rows`, `missing_file`, ...)."""


class ClipError(HfprepError):
    """One clip cannot be prepared; the rest of the run goes on.

    Kinds: missing_file, not_a_file, empty_file, permission, not_a_video, no_video_stream, no_frames, no_timestamps,
    bad_timestamps, truncated, damaged, bad_time_range, unsupported_path, imu_missing, imu_bad, imu_no_overlap, timeout,
    crashed, too_large, changed.
    """


class StoreError(HfprepError):
    """A store cannot be read, written or continued (kinds: `not_a_store`, `incomplete`, `differs`, `exists`, ...)."""
