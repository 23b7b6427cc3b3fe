"""The keys that a login may offer, from the agent and from files, and why others cannot be used."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncssh
from asyncssh.agent import SSHAgentClient

from console.base.text import clean_line
from console.transport.ssh_config import Hop

AGENT_LIMIT_S: Final = 3.0


@dataclass(slots=True)
class Identities:
    """keys: to be offered in order. labels: the same for a person. notes: what could not be used, and what it needs."""

    keys: list[asyncssh.SSHKeyPair] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    agent: SSHAgentClient | None = None

    def add(self, pair: asyncssh.SSHKeyPair, label: str) -> None:
        self.keys.append(pair)
        self.labels.append(label)

    def close(self) -> None:
        if self.agent is not None:
            self.agent.close()


async def gather_identities(hop: Hop) -> Identities:
    """In ssh's order: agent keys that the configuration names, others (unless IdentitiesOnly), then key files."""
    found = Identities()
    files = await asyncio.to_thread(_read_files, hop)
    agent_keys = await _agent_keys(hop, found)
    named = {f.public for f in files if f.public is not None}
    first = [k for k in agent_keys if k.public_data in named]
    rest = [] if hop.identities_only else [k for k in agent_keys if k.public_data not in named]
    for key in [*first, *rest]:
        found.add(key, f"agent: {clean_line(key.get_comment() or key.get_algorithm(), limit=80)}")
    in_agent = {k.public_data for k in first}
    for file in files:
        if file.public is not None and file.public in in_agent:
            continue
        for pair in file.pairs:
            found.add(pair, str(file.path))
        if file.note:
            found.notes.append(file.note)
    if not hop.explicit_identities and not files:
        found.notes.append("no key file in ~/.ssh and none in the ssh configuration")
    return found


@dataclass(frozen=True, slots=True)
class _KeyFile:
    path: Path
    pairs: tuple[asyncssh.SSHKeyPair, ...]
    public: bytes | None
    note: str


def _read_files(hop: Hop) -> list[_KeyFile]:
    """Blocking: files are read and RSA keys checked."""
    return [f for path in hop.identities if (f := _read_file(path, hop.explicit_identities)) is not None]


def _read_file(path: Path, explicit: bool) -> _KeyFile | None:
    public = _public(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        # ssh passes over a missing default file without a word; a named one deserves one.
        if public is None and not explicit:
            return None
        return _KeyFile(path, (), public, f"{path}: there is no such file" if explicit else "")
    except OSError as error:
        return _KeyFile(path, (), public, f"{path}: {error.strerror}")
    try:
        pairs = tuple(asyncssh.load_keypairs(str(path)))
    except (ValueError, OSError, asyncssh.Error) as error:
        if _is_encrypted(data, str(error)):
            return _KeyFile(path, (), public, f"{path}: has a passphrase and no agent holds it (ssh-add {path})")
        return _KeyFile(path, (), public, f"{path}: cannot be read as a key: {clean_line(str(error), limit=120)}")
    return _KeyFile(path, pairs, public if public is not None else pairs[0].public_data if pairs else None, "")


def _public(path: Path) -> bytes | None:
    """The public half, readable also where the private one is not: FILE.pub, or FILE itself when it is public."""
    for candidate in (Path(f"{path}.pub"), path):
        try:
            return asyncssh.read_public_key(str(candidate)).public_data
        except (OSError, ValueError):
            continue
    return None


def _is_encrypted(data: bytes, said: str) -> bool:
    return "passphrase" in said.lower() or re.search(rb"ENCRYPTED|bcrypt", data) is not None


async def _agent_keys(hop: Hop, found: Identities) -> Sequence[asyncssh.SSHKeyPair]:
    if hop.agent_path is None:
        return ()
    try:
        async with asyncio.timeout(AGENT_LIMIT_S):
            found.agent = await asyncssh.connect_agent(hop.agent_path)
            return await found.agent.get_keys()
    except TimeoutError:
        found.notes.append(f"the ssh agent at {hop.agent_path} did not answer in {AGENT_LIMIT_S:.0f} s")
    except (OSError, ValueError, asyncssh.Error) as error:
        found.notes.append(
            f"no ssh agent answers at {hop.agent_path} ({clean_line(str(error), limit=80)}); "
            "SSH_AUTH_SOCK goes stale inside tmux after a new login"
        )
    return ()
