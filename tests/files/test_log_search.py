"""Kept logs: their end, and what is in them, packed or not, whatever bytes they are."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.errors import UsageError
from console.files import log_search, packed
from console.files.archive import pack_logs, read_log
from console.files.log_search import Query, search, tail

LINES = [b"2026-11-30T08:00:%02d.%09dZ rank line %d of a log \xff" % (n % 60, n, n) for n in range(20_000)]
LINES[13_000] = b"2026-11-30T08:00:00.1Z NCCL WARN Timeout waiting for RX"


@pytest.fixture(params=["plain", "packed", "one member"])
def log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log as it is written, as it is packed, and as another gzip packs it."""
    monkeypatch.setattr(packed, "MEMBER_BYTES", 50_000)
    file = tmp_path / "rank0.log"
    file.write_bytes(b"\n".join(LINES) + b"\n")
    if request.param == "plain":
        return file
    if request.param == "packed":
        pack_logs(tmp_path)
        assert len(packed.members(tmp_path / "rank0.log.gz")) > 10
    else:
        (tmp_path / "rank0.log.gz").write_bytes(gzip.compress(file.read_bytes()))
    assert gzip.decompress((tmp_path / "rank0.log.gz").read_bytes()) == b"\n".join(LINES) + b"\n"
    return tmp_path / "rank0.log.gz"


@pytest.mark.parametrize("count", [0, 1, 7, 3000, 20_000, 30_000])
def test_the_end_of_a_log(log: Path, count: int) -> None:
    assert tail(log, count) == (LINES[-count:] if count else [])


def test_what_is_in_a_log(log: Path) -> None:
    def found(text: str, **how: bool) -> list[bytes]:
        return list(search(log, Query(text, **how)))

    assert found("NCCL WARN") == [LINES[13_000]]
    assert found("nccl warn") == [] and found("nccl WARN", ignore_case=True) == [LINES[13_000]]
    assert found(r"warn \S+ WAITING", regex=True, ignore_case=True) == [LINES[13_000]]
    assert found(r"(?P<Kind>warn) .*rx$", regex=True, ignore_case=True) == []  # $ is the end of the text, as in re
    assert found(r"(?P<Kind>warn) .*rx", regex=True, ignore_case=True) == [LINES[13_000]]
    assert found("line 19999 ") == [LINES[19_999]] and found("line 0 ") == [LINES[0]]
    assert found("of a log") == LINES[:13_000] + LINES[13_001:]
    assert found("not in it") == []


def test_an_expression_that_is_none() -> None:
    with pytest.raises(UsageError, match="no regular expression"):
        Query("(", regex=True)
    with pytest.raises(UsageError, match="nothing to look for"):
        Query("")


def test_what_a_damage_left_of_a_packed_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MEMBER_BYTES", 50_000)
    file = tmp_path / "rank0.log"
    file.write_bytes(b"\n".join(LINES) + b"\n")
    pack_logs(tmp_path)
    file = tmp_path / "rank0.log.gz"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 3 // 4])
    last = tail(file, 5)
    assert len(last) == 5 and last[-1] in LINES
    assert list(search(file, Query("NCCL WARN"))) == [LINES[13_000]]
    at = packed.members(file)[2].at + 40
    file.write_bytes(whole[:at] + b"\x00" * 200 + whole[at + 200 :])
    assert list(search(file, Query("line 19999 "))) == [LINES[19_999]]
    assert b"".join(read_log(file)).startswith(LINES[0])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"x")), max_size=30),
    ended=st.booleans(),
    needle=st.binary(min_size=1, max_size=3).map(lambda b: b.replace(b"\n", b"x")),
    count=st.integers(0, 40),
    fold=st.booleans(),
)
def test_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes], ended: bool, needle: bytes, count: int, fold: bool
) -> None:
    """Against the plain way of doing it, with pieces and members of a few bytes."""
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("any")
    file = folder / "rank0.log"
    data = b"\n".join(rows) + (b"\n" if ended else b"")
    file.write_bytes(data)
    lines = data.split(b"\n")
    lines = lines[:-1] if not lines[-1] else lines
    text = needle.decode("latin-1")
    source = text.encode()
    hits = [x for x in lines if (source.lower() in x.lower() if fold else source in x)]
    with patch.context() as at:
        at.setattr(log_search, "_PIECE", 16)
        at.setattr(packed, "MEMBER_BYTES", 16)
        for _ in range(2):
            path = file if file.exists() else folder / "rank0.log.gz"
            assert tail(path, count) == (lines[-count:] if count else [])
            assert list(search(path, Query(text, ignore_case=fold))) == hits
            if file.exists():
                pack_logs(folder)
                assert gzip.decompress((folder / "rank0.log.gz").read_bytes()) == data
