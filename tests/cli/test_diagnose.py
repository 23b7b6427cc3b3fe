"""`nightdeck diagnose`: files, folders and standard input to a verdict, its JSON, its text and its exit code."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.base.errors import FileError, UsageError
from console.cli import cmd_diagnose
from console.cli.out import Out
from console.cli.parser import build_parser
from console.files.evidence_folder import LogFile, find_evidence, rank_of, stream
from tests.enginelog.evidence_of import Boot

FIXTURES = Path(__file__).parent.parent / "fixtures" / "engine-logs"


def run(*names: str | Path, as_json: bool = True) -> tuple[int, str]:
    stdout = io.StringIO()
    args = build_parser().parse_args(["diagnose", *map(str, names)])
    code = cmd_diagnose.run(args, None, Out(as_json=as_json, stdout=stdout, stderr=io.StringIO()))  # type: ignore[arg-type]
    return int(code), stdout.getvalue()


def test_json_of_a_failure() -> None:
    code, text = run(FIXTURES / "composed-fail-block-size.log")
    found = json.loads(text)
    assert code == 1
    assert (found["schema"], found["verdict"], found["others"]) == (1, "failed", [])
    cause = found["cause"]
    assert (cause["class"], cause["rank"], cause["line"], cause["stage"]) == (
        "unsupported_backend_combo",
        0,
        164,
        "kv cache",
    )
    assert cause["file"].endswith("composed-fail-block-size.log")
    assert cause["node"] is None and cause["evidence"] == ["ValueError: No common block size for 64. "]


@pytest.mark.parametrize(
    ("name", "verdict"), [("composed-success.log", "healthy"), ("real-cpu-real-boot.log", "healthy")]
)
def test_a_good_boot_ends_with_zero(name: str, verdict: str) -> None:
    code, text = run(FIXTURES / name)
    found = json.loads(text)
    assert (code, found["verdict"], found["cause"]) == (0, verdict, None)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_log_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    raw = (FIXTURES / "composed-fail-block-size.log").read_bytes()
    # As `cat` of two rotated files: two members, one log.
    (tmp_path / "vllm.log").write_bytes(pack(raw[:5000]) + pack(raw[5000:]))
    cause = json.loads(run(tmp_path / "vllm.log")[1])["cause"]
    assert (cause["class"], cause["line"]) == ("unsupported_backend_combo", 164)
    (tmp_path / "cut.log").write_bytes(pack(raw)[:60] + b"\xff" * 60)
    with pytest.raises(FileError, match="damaged"):
        run(tmp_path / "cut.log")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_log_that_is_cut_is_read_as_far_as_it_goes_and_said_to_be_cut(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    raw = os.urandom(600_000).hex().encode()
    told: list[str] = []

    def unpacked(data: bytes) -> bytes:
        told.clear()
        (tmp_path / "rank0.log").write_bytes(data)
        return b"".join(stream(LogFile("rank0.log", tmp_path / "rank0.log"), io.BytesIO(), told.append))

    whole = pack(raw)
    assert unpacked(whole) == raw and told == []
    assert raw.startswith(unpacked(whole[:-9])) and "rank0.log" in told[0] and "ends before its end" in told[0]
    assert unpacked(whole + b"\0" * 512 + whole) == raw + raw and told == []
    assert unpacked(whole + b"more") == raw and "is not read" in told[0]


def test_a_stream_that_asks_for_gigabytes_gets_none(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    (tmp_path / "a.xz").write_bytes(lzma.compress(b"x", filters=filters))
    with pytest.raises(FileError, match="damaged"):
        run(tmp_path / "a.xz")


@pytest.mark.parametrize(
    ("begins", "words"),
    [(b"\x28\xb5\x2f\xfd", "zstd -dc"), (b"PK\x03\x04", "unzip -p"), (b"\x04\x22\x4d\x18", "lz4 -dc")],
)
def test_what_cannot_be_unpacked_is_said(tmp_path: Path, begins: bytes, words: str) -> None:
    (tmp_path / "vllm.log").write_bytes(begins + b"\0" * 90)
    with pytest.raises(FileError, match=words):
        run(tmp_path / "vllm.log")


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_archive_is_no_log(tmp_path: Path, mode: Any) -> None:
    with tarfile.open(tmp_path / "boot.tar", mode) as archive:
        archive.add(FIXTURES / "composed-success.log", "rank0.log")
    with pytest.raises(FileError, match="a tar archive: unpack it first"):
        run(tmp_path / "boot.tar")


def test_text_for_people() -> None:
    code, text = run(FIXTURES / "composed-fail-rendezvous.log", as_json=False)
    assert code == 1
    assert text.startswith("FAILED\n")
    for words in ("rank 0", "601 s only 7 of 8", "composed-fail-rendezvous.log:42", "DistStoreError", "what now"):
        assert words in text


def test_a_folder_of_evidence(tmp_path: Path) -> None:
    boot = Boot().waiting().no_container(4, 125, "docker: Error response from daemon: No such image: engine:7")
    boot.logs.pop(7)
    for rank, data in boot.logs.items():
        (tmp_path / f"rank{rank}.log").write_bytes(data)
    (tmp_path / "rank7.log.gz").write_bytes(gzip.compress(Boot().waiting().logs[7]))
    (tmp_path / "notes.txt").write_text("not a log of a rank: CUDA out of memory")
    (tmp_path / "states.json").write_text(json.dumps(boot.states()))
    code, text = run(tmp_path)
    cause = json.loads(text)["cause"]
    assert code == 1
    assert (cause["class"], cause["rank"], cause["node"], cause["file"], cause["line"]) == (
        "image_missing",
        4,
        "dgx5",
        None,
        None,
    )


def test_states_alone(tmp_path: Path) -> None:
    boot = Boot()
    boot.end(2, 137)
    (tmp_path / "states.json").write_text(json.dumps(boot.states()))
    code, text = run(tmp_path)
    cause = json.loads(text)["cause"]
    assert (code, cause["class"], cause["rank"]) == (1, "killed_from_outside", 2)


def test_logs_of_several_ranks_by_name(tmp_path: Path) -> None:
    boot = Boot().loading()
    boot.add(
        5,
        "01:53:00",
        "Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    )
    paths = []
    for rank, data in boot.logs.items():
        path = tmp_path / f"boot7-rank{rank}-docker.log"
        path.write_bytes(data)
        paths.append(path)
    code, text = run(*paths)
    cause = json.loads(text)["cause"]
    assert (code, cause["class"], cause["rank"]) == (1, "gpu_oom", 5)
    assert cause["file"] == str(tmp_path / "boot7-rank5-docker.log")
    line = boot.logs[5].split(b"\n")[cause["line"] - 1]
    assert b"OutOfMemoryError" in line


def test_standard_input_and_the_command_as_a_process(tmp_path: Path) -> None:
    data = (FIXTURES / "real-cpu-fail-port-in-use.log").read_bytes()
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    for names in ([], ["-"]):
        done = subprocess.run(
            [sys.executable, "-m", "console", "diagnose", "--json", *names], input=data, capture_output=True, env=env
        )  # fmt: skip
        found = json.loads(done.stdout)
        assert (done.returncode, found["cause"]["class"], found["cause"]["line"]) == (1, "port_in_use", 38)


@pytest.mark.parametrize("make", ["missing", "empty-folder", "bad-json", "bad-gzip", "json-list"])
def test_what_cannot_be_read_ends_with_two(tmp_path: Path, make: str) -> None:
    target = tmp_path / "rank0.log"
    if make == "empty-folder":
        target = tmp_path
    elif make == "bad-json":
        (tmp_path / "states.json").write_text("{")
        target = tmp_path
    elif make == "json-list":
        (tmp_path / "states.json").write_text("[]")
        target = tmp_path
    elif make == "bad-gzip":
        target.write_bytes(gzip.compress(b"x" * 100_000)[:10] + b"\xff" * 300)
    with pytest.raises(FileError) as raised:
        run(target)
    assert raised.value.exit_code == 2


def test_ranks_in_names() -> None:
    names = {
        "rank3.log": 3,
        "boot-rank_12.txt": 12,
        "Rank-7.log.gz": 7,
        "franklin.log": None,
        "head.log": None,
        "rank99999.log": None,
    }
    assert {name: rank_of(name) for name in names} == names


def test_gzip_of_several_members_in_bounded_pieces(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log.gz"
    path.write_bytes(gzip.compress(b"a" * 3_000_000) + gzip.compress(b"b" * 10))
    pieces = list(stream(LogFile("x", path), io.BytesIO()))
    assert b"".join(pieces) == b"a" * 3_000_000 + b"b" * 10
    assert max(map(len, pieces)) <= 1 << 18


def test_nothing_named_is_standard_input() -> None:
    assert find_evidence([]).logs == find_evidence(["-"]).logs == (LogFile("-", None),)


@pytest.mark.parametrize("data", [b"", b"\n \r\n", b"\0" * 99])
def test_an_input_without_a_line_is_no_verdict(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rank0.log").write_bytes(data)
    for what in (tmp_path / "rank0.log", tmp_path):
        with pytest.raises(UsageError, match=r"rank0\.log: holds no line") as said:
            run(what)
        assert said.value.exit_code == 2
