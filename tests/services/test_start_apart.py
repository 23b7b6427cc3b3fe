"""A start on a node, really run: no secret stands on a command line, and what is under way comes to its end."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.errors import UsageError
from console.cluster.model import Cluster, Node
from console.plan.secret_env import argv_without, secret_env
from console.services.launch import Launch
from console.services.scripts import start_argv, start_input
from console.transport.local import LocalLink
from tests.plan.build import plan_of, safe, sparks, tiny
from tests.services.fakes import ManualClock

SECRET = 'hf_it\'s a "secret" \\ of\n two lines, Grüße \t\\0101%s $(id)'

# An engine that notes its words and its environment, and every command line that there is meanwhile.
ENGINE = """#!/bin/sh
printf '%s\\n' "$@" >"$0.words"
printf %s "$HF_TOKEN" >"$0.token"
for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <"$p"; echo; done >"$0.ps" 2>/dev/null
[ ! -p "$0.gate" ] || { echo "$$" >"$0.pid"; read -r x <"$0.gate"; }
echo done >"$0.done"
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    path = tmp_path / "engine"
    path.write_text(ENGINE)
    path.chmod(0o755)
    return path


class OneFleet:
    names = ("dgx1",)

    def __init__(self) -> None:
        self._link = LocalLink(Node(name="dgx1", host="dgx1"))

    def link(self, _node: str) -> LocalLink:
        return self._link

    async def close(self) -> None:
        await self._link.close()


def said(path: Path, what: str) -> str:
    """What the engine noted; empty where it has not yet."""
    note = Path(f"{path}.{what}")
    return note.read_text() if note.exists() else ""


def go(path: Path) -> None:
    """Let the engine go on. Refused where nobody waits any more."""
    gate = os.open(f"{path}.gate", os.O_WRONLY | os.O_NONBLOCK)
    os.write(gate, b"go\n")
    os.close(gate)


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not met():  # noqa: ASYNC110  another process does it
            await asyncio.sleep(0.01)


async def test_no_command_line_holds_a_secret_and_the_engine_gets_it(engine: Path) -> None:
    one = Cluster(name="c", file="", nodes=(Node(name="dgx1", host="dgx1", container_cli=str(engine)),))
    recipe = tiny(
        env={"HF_TOKEN": SECRET, "COPY": f"x{SECRET}", "PLAIN": "seen"}, required_nodes=1, tensor_parallel_size=1
    )
    plan = plan_of(recipe, one)
    fleet = OneFleet()
    launch = Launch(plan, fleet, one, ManualClock(), lambda _event: None)
    await launch.run()
    await fleet.close()
    assert launch.results == {"dgx1": ("started", "")}
    assert said(engine, "token") == SECRET
    words = said(engine, "words").splitlines()
    assert "HF_TOKEN" in words and "COPY" in words and "PLAIN=seen" in words
    seen = said(engine, "ps")
    assert "PLAIN=seen" in seen and "hf_it" not in seen and "secret" not in seen


@pytest.mark.parametrize("shell", ["sh", "bash"])
@given(value=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40))
@settings(max_examples=12, deadline=None)
def test_any_value_arrives_as_it_is(shell: str, value: str) -> None:
    words = start_argv((), ["sh", "-c", 'printf %s "$A" "$B"'], secrets=("A", "B"))
    done = subprocess.run([shell, *words[1:]], input=start_input((value, "end")), capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, value.encode() + b"end"), done.stderr


async def test_without_its_values_nothing_starts() -> None:
    link = LocalLink(Node(name="dgx1", host="dgx1"))
    done = await link.run(start_argv((), ["echo", "started"], secrets=("A", "B")), timeout=20, stdin=start_input("x"))
    assert (done.status, done.stdout) == (93, b"") and b"the value of B did not come" in done.stderr
    with pytest.raises(UsageError, match=r"A\.B"):
        start_argv((), ["true"], secrets=("A.B",))
    await link.close()


async def test_a_start_that_is_cut_off_comes_to_its_end(engine: Path) -> None:
    """An engine's command that is ended in the middle of a start hands the signal to what it has begun."""
    os.mkfifo(f"{engine}.gate")
    link = LocalLink(Node(name="dgx1", host="dgx1"))
    starting = asyncio.create_task(link.run(start_argv((), [str(engine)]), timeout=60))
    await until(lambda: said(engine, "pid").endswith("\n"))
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await link.close()
    go(engine)
    await until(lambda: said(engine, "done") == "done\n")


def test_what_leaves_the_command_line_is_what_is_secret() -> None:
    recipe = safe(env={"HF_TOKEN": "hf_abc", "MAX_TOKENS": "5", "URL": "https://me:pa55word@host/", "EMPTY_TOKEN": ""})
    plan = plan_of(recipe, sparks())
    rank = plan.ranks[3]
    hidden = secret_env(plan, rank)
    assert hidden == {"HF_TOKEN": "hf_abc", "URL": "https://me:pa55word@host/"}
    sent = argv_without(rank, hidden)
    assert len(sent) == len(rank.argv) and {*rank.argv} - {*sent} == {f"{k}={v}" for k, v in hidden.items()}
    assert {*sent} - {*rank.argv} == {"HF_TOKEN", "URL"}
