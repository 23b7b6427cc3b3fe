"""One lab node's SSH server: commands that really run, connections from the node, and the ways it falls silent."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Final

import asyncssh

from console.lab.docker_http import DockerHttp
from console.lab.execute import Executor
from console.lab.http import Reader, Writer
from console.lab.world import LabNode, World

_DOCKER_SOCKETS: Final = ("/var/run/docker.sock", "/run/docker.sock")


class NodeSshd:
    """A listener of our own in front of asyncssh, so that a node can accept and say nothing, or refuse."""

    def __init__(
        self, world: World, node: LabNode, key: asyncssh.SSHKey, client: asyncssh.SSHAuthorizedKeys, executor: Executor
    ) -> None:
        self._world = world
        self._node = node
        self._executor = executor
        self.docker = DockerHttp(node)
        self.port = 0
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._mute: set[socket.socket] = set()
        self._options = asyncssh.SSHServerConnectionOptions(
            server_factory=lambda: _Server(self),
            server_host_keys=[key],
            authorized_client_keys=client,
            process_factory=self._process,
            encoding=None,
            line_editor=False,
            agent_forwarding=False,
            server_version="OpenSSH_9.6p1-lab",
            login_timeout=30,
        )
        node.on_change = self._changed

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def start(self, port: int = 0) -> None:
        self._listen(port)

    def _listen(self, port: int) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(128)
        sock.setblocking(False)
        self._socket, self.port = sock, sock.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(sock), name=f"sshd {self._node.name}")

    async def close(self) -> None:
        await self._refuse()
        for conn in list(self._connections):
            conn.abort()
        for task in list(self._handshakes):
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        for sock in self._mute:
            sock.close()
        await self._executor.close(self._node)
        await self.docker.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(listener)
            if self._node.silent:
                self._mute.add(sock)
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = asyncio.create_task(self._handshake(sock))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _handshake(self, sock: socket.socket) -> None:
        # A client that goes away or fails to log in is its own affair.
        with contextlib.suppress(asyncssh.Error, OSError):
            await asyncssh.run_server(sock, config=None, options=self._options)

    async def _refuse(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
            self._accepting = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _changed(self) -> None:
        """The node's state is another one: what that means for those who are connected."""
        silent = self._node.silent
        for conn in list(self._connections):
            transport: Any = conn.get_extra_info("socket") and getattr(
                conn, "_transport", None
            )  # asyncssh has no public pause
            if transport is not None and not transport.is_closing():
                with contextlib.suppress(RuntimeError):
                    (transport.pause_reading if silent else transport.resume_reading)()
        self._executor.freeze(self._node, silent)
        if not silent:
            for sock in self._mute:
                sock.close()
            self._mute.clear()
        if self._node.cut:
            for conn in list(self._connections):
                conn.abort()
            if self._accepting is not None:
                self._accepting.cancel()
                self._accepting = None
            if self._socket is not None:
                self._socket.close()
                self._socket = None
        elif self._socket is None:
            self._listen(self.port)

    def opened(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.add(conn)

    def closed(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.discard(conn)

    async def _process(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        await self._executor.run(self._node, process)

    def reach(self, host: str, port: int) -> Any:
        """A connection that a client asks this node to make: to a port of any node of the lab."""
        target = self._node
        if host not in ("127.0.0.1", "localhost", "::1", "0.0.0.0"):
            found = self._world.by_address(host)
            if found is None:
                raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "connect failed: No route to host")
            target = found
        local = (
            "127.0.0.1"
            if target is self._node and host in ("127.0.0.1", "localhost", "::1", "0.0.0.0")
            else target.machine.fabric_address
        )
        if target.silent:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "connect failed: Connection timed out")
        service = target.service(local, port)
        if service is None:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "connect failed: Connection refused")

        async def serve(reader: Reader, writer: Writer) -> None:
            await service(reader, writer, f"{self._node.machine.fabric_address}:{40_000 + port % 1000}")

        return serve

    def unix(self, path: str) -> Any:
        """The docker socket of this node, under its usual name or its own."""
        if path not in (*_DOCKER_SOCKETS, str(self._executor.docker_socket(self._node))):
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed: No such file or directory")
        if self._node.engine.down:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed: Connection refused")
        return self.docker.serve


class _Server(asyncssh.SSHServer):
    def __init__(self, sshd: NodeSshd) -> None:
        self._sshd = sshd
        self._conn: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._conn = conn
        self._sshd.opened(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._conn is not None:
            self._sshd.closed(self._conn)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> Any:
        return self._sshd.reach(dest_host, dest_port)

    def unix_connection_requested(self, dest_path: str) -> Any:
        return self._sshd.unix(dest_path)
