"""A real sshd for a test, or one for all tests of a module that leave it as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.transport.sshd import ABSENT, SKIP_REASON, Sshd


@pytest.fixture
def make_sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    if ABSENT:
        pytest.skip(SKIP_REASON)
    servers: list[Sshd] = []

    def make(*options: str, host_key_kinds: tuple[str, ...] = ("ed25519",)) -> Sshd:
        server = Sshd(tmp_path / f"sshd{len(servers)}", options, host_key_kinds)
        servers.append(server)
        return server.start()

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def sshd(make_sshd: Callable[..., Sshd]) -> Sshd:
    return make_sshd()
