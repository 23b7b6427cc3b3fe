"""A recording is whole up to its last line whatever happened to the one who wrote it."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.errors import UsageError
from console.files import recording
from console.files.recording import KIND, RecordingWriter, checkpoints, read_from, read_recording


def with_checkpoints(path: Path, count: int = 5) -> list[tuple[float, int]]:
    """A hundred rows before each checkpoint; the checkpoints by time and place."""
    writer = RecordingWriter(path, {})
    for n in range(count * 100 + 1):
        now = n * 3.0
        if writer.due(now):
            writer.checkpoint([now, "checkpoint", {"n": n}], now)
        writer.write([now, "log", "d", [n] * 20], now)
    writer.close()
    return list(checkpoints(path))


def test_reading_may_begin_at_any_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    found = with_checkpoints(path)
    assert [at for at, _ in found] == [300.0, 600.0, 900.0, 1200.0, 1500.0]
    for at, place in found:
        first, second, *_ = read_from(path, place)
        assert (first[:2], second[:2]) == ([at, "checkpoint"], [at, "log"])
    told: list[str] = []
    rows = list(read_recording(path, told=told.append))
    assert (len(rows), told) == (1 + 501 + 5, [])
    assert gzip.decompress(path.read_bytes()).count(b"\n") == len(rows)


def test_a_file_of_version_1_has_none_and_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.rec"
    lines = [{"kind": KIND, "v": 1}, *([float(n), "log"] for n in range(50))]
    path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))
    told: list[str] = []
    assert list(read_recording(path, told=told.append)) == lines
    assert (checkpoints(path), told) == ((), [])


def test_damage_is_told_and_passed_over_to_the_next_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    found = with_checkpoints(path)
    data = bytearray(path.read_bytes())
    middle = (found[1][1] + found[2][1]) // 2
    data[middle : middle + 8] = b"\xff" * 8
    path.write_bytes(bytes(data))
    told: list[str] = []
    times = [row[0] for row in read_recording(path, told=told.append) if isinstance(row, list)]
    assert told == ["a part of the recording is damaged; it is read on from the next checkpoint"]
    assert times == sorted(times) and times[-1] == 1500.0
    assert {t for t in times if t >= 900.0} == {n * 3.0 for n in range(300, 501)}
    assert 600.0 < max(t for t in times if t < 900.0) < 897.0


def test_a_cut_is_told_and_the_checkpoints_before_it_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    found = with_checkpoints(path)
    path.write_bytes(path.read_bytes()[: found[3][1] + 200])
    told: list[str] = []
    rows = list(read_recording(path, told=told.append))
    assert rows[-1][0] >= 1200.0
    assert told == [
        "the recording breaks off: it was cut, its console died, or it is still being written; "
        "it is read as far as it goes"
    ]
    assert list(checkpoints(path)) == found[:4]


@pytest.mark.parametrize("length", [100_000, 1_500_000, 3_000_000], ids=["just", "one step", "several"])
def test_a_line_that_is_too_long_is_left_out_and_what_follows_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(recording, "MAX_LINE", 90_000)
    path = tmp_path / "a.rec"
    writer = RecordingWriter(path, {})
    for n in range(5):
        writer.write([float(n), "log"], float(n))
    writer.checkpoint([5.0, "checkpoint", {"states": [noise(length)]}], 5.0)
    for n in range(6, 10):
        writer.write([float(n), "log"], float(n))
    writer.close()
    for place, before in ((0, [0.0, 1.0, 2.0, 3.0, 4.0]), (checkpoints(path)[0][1], [])):
        told: list[str] = []
        rows = [row[0] for row in read_from(path, place, told=told.append) if isinstance(row, list)]
        if told:
            assert told == ["a line of more than 0 MiB is left out"]
            rows.insert(len(before), 5.0)
        else:  # it came whole in one step of the inflating, and costs no more than that
            assert length < 1 << 20
        assert rows == [*before, 5.0, 6.0, 7.0, 8.0, 9.0]


def test_damage_in_a_long_line_is_read_to_in_a_few_steps(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    writer = RecordingWriter(path, {})
    writer.write([0.0, "log"], 0.0)
    writer.checkpoint([5.0, "checkpoint", {"states": [noise(2_000_000)]}], 5.0)
    writer.checkpoint([6.0, "checkpoint", {}], 6.0)
    writer.close()
    ((_, first), (_, second)) = checkpoints(path)
    data = bytearray(path.read_bytes())
    middle = (first + second) // 2
    data[middle : middle + 20_000] = random.Random(8).randbytes(20_000)
    path.write_bytes(bytes(data))
    told: list[str] = []
    with path.open("rb") as source:
        steps = list(recording._inflated(source, first, told.append))
    assert len(told) == 1 and len(steps) < 60, "each step is looked at together with what came before it"
    assert sum(len(step) for step in steps if step is not None) > 500_000, "up to the damage it is read"
    assert [row[0] for row in read_from(path, first) if isinstance(row, list)][-1] == 6.0


def test_a_member_that_swells_a_thousandfold_ends_and_the_next_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    writer = RecordingWriter(path, {})
    for n in range(100):
        writer.write([float(n), "log", "x" * 60_000], float(n))
    writer.checkpoint([100.0, "checkpoint", {}], 100.0)
    writer.close()
    told: list[str] = []
    rows = itertools.islice(read_recording(path, told=told.append), 1000)
    assert [row[0] for row in rows if isinstance(row, list)] == [float(n) for n in range(101)] and told == []


def noise(length: int) -> str:
    """Text that does not shrink to nothing."""
    return random.Random(7).randbytes(length // 2).hex()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_no_damage_makes_the_reader_fail_or_invent(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("r") / "a.rec"
    with_checkpoints(path, 2)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at : at + 4] = data.draw(st.binary(min_size=0, max_size=8))
    path.write_bytes(bytes(content))
    places = [0, *(place for _, place in checkpoints(path))]
    for place in places:
        for row in read_from(path, place, told=lambda why: None):
            assert isinstance(row, (list, dict, int, float, str, bool)) or row is None


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
    assert head == {"kind": KIND, "v": 2, "started": 1.0}
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
