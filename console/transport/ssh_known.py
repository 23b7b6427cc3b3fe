"""Which host keys are trusted: known_hosts files read as OpenSSH reads them, one bad line never hiding the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncssh
from asyncssh.known_hosts import SSHKnownHosts
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

DEFAULT_PORT: Final = 22
USER_FILES: Final = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
# ssh_config(5), GlobalKnownHostsFile
GLOBAL_FILES: Final = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")

_Stamp = tuple[int, int]
_cache: dict[str, tuple[_Stamp, SSHKnownHosts]] = {}


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """What the files say of one host. `files` were looked at, in order; `key_file`: the first with a key of it."""

    keys: tuple[asyncssh.SSHKey, ...]
    authorities: tuple[asyncssh.SSHKey, ...]
    revoked: tuple[asyncssh.SSHKey, ...]
    files: tuple[str, ...]
    key_file: str | None

    def algorithms(self) -> list[str]:
        """Host key algorithms to ask for: those of the known keys first, as OpenSSH does, so that a host is asked
        for the key that can be checked; the rest after them, so that a changed host still shows a key."""
        first: list[bytes] = list(get_default_certificate_algs()) if self.authorities else []
        for key in self.keys:
            first.extend(key.sig_algorithms)
        return [a.decode("ascii") for a in dict.fromkeys([*first, *get_default_public_key_algs()])]


def load_file(path: Path) -> SSHKnownHosts | None:
    """The file, or None where it is missing or unreadable (OpenSSH skips it as well). Read again when it changes."""
    try:
        stat = path.stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        cached = _cache.get(str(path))
        if cached is not None and cached[0] == stamp:
            return cached[1]
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return None
    known = SSHKnownHosts()
    for line in text.splitlines():
        try:
            known.load(line)
        except ValueError:
            continue  # OpenSSH skips a line that it cannot read; it can only make trust smaller
    _cache[str(path)] = (stamp, known)
    return known


def known_keys(files: Iterable[Path], host: str, port: int) -> KnownKeys:
    """Keys of `host` (a HostKeyAlias where there is one). By name only, not by the peer's address, as OpenSSH does
    with its default CheckHostIP=no."""
    keys: list[asyncssh.SSHKey] = []
    authorities: list[asyncssh.SSHKey] = []
    revoked: list[asyncssh.SSHKey] = []
    looked: list[str] = []
    key_file: str | None = None
    for path in files:
        looked.append(str(path))
        known = load_file(path)
        if known is None:
            continue
        found = known.match(host, "", port if port != DEFAULT_PORT else None)
        if found[0] and key_file is None:
            key_file = str(path)
        _extend(keys, found[0])
        _extend(authorities, found[1])
        _extend(revoked, found[2])
        if port != DEFAULT_PORT:
            _extend(revoked, known.match(host, "", None)[2])
    return KnownKeys(tuple(keys), tuple(authorities), tuple(revoked), tuple(looked), key_file)


def _extend(to: list[asyncssh.SSHKey], more: Sequence[asyncssh.SSHKey]) -> None:
    to.extend(key for key in more if key not in to)


def fingerprint(key: asyncssh.SSHKey) -> str:
    """`ssh-ed25519 SHA256:...`, as ssh-keygen -l and ssh print it."""
    return f"{key.algorithm.decode('ascii', 'replace')} {key.get_fingerprint()}"
