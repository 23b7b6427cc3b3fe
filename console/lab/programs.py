"""What runs in a lab container: an engine's rank, or one of a few plain commands."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from console.lab.containers import Container, Program
from console.lab.logstore import STDERR
from console.lab.vllm_args import FLAGS, BadArgument, parse
from console.lab.vllm_rank import Rank
from console.lab.world import LabNode, World

# What a terminal, a decoder or a parser may choke on; each in a line of its own.
_HOSTILE = (
    b"\x1b[2J\x1b[H\x1b]0;owned\x07\x1b[31mred for ever\n",
    b"\xff\xfe\x80\x81 broken UTF-8 \xc3\x28 \xed\xa0\x80\n",
    b"(Worker_TP2 pid=9) \x1b]52;c;cm0gLXJmIC8=\x07 clipboard\n",
    b"\x00\x01\x02\x07\x08 control codes \x9b31m C1\n",
    "‮desrever‬ and \u2066isolated\u2069\n".encode(),
    b"[bold red]markup[/] [link=http://x]y[/link] $(reboot) `id` '; rm -rf /\n",
    b"INFO 99-99 99:99:99 [x.py:-1] Model loading took NaN GiB memory and inf seconds\n",
    b"Loading safetensors checkpoint shards: 9999% Completed | 99/0 [??:??<?, ?it/s]\n",
    b"\n",
)


class Plain:
    """A command that prints some lines and ends, or sleeps."""

    def __init__(self, container: Container, lines: Sequence[str], code: int = 0, seconds: float = 0.0) -> None:
        self._container = container
        self._lines = lines
        self._code = code
        self._seconds = seconds
        self._end = asyncio.Event()

    async def run(self) -> int:
        for line in self._lines:
            self._container.logs.text(line, STDERR if self._code else 1)
        if self._seconds:
            try:
                await asyncio.wait_for(self._end.wait(), self._seconds)
            except TimeoutError:
                return self._code
            return 143
        return self._code

    def terminate(self) -> None:
        self._end.set()


class Hostile:
    """A rank whose log is an attack: it boots like any other and prints without end beside it."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank

    async def run(self) -> int:
        noise = asyncio.create_task(self._noise())
        try:
            return await self._rank.run()
        finally:
            noise.cancel()
            await asyncio.gather(noise, return_exceptions=True)

    def terminate(self) -> None:
        self._rank.terminate()

    async def _noise(self) -> None:
        logs = self._rank.container.logs
        for line in _HOSTILE:
            logs.add(line, STDERR)
        logs.add(b"x" * (10 << 20) + b"\n")
        number = 0
        while True:
            for _ in range(50):
                number += 1
                logs.add(
                    _HOSTILE[number % len(_HOSTILE)]
                    if number % 7 == 0
                    else f"noise {number} {'=' * (number % 90)}\n".encode()
                )
            await asyncio.sleep(0.05)


class Burn:
    """A python3 that works on the GPU for two seconds and says how fast it was."""

    def __init__(self, container: Container, node: LabNode) -> None:
        self._container = container
        self._machine = node.machine
        self._end = asyncio.Event()

    async def run(self) -> int:
        key = f"burn {self._container.id}"
        self._machine.load(key).util = 97.0
        try:
            await asyncio.wait_for(self._end.wait(), 2.0)
        except TimeoutError:
            rate = 19.42 if self._machine.latched else 81.3 + self._machine.number % 4
            self._container.logs.text(f"burn {rate:.2f}", 1)
            return 0
        finally:
            self._machine.loads.pop(key, None)
        return 143

    def terminate(self) -> None:
        self._end.set()


def launcher(world: World, node: LabNode) -> Callable[[Container], Program]:
    """What docker starts on this node."""

    def launch(container: Container) -> Program:
        words = list(container.command)
        if len(words) >= 3 and PurePosixPath(words[0]).name in ("sh", "bash") and words[1] in ("-c", "-lc"):
            words = shlex.split(words[2])
        if words and words[0] == "exec":
            words = words[1:]
        arguments = _engine_arguments(words)
        if words[1:2] == ["-c"] and "torch" in " ".join(words[2:3]):
            return Burn(container, node)
        if arguments is None:
            return _plain(container, words)
        if any(word.startswith("--help") for word in arguments):
            return Plain(container, ["usage: vllm serve [model_tag] [options]", *(f"  --{f}" for f in sorted(FLAGS))])
        if world.strikes("bad-flag"):
            flag = next((w for w in arguments if w.startswith("--")), "--no-such-flag")
            return Plain(container, _usage(f"unrecognized arguments: {flag}-typo"), 2)
        try:
            args = parse(arguments)
        except BadArgument as e:
            return Plain(container, _usage(str(e)), 2)
        rank = Rank(world, node, container, args)
        if world.strikes_rank("half-stop", node, rank.rank, args.world):
            container.stubborn = True
        return Hostile(rank) if world.strikes("hostile", node) else rank

    return launch


def _usage(message: str) -> list[str]:
    return [
        "usage: vllm serve [model_tag] [options]",
        f"vllm: error: {message}" if message.startswith("unrecognized") else f"vllm serve: error: {message}",
    ]


def _engine_arguments(words: list[str]) -> list[str] | None:
    """The words after `vllm serve`, or None when this is no engine."""
    for n, word in enumerate(words):
        if PurePosixPath(word).name == "vllm" and words[n + 1 : n + 2] == ["serve"]:
            return words[n + 2 :]
        if word == "vllm.entrypoints.openai.api_server":
            return words[n + 1 :]
    return None


def _plain(container: Container, words: list[str]) -> Program:
    name = PurePosixPath(words[0]).name if words else ""
    if name == "sleep":
        text = words[1] if len(words) > 1 else "0"
        return Plain(
            container,
            [],
            0,
            1e8 if text == "infinity" else float(text) if text.replace(".", "", 1).isdigit() else 0.001,
        )
    if name in ("true", "false"):
        return Plain(container, [], int(name == "false"))
    if name == "echo":
        return Plain(container, [" ".join(words[1:])])
    return Plain(container, [f'exec: "{name}": executable file not found in $PATH'], 127)
