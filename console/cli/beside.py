"""Output that is written beside the work: a reader that pauses (a pager, Ctrl-S) does not hold up what is watched."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from typing import Final

# What waits for a reader, in bytes; the events of a boot of eight ranks are a tenth of it.
MOST_BYTES: Final = 16 << 20


class Beside:
    """Text for a descriptor, written by a thread. lost: the line that tells how many pieces found no room while nobody
    read; it comes where they are missing. Raises what writing raised, at the next call."""

    def __init__(
        self, descriptor: int, lost: Callable[[int], str], *, encoding: str = "utf-8", most_bytes: int = MOST_BYTES
    ) -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._lost = lost
        self._most = most_bytes
        self._waiting: queue.SimpleQueue[bytes | threading.Event] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._held = 0
        self._missed = 0
        self._error: OSError | None = None
        # A daemon: where nobody reads to the end, the process still ends. It holds no lock of the interpreter's own.
        threading.Thread(target=self._work, name="output", daemon=True).start()

    def write(self, text: str) -> None:
        self._raise()
        data = text.encode(self._encoding, "replace")
        with self._lock:
            if self._held + len(data) > self._most:
                self._missed += 1
                return
            if self._missed:
                data = self._lost(self._missed).encode(self._encoding, "replace") + data
                self._missed = 0
            self._held += len(data)
        self._waiting.put(data)

    def drain(self, timeout: float | None = None) -> None:
        """Wait until all is written, at most `timeout` seconds."""
        done = threading.Event()
        self._waiting.put(done)
        done.wait(timeout)
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while True:
            piece = self._waiting.get()
            if isinstance(piece, threading.Event):
                piece.set()
                continue
            view = memoryview(piece)
            try:
                while view and self._error is None:
                    view = view[os.write(self._descriptor, view) :]
            except OSError as error:
                self._error = error
            with self._lock:
                self._held -= len(piece)


def descriptor_of(stream: object) -> int | None:
    """The descriptor behind a stream, with what the stream holds written; None where it has none."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stream.flush()  # type: ignore[attr-defined]
        return int(stream.fileno())  # type: ignore[attr-defined]
    return None
