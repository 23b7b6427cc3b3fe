"""A recording is whole up to its last line whatever happened to the one who wrote it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from console.base.errors import UsageError
from console.files.recording import KIND, RecordingWriter, read_recording


def written(path: Path, count: int = 200) -> bytes:
    writer = RecordingWriter(path, {"started": 1.0})
    for n in range(count):
        writer.write([float(n), "log", "d", [n] * 20], float(n))
    writer.close()
    writer.close()
    return path.read_bytes()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    data = written(path)
    head, *rows = read_recording(path)
    assert head == {"kind": KIND, "v": 1, "started": 1.0}
    assert [r[0] for r in rows] == [float(n) for n in range(200)]
    assert gzip.decompress(data).count(b"\n") == 201
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_cut_anywhere_leaves_whole_lines(tmp_path: Path) -> None:
    data = written(tmp_path / "a.rec")
    cut = tmp_path / "cut.rec"
    counts = []
    for size in range(100, len(data), 97):
        cut.write_bytes(data[:size])
        rows = list(read_recording(cut))
        assert [r[0] for r in rows[1:]] == [float(n) for n in range(len(rows) - 1)]
        counts.append(len(rows))
    assert counts == sorted(counts) and counts[-1] > 190


def test_a_writer_that_was_killed_left_what_it_flushed(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    writer = RecordingWriter(path, {})
    for n in range(10):
        writer.write([n], n * 3.0)
    assert len(list(read_recording(path))) == 11  # never closed


def test_damage_ends_the_reading_without_an_error(tmp_path: Path) -> None:
    data = bytearray(written(tmp_path / "a.rec"))
    middle = len(data) // 2
    data[middle : middle + 8] = b"\xff" * 8
    bad = tmp_path / "bad.rec"
    bad.write_bytes(bytes(data))
    assert 1 <= len(list(read_recording(bad))) < 201


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"[1]\n"), gzip.compress(b'{"kind":"x"}\n')],
    ids=["empty", "no gzip", "a list", "another kind"],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="no recording"):
        next(read_recording(path))


def test_a_newer_version_and_an_existing_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(json.dumps({"kind": KIND, "v": 99}).encode() + b"\n"))
    with pytest.raises(UsageError, match="newer"):
        next(read_recording(path))
    with pytest.raises(UsageError, match="already"):
        RecordingWriter(path, {})
