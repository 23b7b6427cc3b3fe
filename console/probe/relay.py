"""Runs on a node: one link of the chain that an image travels along; Python 3.8, standard library only.

Standard input brings orders, a JSON object a line, and its end is the end of this program and of all it started:
  {"do": "start", "token": hex, "listen": address or null, "argv": [...], "role": "source" or "sink"}
  {"do": "connect", "host": address, "port": number}        a sink's way to the link before it
  {"do": "drop"}     the link after this one is lost: go on without it
  {"do": "abort"}    the link before this one is lost: nothing more will come
Standard output tells, a JSON object a line: {"port": n} once, {"bytes": n} all the time, {"left_out": n} of a source
that was told to skip, and one of {"done": n}, {"failed": reason, "where": "connect" | "upstream" | "load" | "save" |
"room"} at the end.

With "skip": [hex, ...] a source leaves those layers out of the archive: `blobs/sha256/HEX`, as docker names them since
version 25. An engine that has a layer of this content already never opens its file.
A source reads the standard output of its command (`docker save`), a sink writes to the standard input of its own
(`docker load`); both pass every block on to the next link. A sink whose command fails passes the rest on all the same:
one full disk must not cost the nodes behind it. Blocks travel in frames with their length, and a frame of length 0 is
the end: a connection that breaks can never look like the end of an image. While a command is busy with itself, frames
without a block say that the link lives. Each side proves with the token (HMAC over
the other's random bytes) that it belongs to this transfer; the token comes over SSH and is never sent.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from console.probe.tar_filter import Filter

BLOCK = 1 << 20
HELD = 32  # blocks that wait for a slower side, in each direction
SILENCE_S = 120.0  # a chain without a byte for so long is broken; `docker save` of a large layer takes its time
CONNECT_S = 8.0
FEW = 4096
ALIVE = 0xFFFFFFFF  # a frame of no length: nothing to send yet
PULSE_S = 5.0
F_SETPIPE_SZ = 1031  # linux/fcntl.h


class Broken(Exception):
    """The transfer cannot go on. args: where, reason."""


def tell(**row: object) -> None:
    try:
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        os._exit(1)


def widen(pipe: Any) -> None:
    """A pipe holds 64 KiB by default; a larger one costs fewer changes between the two sides."""
    try:
        fcntl.fcntl(pipe.fileno(), F_SETPIPE_SZ, BLOCK)
    except OSError:
        return  # the user's pipes hold as much as they may already


class Orders:
    """Standard input, line by line; its end ends everything."""

    def __init__(self) -> None:
        self.lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self.children: list[subprocess.Popen[bytes]] = []
        self.dropped = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            line = sys.stdin.buffer.readline()
            if not line:
                self.end(1)
            order = json.loads(line)
            if order["do"] == "drop":
                self.dropped.set()
            elif order["do"] == "abort":
                tell(failed="the link before this one was lost", where="upstream")
                self.end(2)
            else:
                self.lines.put(order)

    def end(self, code: int) -> None:
        for child in self.children:
            if child.poll() is None:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except OSError:
                    continue  # it has ended meanwhile
        os._exit(code)

    def child(self, argv: list[str], **pipes: Any) -> subprocess.Popen[bytes]:
        try:
            child = subprocess.Popen(argv, stderr=subprocess.PIPE, start_new_session=True, **pipes)
        except OSError as error:
            raise Broken("save", f"{argv[0]}: {error.strerror}") from None
        self.children.append(child)
        return child


def exactly(sock: socket.socket, size: int, into: memoryview) -> None:
    got = 0
    while got < size:
        n = sock.recv_into(into[got:size])
        if n == 0:
            raise Broken("upstream", "the link before this one broke off")
        got += n


def prove(sock: socket.socket, token: bytes, mine: bytes, theirs: bytes) -> bool:
    """Both sides send random bytes and answer the other's; `mine` and `theirs` keep the answers apart."""
    sock.settimeout(CONNECT_S)
    nonce = os.urandom(32)
    sock.sendall(nonce)
    buffer = memoryview(bytearray(32))
    exactly(sock, 32, buffer)
    sock.sendall(hmac.digest(token, mine + bytes(buffer), "sha256"))
    exactly(sock, 32, buffer)
    return hmac.compare_digest(bytes(buffer), hmac.digest(token, theirs + nonce, "sha256"))


class Down:
    """The next link: it connects here, once; blocks go to it as it takes them. Its loss is its own."""

    def __init__(self, address: str | None, token: bytes, dropped: threading.Event) -> None:
        self.blocks: queue.Queue[bytes | None] = queue.Queue(HELD)
        self.gone = address is None
        self.port = 0
        self._dropped = dropped
        self._sock: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, args=(token,), daemon=True)
        if address is None:
            return
        self._listen = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._listen.bind((address, 0))
        except OSError as error:
            raise Broken("connect", f"{address} cannot be listened on: {error.strerror}") from None
        self._listen.listen(1)
        self._listen.settimeout(0.5)
        self.port = int(self._listen.getsockname()[1])
        self._thread.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """A link that is lost may never answer: closing the socket ends the wait for it."""
        self._dropped.wait()
        self.gone = True
        if self._sock is not None:
            self._sock.close()

    def _accept(self, token: bytes) -> socket.socket:
        end = time.monotonic() + 60.0
        with self._listen:
            while time.monotonic() < end and not self.gone:
                try:
                    sock, _ = self._listen.accept()
                except socket.timeout:  # noqa: UP041  another class before Python 3.10
                    continue
                try:
                    if prove(sock, token, b"up", b"down"):
                        return sock
                except (OSError, Broken):
                    pass  # whoever that was does not know the token; the next link may still come
                sock.close()
        raise OSError("the next link did not come")

    def _serve(self, token: bytes) -> None:
        try:
            sock = self._sock = self._accept(token)
            sock.settimeout(SILENCE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                try:
                    block = self.blocks.get(timeout=PULSE_S)
                except queue.Empty:
                    sock.sendall(ALIVE.to_bytes(4, "big"))
                    continue
                sock.sendall(len(block or b"").to_bytes(4, "big"))
                if block is None:
                    break
                sock.sendall(block)
            sock.recv(1)  # until the other side has read all and closes
        except OSError:
            self.gone = True

    def put(self, block: bytes | None) -> None:
        while not self.gone:
            try:
                self.blocks.put(block, timeout=0.2)
                return
            except queue.Full:
                continue

    def wait(self) -> None:
        if self.port and not self.gone:
            self._thread.join(SILENCE_S)


class Sink:
    """The command that takes the image. After it failed, blocks are dropped and the reason is kept."""

    def __init__(self, orders: Orders, argv: list[str]) -> None:
        self.child = orders.child(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.blocks: queue.Queue[bytes | None] = queue.Queue(HELD)
        self.failed = ""
        self.said = b""
        self._threads = [threading.Thread(target=t, daemon=True) for t in (self._feed, self._hear)]
        for thread in self._threads:
            thread.start()

    def _hear(self) -> None:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            self.said = (self.said + line)[-FEW:]

    def _feed(self) -> None:
        assert self.child.stdin is not None
        widen(self.child.stdin)
        while True:
            block = self.blocks.get()
            if block is None:
                break
            if self.failed:
                continue
            try:
                self.child.stdin.write(block)
            except OSError:
                self.failed = "it ended before the image did"
        try:
            self.child.stdin.close()
        except OSError:
            self.failed = self.failed or "it ended before the image did"

    def finish(self) -> None:
        """Raises Broken with the command's own words."""
        self.blocks.put(None)
        self._threads[0].join()
        status = self.child.wait()
        self._threads[1].join(2.0)
        if status != 0 or self.failed:
            said = " ".join(self.said.decode("utf-8", "replace").split())[-300:]
            raise Broken("load", said or self.failed or f"exit status {status}")


class Meter:
    """Tells how far it is, twice a second, also while nothing moves."""

    def __init__(self) -> None:
        self.total = 0
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        while True:
            time.sleep(0.5)
            tell(bytes=self.total)

    def add(self, size: int) -> None:
        self.total += size


def source(orders: Orders, start: dict[str, Any]) -> int:
    down = Down(start["listen"], bytes.fromhex(start["token"]), orders.dropped)
    child = orders.child(start["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    tell(port=down.port)
    meter = Meter()
    assert child.stdout is not None and child.stderr is not None
    said: list[bytes] = []
    hear = threading.Thread(target=lambda: said.append(child.stderr.read(FEW) if child.stderr else b""), daemon=True)
    hear.start()
    widen(child.stdout)
    skip = start.get("skip") or ()
    strip = Filter({f"blobs/sha256/{name}" for name in skip}) if skip else None
    while True:
        block = os.read(child.stdout.fileno(), BLOCK)  # what is there: a command that thinks holds nothing back
        if not block:
            break
        if down.gone:
            raise Broken("upstream", "the next node broke off")
        if strip is not None:
            block = strip.take(block)
            if not block:
                continue
        for at in range(0, len(block), BLOCK):  # what was held back may make one longer than a frame may be
            down.put(block[at : at + BLOCK])
        meter.add(len(block))
    if strip is not None and strip.held:
        down.put(strip.held)
    status = child.wait()
    hear.join(2.0)
    if status != 0:
        raise Broken("save", " ".join(b"".join(said).decode("utf-8", "replace").split())[-300:] or f"exit {status}")
    down.put(None)
    down.wait()
    if strip is not None:
        tell(left_out=strip.left_out)
    return meter.total


def sink(orders: Orders, start: dict[str, Any]) -> int:
    token = bytes.fromhex(start["token"])
    down = Down(start["listen"], token, orders.dropped)
    tell(port=down.port)
    order = orders.lines.get(timeout=60.0)
    try:
        sock = socket.create_connection((order["host"], order["port"]), CONNECT_S)
        if not prove(sock, token, b"down", b"up"):
            raise Broken("connect", "the other side does not know this transfer's token")
    except OSError as error:
        raise Broken("connect", f"{order['host']}:{order['port']}: {error.strerror or error}") from None
    sock.settimeout(SILENCE_S)
    out = Sink(orders, start["argv"])
    meter = Meter()
    head = memoryview(bytearray(4))
    try:
        while True:
            exactly(sock, 4, head)
            size = int.from_bytes(head, "big")
            if size == 0:
                break
            if size == ALIVE:
                continue
            if size > BLOCK:
                raise Broken("upstream", "a frame of impossible length came")
            block = bytearray(size)
            exactly(sock, size, memoryview(block))
            data = bytes(block)
            down.put(data)
            if not out.failed:
                out.blocks.put(data)
            meter.add(size)
    except OSError as error:
        raise Broken("upstream", f"the link before this one fell silent: {error}") from None
    down.put(None)
    sock.close()
    try:
        out.finish()
    finally:
        down.wait()
    return meter.total


def main() -> None:
    orders = Orders()
    start = orders.lines.get(timeout=60.0)
    try:
        total = source(orders, start) if start["role"] == "source" else sink(orders, start)
    except Broken as broken:
        where, reason = broken.args
        tell(failed=reason, where=where)
        orders.end(2)
    except queue.Empty:
        tell(failed="no order came", where="connect")
        orders.end(2)
    else:
        tell(done=total)
        orders.end(0)
