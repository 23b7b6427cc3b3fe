"""The command line of `docker run` and `docker create`, read as docker reads it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from console.lab.containers import Spec

_VALUES: Final = frozenset(
    [
        "name",
        "label",
        "env",
        "env-file",
        "volume",
        "mount",
        "network",
        "net",
        "ipc",
        "pid",
        "gpus",
        "device",
        "cap-add",
        "cap-drop",
        "ulimit",
        "shm-size",
        "memory",
        "memory-swap",
        "memory-swappiness",
        "oom-score-adj",
        "restart",
        "entrypoint",
        "workdir",
        "user",
        "hostname",
        "add-host",
        "publish",
        "expose",
        "pull",
        "log-driver",
        "log-opt",
        "runtime",
        "security-opt",
        "stop-timeout",
        "stop-signal",
        "cpus",
        "cpuset-cpus",
        "cpu-shares",
        "platform",
        "tmpfs",
        "group-add",
        "sysctl",
        "cidfile",
        "cgroup-parent",
        "annotation",
        "userns",
        "uts",
        "dns",
        "label-file",
        "init-path",
        "storage-opt",
    ]
)
_SWITCHES: Final = frozenset(
    [
        "detach",
        "interactive",
        "tty",
        "rm",
        "init",
        "privileged",
        "read-only",
        "no-healthcheck",
        "quiet",
        "oom-kill-disable",
        "publish-all",
        "sig-proxy",
    ]
)
_SHORT: Final = {
    "l": "label", "e": "env", "v": "volume", "m": "memory", "w": "workdir", "u": "user", "h": "hostname",
    "p": "publish", "d": "detach", "i": "interactive", "t": "tty", "q": "quiet", "P": "publish-all", "c": "cpu-shares",
}  # fmt: skip
HELP: Final = "\n\nRun 'docker run --help' for more information\n"


class BadFlag(Exception):
    """docker's own words for a command line that it does not take."""


@dataclass(slots=True)
class RunCommand:
    """flags: every value of every flag, in order. rest: the image and its words."""

    flags: dict[str, list[str]] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)

    def last(self, name: str, default: str = "") -> str:
        return self.flags.get(name, [default])[-1]

    def on(self, name: str) -> bool:
        return self.last(name, "false") != "false"


def parse(args: Sequence[str]) -> RunCommand:
    """Raises BadFlag."""
    command = RunCommand()
    words = list(args)
    while words:
        word = words.pop(0)
        if word == "--":
            command.rest = words
            break
        if not word.startswith("-") or word == "-":
            command.rest = [word, *words]
            break
        name, sep, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            name, value, sep = _short(word, words, command)
            if not name:
                continue
        if name in _SWITCHES:
            command.flags.setdefault(name, []).append(value if sep else "true")
        elif name in _VALUES:
            if not sep:
                if not words:
                    raise BadFlag(f"flag needs an argument: --{name}")
                value = words.pop(0)
            command.flags.setdefault("network" if name == "net" else name, []).append(value)
        else:
            raise BadFlag(f"unknown flag: --{name}")
    if not command.rest:
        raise BadFlag("'docker run' requires at least 1 argument")
    return command


def _short(word: str, words: list[str], command: RunCommand) -> tuple[str, str, str]:
    """One bundle such as `-dit` or `-eA=B`: switches are noted, a flag with a value is handed back."""
    letters = word[1:]
    while letters:
        name = _SHORT.get(letters[0])
        if name is None:
            raise BadFlag(f"unknown shorthand flag: '{letters[0]}' in {word}")
        letters = letters[1:]
        if name in _SWITCHES:
            command.flags.setdefault(name, []).append("true")
            continue
        if not letters and not words:
            raise BadFlag(f"flag needs an argument: '{word[-1]}' in {word}")
        return name, letters.removeprefix("=") if letters else words.pop(0), "="
    return "", "", ""


def spec(command: RunCommand) -> Spec:
    """The container that the command asks for. Raises BadFlag for a mount that docker refuses."""
    labels = dict(v.partition("=")[::2] for v in command.flags.get("label", []))
    binds = command.flags.get("volume", [])
    mounts = [_mount(v) for v in command.flags.get("mount", [])]
    for bind in binds:
        source = bind.split(":")[0]
        if source.startswith("/") and not Path(source).exists():
            Path(source).mkdir(parents=True, exist_ok=True)  # as docker does, to everybody's surprise
    entry = command.flags.get("entrypoint")
    gpus = command.flags.get("gpus")
    host_config: dict[str, Any] = {
        "NetworkMode": command.last("network", "bridge"),
        "IpcMode": command.last("ipc", "private"),
        "Binds": binds or None,
        "Mounts": mounts,
        "ShmSize": command.last("shm-size", "67108864"),
        "Memory": command.last("memory", "0"),
        "Ulimits": [_ulimit(v) for v in command.flags.get("ulimit", [])],
        "CapAdd": command.flags.get("cap-add"),
        "Devices": [{"PathOnHost": v.split(":")[0]} for v in command.flags.get("device", [])],
        "DeviceRequests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}] if gpus else None,
        "RestartPolicy": {"Name": command.last("restart", "no").split(":")[0], "MaximumRetryCount": 0},
        "Privileged": command.on("privileged"),
    }
    return Spec(
        image=command.rest[0],
        name=command.last("name"),
        cmd=tuple(command.rest[1:]),
        entrypoint=None if entry is None else tuple(shlex.split(entry[-1])[:1]),
        labels=labels,
        env=tuple(v for v in command.flags.get("env", []) if "=" in v),
        host_config=host_config,
        auto_remove=command.on("rm"),
        tty=command.on("tty"),
    )


def _mount(text: str) -> dict[str, Any]:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    source = fields.get("source", fields.get("src", ""))
    target = fields.get("target", fields.get("destination", fields.get("dst", "")))
    if fields.get("type") == "bind" and not Path(source).exists():
        raise BadFlag(
            'Error response from daemon: invalid mount config for type "bind": '
            f"bind source path does not exist: {source}"
        )
    return {"Type": fields.get("type", "volume"), "Source": source, "Target": target, "ReadOnly": "readonly" in fields}


def _ulimit(text: str) -> dict[str, Any]:
    name, _, limits = text.partition("=")
    soft, _, hard = limits.partition(":")
    if not soft.lstrip("-").isdigit():
        raise BadFlag(f'invalid argument "{text}" for "--ulimit" flag: invalid ulimit argument: {text}')
    return {"Name": name, "Soft": int(soft), "Hard": int(hard or soft)}
