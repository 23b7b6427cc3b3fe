"""A terminal driver that outlives its terminal: what can no longer be written is dropped, and nothing waits for it."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from textual.app import App


class LastingFile:
    """Writes to a file until that fails with an OSError, then to nothing.

    Textual's writing thread dies of the first error, its queue fills, and the event loop waits on it for ever."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.gone = False

    def write(self, text: str) -> int:
        if not self.gone:
            try:
                return self._file.write(text)
            except OSError:
                self.gone = True
        return len(text)

    def flush(self) -> None:
        if not self.gone:
            try:
                self._file.flush()
            except OSError:
                self.gone = True

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


class LastingDriver(LinuxDriver):
    """Textual's own driver over a `LastingFile`."""

    def __init__(self, app: App[Any], **kwargs: Any) -> None:
        super().__init__(app, **kwargs)
        self._file: Any = LastingFile(self._file)

    @property
    def open(self) -> bool:
        """True while there is a terminal, and the console draws on it."""
        return self._writer_thread is not None and not self._file.gone
