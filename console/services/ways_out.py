"""How an alarm leaves the console: the terminal's bell and notifications, a command of the operator's, a webhook."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import h11

from console.base.secrets import MASK
from console.base.text import clean_bytes, clean_line
from console.boot.to_json import stamp
from console.telemetry.alarm_rules import WaysPolicy
from console.telemetry.alarms import Alarm

DEADLINE_S: Final = 15.0
ASK_TMUX_S: Final = 3.0


class WayError(Exception):
    """An alarm did not get out; the text says why, secrets masked."""


class Way(Protocol):
    """One way out. `name` is what `alarms test NAME` takes; `where` is safe to show."""

    name: str

    @property
    def where(self) -> str: ...

    async def send(self, alarm: Alarm) -> None:
        """Raises WayError. Bounded by the caller's deadline."""
        ...


def alarm_json(alarm: Alarm) -> dict[str, Any]:
    """An alarm as commands, webhooks and `--json` give it."""
    return {
        "schema": 1,
        "id": alarm.id,
        "code": alarm.code,
        "severity": str(alarm.severity),
        "state": "raised" if alarm.active else "cleared",
        "subject": alarm.subject,
        "node": alarm.node,
        "text": alarm.text,
        "raised_at": stamp(alarm.raised_at),
        "cleared_at": stamp(alarm.cleared_at),
        "count": alarm.count,
        "acknowledged_at": stamp(alarm.acked_at),
        "muted": alarm.muted,
    }


def headline(alarm: Alarm) -> str:
    """One line for people; a cleared alarm says that it is over."""
    return clean_line(f"{'' if alarm.active else 'over: '}{alarm.text}", limit=300)


def notification(env: Mapping[str, str], title: str, body: str, style: str = "auto") -> str:
    """Escape sequence that makes a terminal notify, "" where `style` is off. Inside tmux it passes through (tmux needs
    `allow-passthrough on`). OSC 9: iTerm2, Windows Terminal; OSC 777: rxvt, foot, ghostty, wezterm; OSC 99: kitty."""
    if style == "off":
        return ""
    title, body = (clean_line(t, limit=200).replace(";", ",") for t in (title, body))
    if style == "auto":
        told = f"{env.get('TERM', '')} {env.get('TERM_PROGRAM', '')} {env.get('LC_TERMINAL', '')}".lower()
        # Inside tmux TERM is tmux's own; what it was started in still shows in these.
        if "kitty" in told or "KITTY_WINDOW_ID" in env:
            style = "osc99"
        elif any(t in told for t in ("rxvt", "foot", "ghostty", "wezterm")):
            style = "osc777"
        else:
            style = "osc9"
    if style == "osc99":
        text = f"\x1b]99;i=nightdeck:d=0;{title}\x1b\\\x1b]99;i=nightdeck:p=body;{body}\x1b\\"
    elif style == "osc777":
        text = f"\x1b]777;notify;{title};{body}\x1b\\"
    else:
        # A digit after `9;` would be read as a progress report.
        text = f"\x1b]9;{title}: {body}\x1b\\" if not title[:1].isdigit() else f"\x1b]9;nightdeck {title}: {body}\x1b\\"
    if "TMUX" in env:
        return "\x1bPtmux;" + text.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return text


class TerminalWay:
    """Bytes to the terminal that the console draws on. write: given by the face, since it owns the terminal."""

    def __init__(self, name: str, write: Callable[[str], None], *, style: str, env: Mapping[str, str]) -> None:
        self.name = name
        self._write = write
        self._style = style
        self._env = dict(env)

    @property
    def where(self) -> str:
        return "the bell" if self.name == "bell" else f"the terminal ({self._style})"

    async def send(self, alarm: Alarm) -> None:
        swallowed = self.name != "bell" and self._style != "off" and await swallowed_by_tmux(self._env)
        try:
            if self.name == "bell" or swallowed:
                self._write("\a")  # tmux hands a bell on whatever its settings are
            else:
                self._write(notification(self._env, "nightdeck", headline(alarm), self._style))
        except (OSError, ValueError) as error:
            raise WayError(f"the terminal cannot be written to: {error}") from error
        if swallowed:
            raise WayError("tmux lets no notification through, so the bell rang: `set -g allow-passthrough on` there")


async def swallowed_by_tmux(env: Mapping[str, str]) -> bool:
    """True where the tmux around us drops what is meant for the terminal behind it, as it does unless it is told not to
    (since 3.3; an older one has no such option and lets all through, and one that cannot be asked is given the chance).
    """
    if "TMUX" not in env:
        return False
    try:
        process = await asyncio.create_subprocess_exec(
            "tmux",
            "show-options",
            "-Apv",
            "allow-passthrough",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(env),
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(ASK_TMUX_S):
            said, _ = await process.communicate()
    except TimeoutError:
        return False
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return said.strip() == b"off"


class CommandWay:
    """An operator's program: argv as in the settings, the alarm as JSON on standard input and in NIGHTDECK_ALARM_*."""

    name = "command"

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)

    @property
    def where(self) -> str:
        return clean_line(self._argv[0], limit=100)

    async def send(self, alarm: Alarm) -> None:
        row = alarm_json(alarm)
        words = {
            f"NIGHTDECK_ALARM_{k.upper()}": str(row[k] or "") for k in ("code", "severity", "state", "node", "text")
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **words},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise WayError(f"cannot be started: {error}") from error
        try:
            _, said = await process.communicate(json.dumps(row).encode() + b"\n")
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            raise WayError(f"ended with {process.returncode}: {clean_bytes(said.strip()[-300:], limit=200)}")


def _has_dns_form(host: str) -> bool:
    """False for a host that no resolver can be asked for: an empty label, one of more than 63 characters."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


class WebhookWay:
    """An HTTPS POST of the alarm as JSON. No redirect is followed; plain http is taken for this machine alone."""

    name = "webhook"

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._parts = parts
        self._host = parts.hostname or ""
        local = self._host in ("127.0.0.1", "localhost", "::1")
        try:
            self._port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            self._port = 0
        self.wrong = ""
        if not self._host or not self._port or any(ord(c) <= 32 for c in url) or not _has_dns_form(self._host):
            self.wrong = "not an address"
        elif parts.scheme != "https" and not (parts.scheme == "http" and local):
            self.wrong = "only https is taken (and http to this machine)"
        elif parts.username or parts.password:
            self.wrong = "a name and password in the address are not taken"

    @property
    def where(self) -> str:
        """The host alone: the path of a webhook is its secret."""
        return f"{self._parts.scheme}://{clean_line(self._host, limit=100)}/{MASK}"

    async def send(self, alarm: Alarm) -> None:
        if self.wrong:
            raise WayError(self.wrong)
        target = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        # Chat services show `text`; everything else is there for programs.
        body = json.dumps(alarm_json(alarm) | {"text": f"nightdeck: {headline(alarm)}"}).encode()
        try:
            status = await self._post(target, body)
        except (OSError, h11.ProtocolError, EOFError, ValueError) as error:
            raise WayError(f"no answer: {type(error).__name__}: {self._clean(str(error))}") from error
        if not 200 <= status < 300:
            raise WayError(f"it answered {status}")

    def _clean(self, text: str) -> str:
        for secret in (self._parts.path, self._parts.query):
            text = text.replace(secret, MASK) if len(secret) > 1 else text
        return clean_line(text, limit=200)

    async def _post(self, target: str, body: bytes) -> int:
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=True if self._parts.scheme == "https" else None
        )
        try:
            connection = h11.Connection(h11.CLIENT)
            headers = [
                ("Host", self._parts.netloc),
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("Connection", "close"),
                ("User-Agent", "nightdeck"),
            ]
            writer.write(connection.send(h11.Request(method="POST", target=target, headers=headers)) or b"")
            writer.write(connection.send(h11.Data(data=body)) or b"")
            await writer.drain()
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await reader.read(4096))
                elif isinstance(event, h11.Response):
                    return int(event.status_code)
                elif isinstance(event, h11.ConnectionClosed):
                    raise EOFError("it hung up")
        finally:
            writer.close()


def make_ways(policy: WaysPolicy, *, write: Callable[[str], None] | None, env: Mapping[str, str]) -> list[Way]:
    """The ways that the settings ask for. write: to the terminal, None where there is none to write to."""
    ways: list[Way] = []
    if write is not None and policy.bell:
        ways.append(TerminalWay("bell", write, style="off", env=env))
    if write is not None and policy.terminal != "off":
        ways.append(TerminalWay("terminal", write, style=policy.terminal, env=env))
    if policy.command:
        ways.append(CommandWay(policy.command))
    if policy.webhook:
        ways.append(WebhookWay(policy.webhook))
    return ways


async def send(way: Way, alarm: Alarm, *, deadline_s: float = DEADLINE_S) -> str:
    """Send by one way: "" when it went out, else why not. Never raises, never takes longer than the deadline."""
    try:
        async with asyncio.timeout(deadline_s):
            await way.send(alarm)
    except TimeoutError:
        return f"it took longer than {deadline_s:.0f} s"
    except WayError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 (a way that breaks must not end the alarms that come after)
        return f"it broke: {type(error).__name__}"
    return ""
