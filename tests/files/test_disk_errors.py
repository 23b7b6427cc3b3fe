"""What the disk refuses is told as such, whatever it refuses on top."""

from __future__ import annotations

import os
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
