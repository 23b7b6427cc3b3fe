"""What the disk refuses is told as such, whatever it refuses on top."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from console.files.atomic import Appender, DiskError, write_whole


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def broken(*_: object, **__: object) -> None:
    raise OSError(5, "Input/output error")


def test_the_first_error_is_told_where_taking_back_fails_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Appender(tmp_path / "log", lines=True)
    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(os, "ftruncate", broken)
    with pytest.raises(DiskError, match="No space left on device"):
        log.append(b"a line\n", flush=True)
    monkeypatch.setattr(Path, "unlink", broken)
    with pytest.raises(DiskError, match="No space left on device"):
        write_whole(tmp_path / "file", b"x")
    monkeypatch.undo()
    log.close()


def test_a_file_that_is_refused_when_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Appender(tmp_path / "log", lines=True)
    descriptor = log._descriptor
    with monkeypatch.context() as patched:
        patched.setattr(os, "close", full)
        with pytest.raises(DiskError, match="No space left on device"):
            log.close()
    os.close(descriptor)


def test_two_threads_that_write_one_file_leave_the_one_or_the_other_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_wrote = threading.Barrier(2)
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            both_wrote.wait(timeout=30)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    (folder := tmp_path / "folder").mkdir()
    texts = (b"a" * 300_000, b"b" * 100_000)
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(write_whole, folder / "file", text) for text in texts]:
            done.result(timeout=30)
    assert (folder / "file").read_bytes() in texts
    assert [p.name for p in folder.iterdir()] == ["file"]
