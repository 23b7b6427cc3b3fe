"""`nightdeck` in a process of its own, on the bed's eight hosts; output is read line by line, nothing sleeps."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.testbed.bed import Bed, BedUnavailable

ROOT = Path(__file__).parents[2]
RECIPE = "dsv41-flash-8x"
MODEL = "deepseek-ai/DeepSeek-V4.1-Flash"


class Command:
    """A running `nightdeck --json ...`: its lines as they come."""

    def __init__(self, cluster: Path, argv: tuple[str, ...]) -> None:
        self.argv = argv
        self._process = subprocess.Popen(
            [sys.executable, "-m", "console", "--cluster", str(cluster), "--json", *argv],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.text: list[str] = []
        self._errors: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_out, self._read_err)]
        for reader in self._readers:
            reader.start()

    def _read_out(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.text.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def _read_err(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)

    def until(self, wanted: Callable[[Mapping[str, Any]], bool], what: str, seconds: float = 40) -> Mapping[str, Any]:
        """The first event that is wanted."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{self.argv}: no {what} in {seconds:g} s: {self.text[-3:]}") from None
            if line is None:
                raise AssertionError(f"{self.argv} ended without {what}: {self.text[-1:]} {self.err}")
            row = json.loads(line)
            if wanted(row):
                return dict(row)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float = 60) -> int:
        code = self._process.wait(seconds)
        for reader in self._readers:
            reader.join(10)
        return code

    @property
    def err(self) -> str:
        return "".join(self._errors)

    @property
    def json(self) -> Any:
        text = "".join(self.text)
        return json.loads(text if text.startswith("{\n") else self.text[-1])

    @property
    def deployment(self) -> Any:
        (only,) = self.json["deployments"]
        return only

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)
        for reader in self._readers:
            reader.join(10)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture(scope="module")
def the_bed() -> Iterator[Bed]:
    try:
        bed = Bed.up(8)
    except BedUnavailable as reason:
        pytest.skip(str(reason))
    with bed:
        bed.each(lambda host: host.put_model(MODEL))
        yield bed


class Deck:
    """The bed, calm, and commands on it."""

    def __init__(self, bed: Bed, cluster: Path) -> None:
        self.bed = bed
        self.cluster = cluster
        self._commands: list[Command] = []

    def start(self, *argv: str) -> Command:
        self._commands.append(Command(self.cluster, argv))
        return self._commands[-1]

    def run(self, *argv: str, seconds: float = 60) -> tuple[int, Command]:
        command = self.start(*argv)
        return command.wait(seconds), command

    def stub(self, **settings: Any) -> None:
        """How the stub engines of all hosts behave from now on."""
        self.bed.each(lambda host: host.stub(**settings))

    def left_over(self) -> list[str]:
        return [f"{h.name}: {name}" for h in self.bed.hosts for name in h.containers()]

    def logins(self, index: int) -> int:
        """SSH connections that a host has open with this side now."""
        rows = [line.split() for line in Path(f"/proc/{self.bed[index].init}/net/tcp").read_text().splitlines()[1:]]
        here = socket.inet_aton(self.bed.address)[::-1].hex().upper() + ":"
        return sum(1 for row in rows if row[1].endswith(":0016") and row[2].startswith(here) and row[3] == "01")

    def close(self) -> None:
        for command in self._commands:
            command.close()


@pytest.fixture
def deck(the_bed: Bed, tmp_path: Path) -> Iterator[Deck]:
    the_bed.calm()
    assert os.environ["HOME"].startswith(str(tmp_path))
    deck = Deck(the_bed, the_bed.cluster_toml(tmp_path / "cluster.toml"))
    yield deck
    deck.close()
