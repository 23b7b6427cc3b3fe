"""nvidia-smi as one process that runs on: GPUs, and the processes that use them."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from console.probe.host import reason

if TYPE_CHECKING:
    Group = dict[str, Any]


GPU_FIELDS = ["index", "uuid", "name", "utilization.gpu", "temperature.gpu", "power.draw", "clocks.sm", "clocks.max.sm"]
GPU_FIELDS += ["memory.used", "memory.total", "clocks_event_reasons.active"]
APP_FIELDS = ["pid", "process_name", "used_memory", "gpu_uuid"]
ROW = re.compile(r"\d{1,10}\s*,")  # both queries begin with a number; sentences of the driver may hold commas too
PATIENCE = 10.0  # of the query that always prints; beyond it a driver hangs, or the program does
INVALID_FIELD = re.compile(r'Field "([\w.]+)" is not a valid field')


class Smi:
    """One nvidia-smi that runs on and prints by itself: starting one a second would cost more than all else here.

    It writes to a terminal of its own, since to a pipe it might hold lines back; that terminal's end also ends it."""

    def __init__(self, query: str, fields: list[str], period: float) -> None:
        self.query, self.fields, self.period = query, list(fields), period
        self.child: subprocess.Popen[bytes] | None = None
        self.fd = -1
        self.tail = b""
        self.rows: list[tuple[float, str]] = []
        self.t: float | None = None
        self.why = "nvidia-smi: not read yet"
        self.said: list[str] = []
        self.started = self.again = self.heard = -1e9
        self.wait = 1.0
        self.killed = False

    def step(self, now: float) -> None:
        """Start it where it does not run and its time has come. Never waits."""
        if self.child is not None:
            code = self.child.poll()
            if code is None or self.fd >= 0:
                self.mind(now)
                return
            self.child = None
            lasted = now - self.started
            self.wait = 1.0 if lasted > 30.0 else min(30.0, self.wait * 2)
            bad = INVALID_FIELD.search(" ".join(self.said))
            if bad and bad.group(1) in self.fields and len(self.fields) > 1:
                self.fields.remove(bad.group(1))
                self.wait = 0.0
            self.again = now + self.wait
            self.why = (" ".join(self.said) or f"nvidia-smi ended with {code}")[:300]
        if now >= self.again:
            self.spawn(now)

    def mind(self, now: float) -> None:
        """One that prints nothing any more is ended; while it does not end, no other is started beside it."""
        silent = now - max(self.heard, self.started)
        if self.query != "gpu" or silent <= PATIENCE or self.child is None:
            return
        if self.killed and silent > PATIENCE + 5.0:
            self.why = "nvidia-smi hangs and cannot be ended: the driver does not answer"
            self.said = [self.why]
        elif not self.killed:
            self.killed, self.rows = True, []
            self.said = [f"nvidia-smi printed nothing for {silent:.0f} s and is started anew"]
            self.why = self.said[0]
            self.end()

    def spawn(self, now: float) -> None:
        program = shutil.which("nvidia-smi")
        if program is None:
            self.why, self.again = "nvidia-smi is not in PATH", now + 30.0
            return
        argv = [program, f"--query-{self.query}={','.join(self.fields)}", "--format=csv,noheader,nounits"]
        argv += ["-lms", str(int(self.period * 1000))]
        self.said, self.tail, self.started, self.killed = [], b"", now, False
        try:
            master, slave = pty.openpty()
        except OSError:
            master, slave = os.pipe()
        try:
            # The shell, leader of a new session, opens the terminal and so makes it the one whose end hangs it up.
            name = os.ttyname(slave) if os.isatty(slave) else ""
            enter = ["sh", "-c", 'exec "$@" >"$0" 2>&1', name] if name else []
            self.child = subprocess.Popen(
                enter + argv,
                stdin=subprocess.DEVNULL,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
                env=dict(os.environ, LC_ALL="C"),
            )
        except OSError as error:
            self.why, self.again = "nvidia-smi: " + reason(error), now + 30.0
            os.close(master)
            return
        finally:
            os.close(slave)
        os.set_blocking(master, False)
        self.fd = master

    def readable(self, now: float) -> None:
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return
        except OSError:  # EIO: the other end of the terminal is closed
            data = b""
        if not data:
            os.close(self.fd)
            self.fd = -1
            return
        self.heard = now
        lines = (self.tail + data).split(b"\n")
        self.tail = lines.pop()
        if len(self.tail) > 8192:
            self.tail = b"..." + self.tail[-4096:]  # its end alone must not look like a line of its own
        for raw in lines:
            line = raw.decode("utf-8", "replace").strip()[:1000]
            if ROW.match(line) and line.count(",") >= min(2, len(self.fields) - 1):
                if self.rows and now - self.rows[0][0] > self.period * 0.6:
                    self.rows = []
                self.rows = [*self.rows, (now, line)][-256:]
                self.t, self.why = now, ""
            elif line:
                self.said = [*self.said, line][-6:]

    def group(self, now: float, other: Smi | None = None) -> Group:
        """`other`: the query that always prints. No process on a GPU prints nothing, which looks like a hang."""
        out: Group = {"fields": self.fields, "rows": [line for _, line in self.rows], "why": self.why}
        if self.t is not None:
            out["t"] = self.t
        if self.said:
            out["said"] = self.said[-1]
        if self.said and (self.t is None or now - self.t > self.period * 3):
            out["why"] = " ".join(self.said)[:300]
        if other is not None and self.child is not None and not self.why.startswith(("NVIDIA-SMI", "Unable")):
            silent = now - max(self.t or -1e9, self.started) > self.period * 2.5
            if silent and not self.said and other.t is not None and now - other.t < other.period * 3:
                self.rows = []
                out.update(rows=[], t=other.t, why="")
        return out

    def end(self) -> None:
        if self.child is not None and self.child.poll() is None:
            self.child.kill()
