"""What broke on the way to a node, in words that say what to do."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from enum import IntEnum

import asyncssh

from console.base.text import clean_line
from console.transport.base import TransportError, Trouble
from console.transport.ssh_config import Hop
from console.transport.ssh_known import DEFAULT_PORT, fingerprint


class Phase(IntEnum):
    """How far an attempt came."""

    PREPARING = 0
    CONNECTING = 1
    GREETING = 2  # TCP accepted, no banner yet
    EXCHANGING = 3  # banner came, keys are being agreed on
    LOGGING_IN = 4
    OPEN = 5


@dataclass(slots=True)
class Attempt:
    """One attempt to reach a node, told as it goes: errors are made from it."""

    node: str
    hop: Hop | None = None
    is_jump: bool = False
    phase: Phase = Phase.PREPARING
    offered: asyncssh.SSHKey | None = None
    tried: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def where(self) -> str:
        if self.hop is None:
            return self.node
        role = "jump host " if self.is_jump else ""
        return f"{role}{self.hop.alias} ({self.hop.address})"

    def error(self, trouble: Trouble, what: str, remedy: str = "") -> TransportError:
        return TransportError(trouble, what, node=self.node, remedy=remedy)


def timed_out(attempt: Attempt, seconds: float) -> TransportError:
    """An attempt that reached its limit: what it waited for decides what it means."""
    where, limit = attempt.where(), f"{seconds:.3g} s"
    if attempt.phase <= Phase.CONNECTING:
        return attempt.error(Trouble.UNREACHABLE, f"{where}: no answer in {limit}", "is it up, and on this network?")
    if attempt.phase == Phase.GREETING:
        what = f"{where}: took the connection but sent no SSH greeting in {limit}"
    elif attempt.phase == Phase.EXCHANGING:
        what = f"{where}: greeted but did not finish the key exchange in {limit}"
    else:
        what = f"{where}: did not finish the login in {limit}"
    return attempt.error(
        Trouble.SILENT, what, "a node out of memory looks like this; its console or power control is the way in"
    )


def explain(attempt: Attempt, error: BaseException) -> TransportError:
    """Any error of an attempt as a TransportError."""
    if isinstance(error, TransportError):
        return error
    said = clean_line(str(error), limit=300)
    where = attempt.where()
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return host_key_error(attempt, said)
    if isinstance(error, asyncssh.PermissionDenied) or "too many authentication failures" in said.lower():
        return auth_error(attempt, said)
    if isinstance(error, asyncssh.ChannelOpenError):
        return _through_jump(attempt, error, said)
    if isinstance(error, asyncssh.KeyExchangeFailed):
        if attempt.hop is not None and attempt.hop.known.keys and "host key" in said.lower():
            return host_key_error(attempt, said)
        return attempt.error(Trouble.CONFIG, f"{where}: no common algorithms: {said}")
    if isinstance(error, asyncssh.ConnectionLost | ConnectionResetError | BrokenPipeError | asyncssh.DisconnectError):
        return _broke(attempt, said)
    if isinstance(error, socket.gaierror):
        return attempt.error(
            Trouble.UNKNOWN_HOST, f"{where}: the name does not resolve ({said})", "check the host's name, or /etc/hosts"
        )
    if isinstance(error, OSError):
        return _os_error(attempt, error, said)
    return attempt.error(Trouble.CONFIG, f"{where}: {type(error).__name__}: {said}")


def _broke(attempt: Attempt, said: str) -> TransportError:
    where = attempt.where()
    if attempt.phase <= Phase.GREETING:
        if attempt.hop is not None and attempt.hop.proxy_command:
            return attempt.error(Trouble.UNREACHABLE, f"{where}: the ProxyCommand ended before a greeting ({said})")
        return attempt.error(
            Trouble.LOST,
            f"{where}: closed the connection before its greeting ({said})",
            "sshd turns connections away like this beyond its MaxStartups",
        )
    return attempt.error(Trouble.LOST, f"{where}: the connection broke during the login ({said})")


def _os_error(attempt: Attempt, error: OSError, said: str) -> TransportError:
    where = attempt.where()
    if isinstance(error, ConnectionRefusedError) or _all_refused(said):
        return attempt.error(
            Trouble.REFUSED, f"{where}: refused the connection", "the host is up and sshd is not listening there"
        )
    if attempt.phase == Phase.PREPARING:
        return attempt.error(Trouble.CONFIG, f"{where}: {said}")
    return attempt.error(Trouble.UNREACHABLE, f"{where}: cannot be reached ({said})", "is it up, and on this network?")


def _all_refused(said: str) -> bool:
    numbers = set(re.findall(r"\[Errno (\d+)\]", said))
    return numbers == {"111"} or numbers == {"61"}  # Linux, macOS


def _through_jump(attempt: Attempt, error: asyncssh.ChannelOpenError, said: str) -> TransportError:
    """The last jump host could not open its connection to this hop."""
    where = attempt.where()
    if "refused" in said.lower():
        return attempt.error(Trouble.REFUSED, f"{where}: refused the connection from the jump host ({said})")
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return attempt.error(
            Trouble.CHANNEL,
            f"the jump host does not allow connections to {where} ({said})",
            "its sshd needs AllowTcpForwarding yes",
        )
    return attempt.error(Trouble.UNREACHABLE, f"{where}: cannot be reached from the jump host ({said})")


def shell_refused(node: str, status: int | None, signal: str | None, said: str) -> TransportError:
    """The connection stands, and the account's login shell ended before it came to the command."""
    ended = f"exit status {status}" if status is not None else f"signal {signal}"
    words = f"it said: {clean_line(said, limit=200)}" if said else "it said nothing, as /bin/false does"
    return TransportError(
        Trouble.SHELL,
        f"the account's login shell refuses commands: it ended with {ended} before the command began; {words}",
        node=node,
        remedy="on the node, `getent passwd USER` names the shell, and `chsh` changes it; an rc file or a forced "
        "command may also end it",
    )


def auth_error(attempt: Attempt, said: str) -> TransportError:
    """Permission denied, with the keys that were offered and those that could not be."""
    tried = f"offered {', '.join(attempt.tried)}" if attempt.tried else "no usable key was found"
    notes = f"; {'; '.join(attempt.notes)}" if attempt.notes else ""
    user = attempt.hop.user if attempt.hop is not None else "?"
    remedy = f"authorize one of these keys for {user} on it, or name the right IdentityFile"
    if any("passphrase" in note for note in attempt.notes):
        remedy = "load the key into an agent: eval $(ssh-agent); ssh-add"
    if "too many" in said.lower():
        remedy = "the agent holds more keys than sshd takes: set IdentitiesOnly yes and IdentityFile for this host"
    return attempt.error(Trouble.AUTH, f"{attempt.where()}: {said}: {tried}{notes}", remedy)


def host_key_error(attempt: Attempt, said: str) -> TransportError:
    """Unknown, changed or revoked; the remedy is the command that fixes it."""
    hop = attempt.hop
    if hop is None:
        return attempt.error(Trouble.HOST_KEY, said)
    offered = fingerprint(attempt.offered) if attempt.offered is not None else "a key that was not shown"
    where = attempt.where()
    name = f"[{hop.key_name}]:{hop.port}" if hop.port != DEFAULT_PORT and hop.key_name == hop.host else hop.key_name
    if "revoked" in said.lower():
        return attempt.error(
            Trouble.HOST_KEY, f"{where}: its host key is marked @revoked in known_hosts", "do not connect to it"
        )
    if hop.known.keys:
        known = ", ".join(fingerprint(k) for k in hop.known.keys)
        file = hop.known.key_file or ""
        return attempt.error(
            Trouble.HOST_KEY,
            f"{where}: its host key has CHANGED: it offers {offered}; {file} knows {known}",
            f"only if you know why it changed: ssh-keygen -R '{name}' -f {file}; then {_learn(attempt, hop)}",
        )
    lax = f" (StrictHostKeyChecking {hop.lax} is not followed here)" if hop.lax else ""
    return attempt.error(
        Trouble.HOST_KEY,
        f"{where}: its host key is not known: it offers {offered}{lax}",
        "compare that with the node's own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), "
        f"then {_learn(attempt, hop)}",
    )


def _learn(attempt: Attempt, hop: Hop) -> str:
    """ssh-keyscan reaches only hosts that are reached directly and known by their own name."""
    file = hop.known.key_file or (hop.known.files[0] if hop.known.files else "~/.ssh/known_hosts")
    if hop.via or hop.proxy_command or hop.key_name != hop.host:
        return f"run once: ssh {hop.alias} true"
    port = f"-p {hop.port} " if hop.port != DEFAULT_PORT else ""
    return f"ssh-keyscan {port}{hop.host} >> {file}"
