"""The lab's control socket: another scenario, a killed node, a look at what is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.base.errors import NightdeckError, UsageError

if TYPE_CHECKING:
    from console.lab.lab import Lab


class ControlServer:
    """One line of JSON in (`{"do": "set", "name": "node-cut"}`), one line of JSON out."""

    def __init__(self, path: Path, lab: Lab) -> None:
        self._path = path
        self._lab = lab
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._path)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            try:
                answer = await self._do(json.loads(line))
            except (NightdeckError, ValueError, AttributeError) as e:
                answer = {"error": str(e)}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except OSError:
            return  # whoever asked is gone
        finally:
            writer.close()

    async def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        lab, name = self._lab, str(request.get("name", ""))
        match request.get("do"):
            case "status":
                return {
                    "scenario": lab.world.scenario.name,
                    "speed": lab.clock.speed,
                    "cluster": str(lab.cluster_file),
                    "nodes": {
                        n.name: {
                            "silent": n.silent,
                            "cut": n.cut,
                            "running": [c.name for c in n.engine.all() if c.running],
                            "available_gib": round(n.machine.available_gib(), 2),
                        }
                        for n in lab.world.nodes.values()
                    },
                }
            case "set":
                return {"scenario": lab.choose(name).name}
            case "kill":
                return {"killed": await lab.kill(name)}
            case "freeze":
                lab.node(name).freeze()
            case "cut":
                lab.node(name).cut_off()
            case "heal":
                lab.node(name).heal()
            case other:
                raise UsageError(
                    f"the lab does not know {other!r}",
                    remedy="set NAME, kill NODE, freeze NODE, cut NODE, heal NODE, status",
                )
        return {"node": name}


async def ask(path: Path, timeout: float = 5.0, **request: Any) -> dict[str, Any]:
    """One question to a lab's control socket. Raises OSError, TimeoutError, UsageError with the lab's own words."""
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            await writer.drain()
            answer = json.loads(await reader.readline() or b'{"error": "the lab ended"}')
        finally:
            writer.close()
    if not isinstance(answer, dict) or "error" in answer:
        raise UsageError(str(answer.get("error", answer) if isinstance(answer, dict) else answer))
    return answer
