"""One link of an image's chain alone: who may connect, what a cut looks like, and that nothing outlives its orders."""

from __future__ import annotations

import contextlib
import hmac
import io
import json
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.probe.tar_filter import Filter
from console.services.image_chain import program

TOKEN = bytes(range(32))


class Relay:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def order(self, **words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, *names: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            row: dict[str, Any] = json.loads(line)
            if set(names) & row.keys():
                return row
        raise AssertionError(f"ended without {names}")


@contextmanager
def relay(**start: Any) -> Iterator[Relay]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", program().decode()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        link = Relay(process)
        link.order(do="start", token=TOKEN.hex(), **start)
        yield link
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def connect(port: int, token: bytes = TOKEN) -> tuple[socket.socket, bool]:
    """As the next link does: answer the other side's challenge, and put one."""
    sock = socket.create_connection(("127.0.0.1", port), 5)
    challenge = exactly(sock, 32)
    mine = b"m" * 32
    sock.sendall(mine + hmac.digest(token, b"down" + challenge, "sha256"))
    answer = exactly(sock, 32)
    return sock, answer == hmac.digest(token, b"up" + mine, "sha256")


def exactly(sock: socket.socket, n: int) -> bytes:
    """MSG_WAITALL waits for nothing on a socket that has a timeout."""
    data = b""
    with contextlib.suppress(ConnectionResetError):  # whoever does not know the token is cut off, one way or the other
        while len(data) < n and (block := sock.recv(n - len(data))):
            data += block
    return data


def read_all(sock: socket.socket) -> bytes:
    """To the end of the connection, whichever way it ends: what was sent unread makes it a reset."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while block := sock.recv(65536):
            data += block
    return data


def test_a_source_sends_frames_with_an_end_to_who_knows_the_token() -> None:
    with relay(role="source", listen="127.0.0.1", argv=["printf", "image"]) as link:
        port = link.until("port")["port"]
        wrong, _ = connect(port, b"x" * 32)
        assert read_all(wrong) == b""  # nothing but the end of the connection
        sock, proven = connect(port)
        assert proven
        assert exactly(sock, 9) == b"\0\0\0\5image"
        assert exactly(sock, 4) == b"\0\0\0\0"
        sock.close()
        assert link.until("done", "failed") == {"done": 5}


def test_a_command_that_fails_sends_no_end() -> None:
    with relay(role="source", listen="127.0.0.1", argv=["sh", "-c", "printf half; echo no disk >&2; exit 3"]) as link:
        sock, _ = connect(link.until("port")["port"])
        assert link.until("done", "failed") == {"failed": "no disk", "where": "save"}
        assert not read_all(sock).endswith(b"\0\0\0\0")


def serve(listener: socket.socket, data: bytes) -> None:
    sock, _ = listener.accept()
    with sock:
        sock.sendall(b"c" * 32)
        theirs = exactly(sock, 64)
        assert theirs[32:] == hmac.digest(TOKEN, b"down" + b"c" * 32, "sha256")
        sock.sendall(hmac.digest(TOKEN, b"up" + theirs[:32], "sha256") + data)


@contextmanager
def fed(data: bytes, *argv: str) -> Iterator[Relay]:
    """A sink that was sent `data` by the link before it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, relay(role="sink", listen=None, argv=list(argv)) as link:
        link.until("port")
        link.order(do="connect", host="127.0.0.1", port=listener.getsockname()[1])
        serve(listener, data)
        yield link


def test_a_sink_that_is_cut_off_kills_its_command_before_it_sees_an_end(tmp_path: Path) -> None:
    loaded = tmp_path / "loaded"
    with fed(b"\0\0\0\5image\0\0\0\x09half", "sh", "-c", f"cat >/dev/null && touch {loaded}") as link:
        assert link.until("done", "failed")["where"] == "upstream"
        assert link.process.wait(10) == 2
    assert not loaded.exists()


def test_a_sink_says_what_its_command_said() -> None:
    data = b"\0\0\0\5image\xff\xff\xff\xff\0\0\0\0"
    with fed(data, "sh", "-c", "cat >/dev/null; echo no space >&2; exit 1") as link:
        assert link.until("done", "failed") == {"failed": "no space", "where": "load"}


def test_a_sink_that_got_all_is_done() -> None:
    with fed(b"\0\0\0\5image\0\0\0\0", "grep", "-q", "^image$") as link:
        assert link.until("done", "failed") == {"done": 5}


def test_a_frame_of_impossible_length_is_refused() -> None:
    with fed(b"\x7f\xff\xff\xff", "cat") as link:
        assert link.until("done", "failed")["failed"] == "a frame of impossible length came"


def test_the_end_of_its_orders_is_its_end_and_its_commands() -> None:
    with relay(role="source", listen="127.0.0.1", argv=["sh", "-c", "echo $$; exec sleep 1000"]) as link:
        sock, _ = connect(link.until("port")["port"])
        size = int.from_bytes(exactly(sock, 4), "big")
        while size == 0xFFFFFFFF:
            size = int.from_bytes(exactly(sock, 4), "big")
        assert link.process.stdin is not None
        link.process.stdin.close()
        link.process.stdin = None
        assert link.process.wait(10) == 1


def test_an_address_that_is_not_this_machines_is_told() -> None:
    with relay(role="source", listen="192.0.2.1", argv=["true"]) as link:
        row = link.until("failed", "done")
    assert row["where"] == "connect" and "192.0.2.1 cannot be listened on" in row["failed"]


def archive(*entries: tuple[str, bytes], form: int = tarfile.USTAR_FORMAT, pax: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, data in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.pax_headers = dict(pax or {})
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


LAYERS = (("blobs/sha256/aa", b"a" * 1500), ("blobs/sha256/bb", b"b" * 70_000), ("manifest.json", b"[]"))


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("step", [1, 511, 4096, 1 << 20])
def test_layers_are_left_out_of_an_archive_however_it_comes(form: int, step: int) -> None:
    data = archive(*LAYERS, form=form, pax={"comment": "x" * 600} if form == tarfile.PAX_FORMAT else None)
    strip = Filter({"blobs/sha256/bb"})
    out = b"".join(strip.take(data[at : at + step]) for at in range(0, len(data), step)) + strip.held
    with tarfile.open(fileobj=io.BytesIO(out)) as tar:
        assert [m.name for m in tar] == ["blobs/sha256/aa", "manifest.json"]
        member = tar.extractfile("blobs/sha256/aa")
        assert member is not None and member.read() == b"a" * 1500
    assert strip.left_out == 1


@given(st.binary(max_size=3000), st.integers(1, 700))
def test_what_is_no_archive_goes_by_as_it_is(data: bytes, step: int) -> None:
    strip = Filter({"x"})
    out = b"".join(strip.take(data[at : at + step]) for at in range(0, len(data), step)) + strip.held
    assert out == data


def test_a_source_tells_what_it_left_out(tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(archive(*LAYERS))
    argv = ["cat", str(tmp_path / "image.tar")]
    with relay(role="source", listen="127.0.0.1", argv=argv, skip=["bb", "cc"]) as link:
        sock, _ = connect(link.until("port")["port"])
        data = b""
        while size := int.from_bytes(exactly(sock, 4), "big"):
            data += exactly(sock, size) if size != 0xFFFFFFFF else b""
        sock.close()
        assert link.until("left_out") == {"left_out": 1}
        assert link.until("done", "failed") == {"done": len(data)}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == ["blobs/sha256/aa", "manifest.json"]
