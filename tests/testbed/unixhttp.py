"""HTTP over a unix socket, for a container engine that has no command line at hand."""

from __future__ import annotations

import http.client
import os
import socket
from pathlib import Path


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def request(
    path: Path, method: str, target: str, body: bytes | Path = b"", *, content_type: str, seconds: float
) -> tuple[int, bytes]:
    """Status and body of one request. OSError where nothing listens or the answer takes longer than `seconds`."""
    connection = _Connection(path, seconds)
    try:
        headers = {"Content-Type": content_type}
        if isinstance(body, Path):
            headers["Content-Length"] = str(os.stat(body).st_size)
            with body.open("rb") as source:
                connection.request(method, target, source, headers)
        else:
            connection.request(method, target, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise ConnectionError(f"{method} {target}: {error!r}") from error
    finally:
        connection.close()
