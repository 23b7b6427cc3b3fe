"""Opening one connection to a node, hop by hop, each with its own limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

import asyncssh

from console.transport.ssh_config import Hop, Route
from console.transport.ssh_errors import Attempt, Phase, explain, timed_out
from console.transport.ssh_keys import Identities, gather_identities

CONNECT_LIMIT_S: Final = 5.0
GREETING_LIMIT_S: Final = 8.0
LOGIN_LIMIT_S: Final = 10.0
# A frozen node is noticed after 6 to 8 seconds.
KEEPALIVE_S: Final = 2.0
KEEPALIVE_COUNT: Final = 3

# In front of the others where the configuration names none: asyncssh's chacha20 takes half as much again of the
# processor for every packet (measured: 60 commands 0.10 s with it, 0.06 s with these).
FAST_CIPHERS: Final = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"

# Without a handler of its own, logging prints a library's warnings on the terminal that the console draws on.
logging.getLogger("asyncssh").addHandler(logging.NullHandler())

Gate = Callable[[Hop], AbstractAsyncContextManager[Any]]


def no_gate(_hop: Hop) -> AbstractAsyncContextManager[Any]:
    return nullcontext()


class _Client(asyncssh.SSHClient):
    """Tells the attempt how far it is, and hands out keys one by one."""

    def __init__(
        self, attempt: Attempt, identities: Identities, scope: asyncio.Timeout, on_lost: Callable[[], None]
    ) -> None:
        self._attempt = attempt
        self._keys = list(zip(identities.keys, identities.labels, strict=True))
        self._scope = scope
        self._on_lost = on_lost
        self.conn: asyncssh.SSHClientConnection | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.conn = conn
        self._phase(Phase.GREETING, GREETING_LIMIT_S)

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self._attempt.offered = key
        return False  # known_hosts alone decides; this is only asked when it does not know the key

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self._attempt.offered = key
        return False

    def begin_auth(self, username: str) -> None:
        self._phase(Phase.LOGGING_IN, LOGIN_LIMIT_S)

    def public_key_auth_requested(self) -> asyncssh.SSHKeyPair | None:
        if not self._keys:
            return None
        key, label = self._keys.pop(0)
        self._attempt.tried.append(label)
        return key

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()

    def _phase(self, phase: Phase, limit: float) -> None:
        self._attempt.phase = phase
        if not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time() + limit)


class Opened:
    """A connection to a node with the jump hosts' connections under it."""

    def __init__(
        self, conn: asyncssh.SSHClientConnection, under: list[asyncssh.SSHClientConnection], lost: asyncio.Event
    ) -> None:
        self.conn = conn
        self._under = under
        self.lost = lost

    @property
    def is_open(self) -> bool:
        return not self.lost.is_set() and not self.conn.is_closed()

    def abort(self) -> None:
        self.lost.set()
        for conn in [self.conn, *reversed(self._under)]:
            conn.abort()

    async def close(self, limit: float) -> None:
        """Close in order, politely within `limit` seconds, then at once."""
        self.lost.set()
        try:
            async with asyncio.timeout(limit):
                for conn in [self.conn, *reversed(self._under)]:
                    conn.close()
                    await conn.wait_closed()
        except TimeoutError:
            self.abort()


async def dial(route: Route, attempt: Attempt, *, gate: Gate = no_gate) -> Opened:
    """Open the connection. Raises TransportError naming the hop that failed; leaves nothing open then."""
    under: list[asyncssh.SSHClientConnection] = []
    try:
        for hop in route.hops[:-1]:
            async with gate(hop):
                under.append(await _open_hop(hop, attempt, under[-1] if under else None, True, lambda: None))
        last = route.hops[-1]
        lost = asyncio.Event()
        async with gate(last):
            conn = await _open_hop(last, attempt, under[-1] if under else None, False, lost.set)
        attempt.phase = Phase.OPEN
        return Opened(conn, under, lost)
    except BaseException:
        for conn in reversed(under):
            conn.abort()
        raise


async def _open_hop(
    hop: Hop,
    attempt: Attempt,
    tunnel: asyncssh.SSHClientConnection | None,
    is_jump: bool,
    on_lost: Callable[[], None],
) -> asyncssh.SSHClientConnection:
    attempt.hop, attempt.is_jump, attempt.phase = hop, is_jump, Phase.PREPARING
    attempt.offered, attempt.tried, attempt.notes = None, [], []
    identities = await gather_identities(hop)
    attempt.notes = identities.notes
    attempt.phase = Phase.CONNECTING
    clients: list[_Client] = []

    def client() -> _Client:
        clients.append(_Client(attempt, identities, scope, on_lost))
        return clients[-1]

    is_open = False
    try:
        scope = asyncio.timeout(CONNECT_LIMIT_S)
        async with scope:
            conn = await asyncssh.connect(
                hop.alias,
                hop.port,
                options=hop.options,
                config=list(hop.config) if hop.options is None else None,
                tunnel=tunnel,
                client_factory=client,
                **_arguments(hop),
            )
        is_open = True  # only outside the limit's scope: it may have passed at the last moment
        return conn
    except TimeoutError:
        limit = {Phase.CONNECTING: CONNECT_LIMIT_S, Phase.LOGGING_IN: LOGIN_LIMIT_S}.get(
            attempt.phase, GREETING_LIMIT_S
        )
        raise timed_out(attempt, limit) from None
    except (OSError, ValueError, asyncssh.Error) as error:
        raise explain(attempt, error) from error
    finally:
        identities.close()
        for made in clients:
            if not is_open and made.conn is not None:
                made.conn.abort()  # whatever the attempt met, the next one must not find this one still open


def _arguments(hop: Hop) -> dict[str, Any]:
    """What the configuration does not decide. client_keys=None: keys come from `_Client`, one by one and by name."""

    def trusted(_host: str, _addr: str, _port: int | None) -> tuple[list[asyncssh.SSHKey], ...]:
        return list(hop.known.keys), list(hop.known.authorities), list(hop.known.revoked)

    arguments: dict[str, Any] = {
        "username": hop.user,
        "known_hosts": trusted,
        "client_keys": None,
        "preferred_auth": "publickey",
        "gss_host": None,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "command": None,
        "request_pty": False,
        "env": None,
        "send_env": None,
        "tcp_keepalive": True,
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": KEEPALIVE_COUNT,
        "connect_timeout": None,
        "login_timeout": 0,
        "canonicalize_hostname": False,
    }
    if not hop.ciphers:
        arguments["encryption_algs"] = FAST_CIPHERS
    if not hop.host_key_algorithms:
        arguments["server_host_key_algs"] = hop.known.algorithms()
    return arguments
