"""The word ready is withheld while the recipe's own prompts are not answered as it expects, and says which."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from console.boot.events import BootOpened, ContainerSeen, Event, RankRef
from console.boot.reduce import opened, reduce
from console.boot.state import BootState, Phase
from console.cluster.model import Cluster, Node
from console.recipe.model import SmokePrompt
from console.services.follower import Follower
from console.services.readiness import Readiness
from console.transport.base import Fleet
from tests.services.fakes import ManualClock
from tests.services.servers import Server, SocketLink, as_json, reply, serving, sse

NUMBER = SmokePrompt("What is 17*23?", r"\b391\b", 64)
MODELS = as_json({"data": [{"id": "night"}]})


class Boot:
    """As much of a follower as readiness asks for."""

    def __init__(self, port: int) -> None:
        event = BootOpened(0.0, "d", 1, "seed", "", "", "dgx1", (RankRef(0, "dgx1", "c"),), 0.0, 60.0, port, "night")
        self.state: BootState = reduce(opened(event), ContainerSeen(1.0, 0, "running"))

    def apply(self, event: Event) -> None:
        self.state = reduce(self.state, event)


class OneLink:
    names = ("dgx1",)

    def link(self, node: str) -> SocketLink:
        return SocketLink()


class Api:
    """answers: by prompt; what is not there is answered with Paris."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.server: Server | None = None

    async def __call__(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        assert self.server is not None
        path = head.split(b" ")[1].decode()
        if path in ("/health", "/v1/models"):
            writer.write(reply(b"") if path == "/health" else MODELS)
            return
        body: dict[str, Any] = json.loads(self.server.bodies[-1])
        prompt = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
        words = self.answers.get(prompt, "The capital of France is Paris.")
        key = {"text": words} if "prompt" in body else {"delta": {"content": words}}
        writer.write(sse({"choices": [key]}))


def readiness(boot: Boot) -> Readiness:
    cluster = Cluster("night", "cluster.toml", (Node("dgx1", "dgx1"),))
    return Readiness(cast(Follower, boot), cast(Fleet, OneLink()), cluster, ManualClock(), (NUMBER,))


async def test_a_wrong_answer_withholds_ready_until_it_is_right() -> None:
    api = Api()
    async with serving(api) as server:
        api.server = server
        boot = Boot(server.port)
        ready = readiness(boot)
        api.answers[NUMBER.prompt] = "It is 392."
        await ready.look()
        assert (boot.state.phase, boot.state.ready_at) == (Phase.SERVING_BAD, None)
        assert boot.state.smoke_why == "asked 'What is 17*23?': the answer does not match \\b391\\b"
        assert boot.state.smoke_text == "It is 392."
        api.answers[NUMBER.prompt] = "It is 391."
        await ready.look()
        assert boot.state.phase is Phase.READY and boot.state.smoke_why == ""


async def test_after_ready_the_engine_is_asked_one_short_thing_only() -> None:
    api = Api()
    api.answers[NUMBER.prompt] = "391, of course."
    async with serving(api) as server:
        api.server = server
        boot = Boot(server.port)
        ready = readiness(boot)
        await ready.look()
        assert boot.state.phase is Phase.READY
        before = len(server.requests)
        await ready.look()
        posts = [line for line in server.requests[before:] if line.startswith("POST")]
        assert len(posts) == 1
