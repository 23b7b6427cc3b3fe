"""A TCP or unix-socket connection made from the node, and how its opening can be refused."""

from __future__ import annotations

import asyncio
from typing import Final

import asyncssh

from console.base.text import clean_line
from console.transport.base import TransportError, Trouble

WRITE_LIMIT_S: Final = 30.0
CLOSE_LIMIT_S: Final = 1.0


class SshByteChannel:
    """`ByteChannel` on a direct-tcpip or direct-streamlocal channel."""

    def __init__(
        self, node: str, where: str, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]
    ) -> None:
        self._node = node
        self._where = where
        self._reader = reader
        self._writer = writer

    async def read(self, n: int) -> bytes:
        """At most n bytes; b"" at the end. Raises TransportError(LOST)."""
        try:
            return await self._reader.read(n)
        except (OSError, asyncssh.Error) as error:
            raise self._lost(error) from None

    async def write(self, data: bytes) -> None:
        """Returns when the channel takes more. Raises TransportError(LOST), DEADLINE after 30 s without progress."""
        try:
            async with asyncio.timeout(WRITE_LIMIT_S):
                self._writer.write(data)
                await self._writer.drain()
        except TimeoutError:
            raise TransportError(
                Trouble.DEADLINE, f"{self._where} took no bytes for {WRITE_LIMIT_S:.0f} s", node=self._node
            ) from None
        except (OSError, asyncssh.Error) as error:
            raise self._lost(error) from None

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self._writer.wait_closed()
        except (TimeoutError, OSError, asyncssh.Error):
            self.abort()

    def abort(self) -> None:
        self._writer.channel.abort()

    def _lost(self, error: Exception) -> TransportError:
        said = clean_line(str(error), limit=200)
        return TransportError(Trouble.LOST, f"the connection to {self._where} broke ({said})", node=self._node)


def channel_error(node: str, what: str, error: asyncssh.ChannelOpenError) -> TransportError:
    """A refused channel on a connection that is well. `what`: "a session", or the address asked for."""
    said = clean_line(str(error), limit=200)
    if what == "a session":
        return TransportError(
            Trouble.CHANNEL,
            f"sshd refused a session ({said})",
            node=node,
            remedy="more sessions are open than its MaxSessions allows, or commands are not allowed for this user",
        )
    if "refused" in said.lower():
        return TransportError(Trouble.REFUSED, f"{what}: connection refused on the node", node=node)
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return TransportError(
            Trouble.CHANNEL,
            f"sshd does not allow a connection to {what} ({said})",
            node=node,
            remedy="its sshd_config needs AllowTcpForwarding yes (AllowStreamLocalForwarding for sockets)",
        )
    return TransportError(Trouble.CHANNEL, f"the node cannot connect to {what} ({said})", node=node)
