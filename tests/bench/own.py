"""nightdeck's own figures: the command as a script calls it, on the same bed and the same stub engine."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from tests.bench.ground import Ground
from tests.bench.limits import cleared
from tests.bench.measure import Measure, Unmeasurable

RECIPE = "dsv41-flash-8x"
ROOT = Path(__file__).parents[2]


def environment(ground: Ground) -> dict[str, str]:
    home = ground.bed.folder / "console-home"
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NIGHTDECK_", "XDG_", "SSH_"))}
    return kept | {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")}


async def nightdeck(ground: Ground, *argv: str) -> tuple[float, int, str, str]:
    """Run the command; wall seconds, exit code, stdout, stderr. Unmeasurable where there is no such command yet."""
    command = [sys.executable, "-m", "console", "--cluster", str(ground.bed.cluster_toml()), "--json", *argv]
    start = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env=environment(ground),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    seconds = time.perf_counter() - start
    text, said = out.decode(errors="replace"), err.decode(errors="replace")
    if process.returncode == 1 and "No module named console" in said:
        raise Unmeasurable("no `nightdeck` command in this checkout")
    return seconds, process.returncode or 0, text, said


async def overridden(ground: Ground) -> None:
    """Find out which options override what the preflight blocks on a bed (it has no 121 GiB a node)."""
    if ground.overrides is not None:
        return
    _, code, out, said = await nightdeck(ground, "preflight", RECIPE)
    try:
        findings = json.loads(out)["findings"]
    except (json.JSONDecodeError, KeyError) as error:
        raise Unmeasurable(f"`nightdeck preflight` ended with {code}: {said.strip()[-120:]}") from error
    codes = sorted({finding["code"] for finding in findings if finding["severity"] == "block"})
    ground.overrides = [word for code in codes for word in ("--override", code)]


async def launch_detached(ground: Ground) -> float:
    """Until every container is up, from the shell's prompt and back to it."""
    return await _launch(ground, "--detach")


async def launch_to_ready(ground: Ground) -> float:
    """Until a real request was answered."""
    return await _launch(ground)


async def _launch(ground: Ground, *flags: str) -> float:
    seconds, code, _, said = await nightdeck(ground, "launch", RECIPE, *flags, *(ground.overrides or ()))
    if code != 0:
        raise Unmeasurable(f"`nightdeck launch` ended with {code}: {said.strip()[-120:]}")
    return seconds


async def stop(ground: Ground) -> float:
    """Until every node answered that nothing is left, from the shell's prompt and back to it."""
    seconds, code, _, said = await nightdeck(ground, "stop")
    if code != 0:
        raise Unmeasurable(f"`nightdeck stop` ended with {code}: {said.strip()[-120:]}")
    return seconds


async def launched(ground: Ground) -> None:
    await overridden(ground)
    await launch_detached(ground)


LAUNCH = (
    Measure("nightdeck launch --detach, from the prompt", launch_detached, overridden, cleared),
    Measure("nightdeck launch, to ready", launch_to_ready, overridden, cleared),
)
STOP = (Measure("nightdeck stop, from the prompt", stop, launched, cleared),)
