"""The way to a node as ssh's configuration gives it: aliases, users, ports, files, jump hosts."""

from __future__ import annotations

import asyncio
import getpass
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import asyncssh

from console.base.text import clean_line
from console.cluster.model import Node
from console.transport.base import TransportError, Trouble
from console.transport.ssh_known import GLOBAL_FILES, USER_FILES, KnownKeys, known_keys

MAX_HOPS: Final = 8
_JUMP: Final = re.compile(
    r"^(?:ssh://)?(?:(?P<user>[^@]+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]/]+))(?::(?P<port>\d+))?/?$"
)
# What makes a configuration more than its file: other files, and commands that are run.
_MORE: Final = re.compile(r"^\s*(?:Match|Include)\b", re.IGNORECASE | re.MULTILINE)
# One thread, as threads that compute take the interpreter from the event loop by turns: six of them, for the hundred
# nodes of a cluster, kept it from its work for seconds.
_READER: Final = ThreadPoolExecutor(1, "ssh configuration")
_STRICT: Final = re.compile(r"^\s*StrictHostKeyChecking\s*[ =]\s*\"?(\S+?)\"?\s*$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Hop:
    """One connection on the way. alias: what the configuration was asked for; host: where it goes.

    identities: private key files in order, `explicit_identities` when the configuration names them. lax: the
    StrictHostKeyChecking value that the configuration asks for and that is not followed. ciphers: it names some.
    options: the configuration as it was parsed for this host, where that can be used again; None: parse `config`."""

    alias: str
    host: str
    port: int
    user: str
    config: tuple[str, ...]
    known: KnownKeys
    key_name: str
    identities: tuple[Path, ...]
    explicit_identities: bool
    identities_only: bool
    agent_path: str | None
    host_key_algorithms: bool
    proxy_command: bool
    lax: str | None = None
    via: tuple[str, ...] = ()
    ciphers: bool = False
    options: asyncssh.SSHClientConnectionOptions | None = field(default=None, compare=False, repr=False)

    @property
    def address(self) -> str:
        where = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{where}:{self.port}"


@dataclass(frozen=True, slots=True)
class Route:
    """The hops to a node: jump hosts first, the node last."""

    node: str
    hops: tuple[Hop, ...]


def config_files(ssh_config: str | None) -> tuple[str, ...]:
    """As `ssh -F FILE`, or ~/.ssh/config where that is readable. /etc/ssh/ssh_config is not read: it holds what this
    SSH implementation may not know, and one unknown word there would keep every node away."""
    if ssh_config is not None:
        return (str(Path(ssh_config).expanduser()),)
    default = Path("~/.ssh/config").expanduser()
    return (str(default),) if os.access(default, os.R_OK) else ()


async def route_to(node: Node, ssh_config: str | None) -> Route:
    """`resolve` off the loop: a plain file by the one thread for them all, what may run commands by one of its own."""
    loop = asyncio.get_running_loop()
    if await loop.run_in_executor(_READER, _is_plain, config_files(ssh_config)):
        return await loop.run_in_executor(_READER, resolve, node, ssh_config)
    return await asyncio.to_thread(resolve, node, ssh_config)


def resolve(node: Node, ssh_config: str | None) -> Route:
    """The route to a node. Reads files and may run `Match exec` commands: call it in a thread.

    Raises TransportError(CONFIG) with file and line."""
    files = config_files(ssh_config)
    hops = _hops(node.name, files, node.host, node.user, node.port, ())
    return Route(node.name, hops)


def _hops(
    node: str, files: tuple[str, ...], alias: str, user: str | None, port: int | None, seen: tuple[str, ...]
) -> tuple[Hop, ...]:
    if len(seen) > MAX_HOPS or alias in seen:
        raise TransportError(
            Trouble.CONFIG,
            f"ProxyJump goes round in a circle: {' -> '.join([*seen, alias])}",
            node=node,
            remedy="give the jump host `ProxyJump none` in the ssh configuration",
        )
    hop, jumps = _hop(node, files, alias, user, port)
    before: tuple[Hop, ...] = ()
    for i, spec in enumerate(jumps):
        match = _JUMP.match(spec)
        if match is None:
            raise TransportError(Trouble.CONFIG, f"ProxyJump of {alias} cannot be read: {spec!r}", node=node)
        host = match["v6"] or match["host"]
        jump_port = int(match["port"]) if match["port"] else None
        # Only the first of a list may have jump hosts of its own, as with ssh -J.
        if i == 0:
            before = _hops(node, files, host, match["user"], jump_port, (*seen, alias))
        else:
            nth = _hop(node, files, host, match["user"], jump_port)[0]
            before = (*before, replace(nth, via=tuple(h.alias for h in before)))
    return (*before, replace(hop, via=tuple(h.alias for h in before)))


def _hop(
    node: str, files: tuple[str, ...], alias: str, user: str | None, port: int | None
) -> tuple[Hop, tuple[str, ...]]:
    try:
        options = _parsed(files, alias, user, port)
    except (ValueError, OSError, asyncssh.Error) as error:
        raise TransportError(
            Trouble.CONFIG,
            f"ssh configuration for {alias} cannot be used: {clean_line(str(error), limit=300)}",
            node=node,
            remedy=f"check it with: ssh -G {alias}",
        ) from None
    config = options.config
    host, host_port = options.host or alias, options.port
    tokens = {"%": "%", "d": str(Path.home()), "h": host, "n": alias, "p": str(host_port), "r": options.username}
    tokens["u"] = getpass.getuser()
    tokens["k"] = cast("str | None", config.get("HostKeyAlias")) or alias
    key_name = cast("str | None", config.get("HostKeyAlias")) or host
    named = cast("list[str] | None", config.get("IdentityFile"))
    identities = tuple(_path(p, tokens) for p in named) if named is not None else _default_identities()
    agent = config.get("IdentityAgent", os.environ.get("SSH_AUTH_SOCK", ""))
    agent_path = str(_path(_agent_name(str(agent)), tokens)) if agent else None
    jump = config.get("ProxyJump")
    hop = Hop(
        alias=alias,
        host=host,
        port=host_port,
        user=options.username,
        config=files,
        known=known_keys(_known_files(config, tokens), key_name, host_port),
        key_name=key_name,
        identities=identities,
        explicit_identities=named is not None,
        identities_only=bool(config.get("IdentitiesOnly")),
        agent_path=agent_path,
        host_key_algorithms=config.get("HostKeyAlgorithms") is not None,
        ciphers=config.get("Ciphers") is not None,
        proxy_command=config.get("ProxyCommand") is not None and not jump,
        lax=_lax(files),
        options=options if _is_plain(files) else None,
    )
    return hop, tuple(s.strip() for s in str(jump).split(",") if s.strip()) if jump else ()


def _parsed(
    files: tuple[str, ...], alias: str, user: str | None, port: int | None
) -> asyncssh.SSHClientConnectionOptions:
    """The configuration for one host. To parse it costs 6 ms where it names 128 hosts, and every connect needs it."""
    home = os.environ.get("HOME", "")
    key, stamp = (files, alias, user, port, home), tuple(_stamp(file) for file in files)
    kept = _kept.get(key)
    if kept is not None and kept[0] == stamp:
        return kept[1]
    arguments: dict[str, Any] = {"host": alias, "config": list(files), "client_keys": None, "known_hosts": b""}
    if user is not None:
        arguments["username"] = user
    if port is not None:
        arguments["port"] = port
    options = asyncssh.SSHClientConnectionOptions(**arguments)
    if options.config.has_match_final():
        options.update(host=options.host, reload=True, canonical=False, final=True)
    if _is_plain(files):
        _kept[key] = (stamp, options)
    return options


_Stamp = tuple[int, int]
_kept: dict[tuple[object, ...], tuple[tuple[_Stamp, ...], asyncssh.SSHClientConnectionOptions]] = {}
_texts: dict[str, tuple[_Stamp, str]] = {}


def _stamp(file: str) -> _Stamp:
    try:
        found = Path(file).stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _text(file: str) -> str:
    """The file as it is now; empty where it cannot be read, which its parsing tells of."""
    stamp = _stamp(file)
    kept = _texts.get(file)
    if kept is None or kept[0] != stamp:
        try:
            text = Path(file).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        kept = _texts[file] = (stamp, text)
    return kept[1]


def _is_plain(files: Sequence[str]) -> bool:
    return not any(_MORE.search(_text(file)) for file in files)


def _known_files(config: Any, tokens: dict[str, str]) -> list[Path]:
    """asyncssh takes `UserKnownHostsFile none` as "check nothing"; to ssh it means "no file", and so it does here."""
    user = config.get("UserKnownHostsFile", list(USER_FILES))
    everyone = config.get("GlobalKnownHostsFile", list(GLOBAL_FILES))
    return [_path(p, tokens) for p in [*user, *everyone]]


def _path(text: str, tokens: dict[str, str]) -> Path:
    """`~`, `%d`-like tokens and `${NAME}` as ssh_config(5) expands them; an unknown token stays as written."""
    text = re.sub(r"%(.)", lambda m: tokens.get(m[1], m[0]), text)
    text = re.sub(r"\$\{(\w+)\}", lambda m: os.environ.get(m[1], m[0]), text)
    return Path(text).expanduser()


def _agent_name(text: str) -> str:
    if text == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK", "")
    return os.environ.get(text[1:], "") if text.startswith("$") and not text.startswith("${") else text


def _default_identities() -> tuple[Path, ...]:
    """The files that ssh(1) tries when the configuration names none."""
    folder = Path("~/.ssh").expanduser()
    return tuple(folder / f"id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk"))


def _lax(files: Sequence[str]) -> str | None:
    """A StrictHostKeyChecking value that asks for less than a check. asyncssh skips the option, so the text is read."""
    for file in files:
        for match in _STRICT.finditer(_text(file)):
            if match[1].lower() in ("no", "off", "accept-new"):
                return match[1]
    return None
