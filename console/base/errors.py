"""The one tree of errors: what happened, where, and what the operator can do."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line; scripts rely on them."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_READY = 3
    PARTLY = 4
    INTERRUPTED = 130


class NightdeckError(Exception):
    """An error for the operator.

    what: one sentence, clean of secrets and of control codes.
    where: node, rank or file:line; empty when it is nowhere in particular.
    remedy: what the operator can do; empty when nothing is known to help.
    """

    exit_code = ExitCode.FAILED

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head} ({self.remedy})" if self.remedy else head


class UsageError(NightdeckError):
    """The command, a file or a value given by the operator is wrong."""

    exit_code = ExitCode.USAGE


class FileError(UsageError):
    """A file of the operator's that cannot be used: file:line:column, key, what was found, what is allowed."""

    def __init__(
        self,
        message: str,
        *,
        file: str,
        line: int | None = None,
        column: int | None = None,
        key: str = "",
        remedy: str = "",
    ) -> None:
        where = file
        if line is not None:
            where += f":{line}"
            if column is not None:
                where += f":{column}"
        super().__init__(f"{key}: {message}" if key else message, where=where, remedy=remedy)
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        self.key = key
