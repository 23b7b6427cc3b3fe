"""`alarms test` for real: a command that fails or hangs, webhooks that answer badly, late or never, a real terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import socketserver
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from console.assemble import main
from console.services import ways_out
from tests.cli.conftest import ROOT

FAIL = "import sys; sys.stderr.write('no pager here\\n'); sys.exit(3)"
HANG = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"


class Hook(BaseHTTPRequestHandler):
    """Answers with the status in its path; `hang` never answers, `cut` hangs up in the middle."""

    got: list[tuple[str, Any]] = []  # noqa: RUF012 - one server a test

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, json.loads(body)))
        word = self.path.split("/")[1]
        if word == "hang":
            self.server.ended.wait(30)  # type: ignore[attr-defined]
            return
        if word == "cut":
            self.wfile.write(b"HTTP/1.1 20")
            return
        self.send_response(int(word))
        if word == "302":
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def hook() -> Iterator[str]:
    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        ended = threading.Event()

    Hook.got = []
    with Server(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.ended.set()
        server.shutdown()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NIGHTDECK_CONFIG_DIR", str(tmp_path))
    return tmp_path / "settings.toml"


def ask(capsys: pytest.CaptureFixture[str], *way: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["alarms", "test", *way, "--json"])
    return code, {w["name"]: w for w in json.loads(capsys.readouterr().out)["ways"]}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("200", None),
        ("204", None),
        ("500", "it answered 500"),
        ("404", "it answered 404"),
        ("302", "it answered 302"),
        ("hang", "it took longer than"),
        ("cut", "no answer: "),
    ],
)
def test_a_webhook_is_told_by_what_it_answers(
    hook: str,
    settings: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    why: str | None,
) -> None:
    monkeypatch.setattr(ways_out.send, "__kwdefaults__", {"deadline_s": 1.0 if path == "hang" else 15.0})
    settings.write_text(f'[alarms.ways]\nbell = false\nwebhook = "{hook}/{path}/SECRETWORD"\n')
    code, ways = ask(capsys)
    assert code == (0 if why is None else 1)
    assert (ways["webhook"]["why"] or "").startswith(why or "") and "SECRET" not in json.dumps(ways)
    assert bool(ways["webhook"]["ok"]) is (why is None)
    (posted,) = Hook.got
    assert posted[0] == f"/{path}/SECRETWORD" and posted[1]["code"] == "test" and posted[1]["schema"] == 1


def test_a_command_that_fails_or_hangs_keeps_no_other_way_waiting(
    hook: str, settings: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def argv(code: str) -> str:
        return json.dumps([sys.executable, "-c", code])

    settings.write_text(f'[alarms.ways]\nbell = false\nwebhook = "{hook}/200/x"\ncommand = {argv(FAIL)}\n')
    code, ways = ask(capsys)
    assert code == 1 and ways["webhook"]["ok"] and ways["command"]["why"] == "ended with 3: no pager here"
    monkeypatch.setattr(ways_out.send, "__kwdefaults__", {"deadline_s": 1.0})
    settings.write_text(f'[alarms.ways]\nbell = false\nwebhook = "{hook}/hang/x"\ncommand = {argv(HANG)}\n')
    begun = time.monotonic()
    code, ways = ask(capsys)
    assert code == 1 and {w["why"] for w in ways.values()} == {"it took longer than 1 s"}
    assert time.monotonic() - begun < 10.0


@contextmanager
def on_a_terminal(settings: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {**os.environ, "NIGHTDECK_CONFIG_DIR": str(settings.parent), "TERM": "xterm-256color"}
    env = {k: v for k, v in env.items() if k not in ("TMUX", "TERM_PROGRAM", "LC_TERMINAL", "KITTY_WINDOW_ID")}
    command = [sys.executable, "-m", "console", "alarms", "test", *words]
    process = subprocess.Popen(command, cwd=ROOT, stdin=slave, stdout=subprocess.PIPE, stderr=slave, env=env)
    os.close(slave)
    try:
        yield process, master
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_a_real_terminal_gets_the_bell_and_the_notification(settings: Path) -> None:
    settings.write_text('[alarms.ways]\nterminal = "osc777"\n')
    with on_a_terminal(settings) as (process, master):
        out = process.communicate(timeout=60)[0]
        said = os.read(master, 65536)
    assert process.returncode == 0, out
    assert b"\a" in said and b"\x1b]777;" in said and b"this is a test of nightdeck" in said
    assert out.count(b"sent") == 2


def test_without_a_terminal_the_bell_says_that_it_cannot_be_heard(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text("[alarms.ways]\nbell = true\n")
    code, ways = ask(capsys, "bell")
    assert code == 1 and "no terminal" in ways["bell"]["why"]
