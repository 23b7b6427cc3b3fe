"""The head's HTTP API: health, models, completions with and without a stream, metrics."""
# ruff: noqa: E501 lines of output are kept whole, as they are printed

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any, Final

from console.lab.http import Reader, Request, Response, Writer, as_json, serve_http
from console.lab.machine import Load
from console.lab.vllm_args import VERSION, EngineArgs
from console.lab.vllm_metrics import Counts, metrics_text
from console.lab.vllm_text import Printer
from console.lab.world import Group, LabNode, World

_TOKENS_PER_S: Final = 61.0
_RPC_TIMEOUT_S: Final = 300.0
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
}


class ApiServer:
    """Answers from the moment on in which it listens; before that, connections are refused."""

    def __init__(self, world: World, node: LabNode, group: Group, args: EngineArgs, say: Printer, load: Load) -> None:
        self._world = world
        self._node = node
        self._group = group
        self._args = args
        self._say = say
        self._load = load
        self._tasks: set[asyncio.Task[None]] = set()
        self._where: list[tuple[str, int]] = []
        self.counts = Counts(started=time.time())
        self.dead = asyncio.Event()

    def listen(self, host: str, port: int) -> None:
        address = "127.0.0.1" if host == "localhost" else host
        self._where.append((address, port))
        self._node.listen(address, port, self._accept)

    async def close(self) -> None:
        for address, port in self._where:
            self._node.close_port(address, port)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: Reader, writer: Writer, peer: str) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(asyncio.CancelledError):
            await serve_http(reader, writer, self._handle, peer, "uvicorn")

    async def report(self) -> None:
        """A line of statistics every ten seconds in which something happened; after that one of zeros, then silence."""
        clock, c = self._world.clock, self.counts
        quiet = True
        while True:
            prompt, generated, began = c.prompt_tokens, c.generated, time.monotonic()
            accepted, drafted = c.accepted, c.drafted
            await clock.sleep(10)
            await self._node.moving.wait()
            passed = time.monotonic() - began
            busy = c.generated > generated or c.prompt_tokens > prompt or c.running > 0
            if not busy and quiet:
                continue
            quiet = not busy
            self._say.log("API", f"[loggers.py:287] Engine 000: Avg prompt throughput: {(c.prompt_tokens - prompt) / passed:.1f} tokens/s, "
                          f"Avg generation throughput: {(c.generated - generated) / passed:.1f} tokens/s, Running: {c.running} reqs, Waiting: 0 reqs, "
                          f"GPU KV cache usage: {min(99.0, c.running * 0.2):.1f}%, Prefix cache hit rate: 0.0%, MM cache hit rate: 0.0%")  # fmt: skip
            if self._args.drafts and c.drafted > drafted:
                new, tried = c.accepted - accepted, c.drafted - drafted
                mean = 1 + self._args.drafts * new / tried
                self._say.log("API", f"[metrics.py:120] SpecDecoding metrics: Mean acceptance length: {mean:.2f}, Accepted throughput: {new / passed:.2f} tokens/s, "
                              f"Drafted throughput: {tried / passed:.2f} tokens/s, Accepted: {new} tokens, Drafted: {tried} tokens, "
                              f"Avg Draft acceptance rate: {100 * new / tried:.1f}%")  # fmt: skip

    async def _handle(self, request: Request) -> Response:
        await self._node.moving.wait()
        response = await self._route(request)
        self._say.bare(
            "API",
            f'INFO:     {request.peer} - "{request.method} {request.path} HTTP/1.1" {response.status} {_REASONS.get(response.status, "")}',
            1,
        )
        return response

    async def _route(self, request: Request) -> Response:
        path = request.path
        if path in ("/health", "/ping"):
            return Response(500 if self.dead.is_set() else 200, b"")
        if path == "/version":
            return as_json({"version": VERSION})
        if path == "/v1/models":
            card = {"id": self._args.served, "object": "model", "created": int(self.counts.started), "owned_by": "vllm",
                    "root": self._args.model, "parent": None, "max_model_len": self._args.max_len}  # fmt: skip
            return as_json({"object": "list", "data": [card]})
        if path == "/metrics":
            return Response(
                200, metrics_text(self._args.served, self.counts).encode(), "text/plain; version=1.0.0; charset=utf-8"
            )
        if path in ("/v1/completions", "/v1/chat/completions"):
            if request.method != "POST":
                return as_json({"detail": "Method Not Allowed"}, 405)
            return await self._complete(request, chat=path.endswith("chat/completions"))
        return as_json({"detail": "Not Found"}, 404)

    async def _complete(self, request: Request, *, chat: bool) -> Response:
        body = request.json()
        if not isinstance(body, dict):
            return _error("Invalid JSON body", "BadRequestError", 400)
        model = body.get("model") or self._args.served
        if model not in (self._args.served, *self._args.text("served-model-name").split()):
            self._say.log(
                "API",
                f"[serving.py:274] Error with model error=ErrorInfo(message='The model `{model}` does not exist.', type='NotFoundError', param='model', code=404)",
                "ERROR",
            )
            return _error(f"The model `{model}` does not exist.", "NotFoundError", 404)
        prompt = _prompt(body, chat)
        if prompt is None:
            return _error("messages or prompt is missing", "BadRequestError", 400)
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or 256
        words = self._answer(prompt)[: max(1, int(limit))]
        done = len(words) < int(limit)
        c = self.counts
        c.running += 1
        counted = max(1, len(prompt) // 4)
        c.prompt_tokens += counted
        options = body.get("stream_options") or {}
        usage = {"prompt_tokens": counted, "completion_tokens": len(words), "total_tokens": counted + len(words)}
        frame: dict[str, Any] = {"id": ("chatcmpl-" if chat else "cmpl-") + uuid.uuid4().hex, "created": int(time.time()), "model": model,
                 "object": "chat.completion" if chat else "text_completion"}  # fmt: skip
        finish = "stop" if done else "length"
        if body.get("stream"):
            return Response(
                200,
                self._stream(words, frame, finish, chat, usage if options.get("include_usage") else None),
                "text/event-stream; charset=utf-8",
            )
        text = ""
        async for word in self._generate(words):
            text += word
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None, "stop_reason": None}
        if chat:
            choice["message"] = {"role": "assistant", "content": text, "reasoning": None, "tool_calls": []}
        else:
            choice["text"] = text
        return as_json({**frame, "choices": [choice], "usage": usage})

    async def _generate(self, words: list[str]) -> AsyncIterator[str]:
        """Words at the pace of a real engine. A rank that is missing lets it wait, without a line in any log."""
        c = self.counts
        garbage = self._world.strikes("garbage-answers")
        self._load.util, self._load.rx, self._load.tx = 93.0, 8.6e8, 8.4e8
        try:
            await self._world.clock.pace(0.12)
            for word in words:
                if not self._group.whole:
                    await self._hang()
                await self._node.moving.wait()
                await self._world.clock.pace(1 / _TOKENS_PER_S)
                c.generated += 1
                c.drafted += self._args.drafts
                c.accepted += 0 if garbage else min(self._args.drafts, 2 + c.generated % 2)
                yield word
            c.finished += 1
        finally:
            c.running -= 1
            if c.running == 0:
                self._load.util = self._load.rx = self._load.tx = 0.0

    async def _hang(self) -> None:
        """Until the engine's own limit for a step passes: then the engine is dead and says so."""
        await self._world.clock.sleep(_RPC_TIMEOUT_S)
        self.dead.set()
        await asyncio.Event().wait()

    async def _stream(
        self, words: list[str], frame: dict[str, Any], finish: str, chat: bool, usage: dict[str, int] | None
    ) -> AsyncIterator[bytes]:
        kind = "chat.completion.chunk" if chat else "text_completion"

        def chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
            return b"data: " + json.dumps({**frame, "object": kind, "choices": choices, **more}).encode() + b"\n\n"

        if chat:
            yield chunk([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
        async for word in self._generate(words):
            yield chunk(
                [{"index": 0, "finish_reason": None, **({"delta": {"content": word}} if chat else {"text": word})}]
            )
        yield chunk([{"index": 0, "finish_reason": finish, **({"delta": {}} if chat else {"text": ""})}])
        if usage is not None:
            yield chunk([], usage=usage)
        yield b"data: [DONE]\n\n"

    def _answer(self, prompt: str) -> list[str]:
        if self._world.strikes("garbage-answers"):
            return ["\ufffd"] + ["care"] * 4096
        text = answer(prompt)
        return re.findall(r"\s*\S+", text)


def answer(prompt: str) -> str:
    """Plain, sane text: enough for a smoke test to tell it from garbage."""
    if match := re.search(r"(\d{1,6})\s*(\+|-|\*|x|×|times|plus|minus)\s*(\d{1,6})", prompt):
        a, op, b = int(match[1]), match[2], int(match[3])
        return str(a + b if op in ("+", "plus") else a - b if op in ("-", "minus") else a * b)
    lower = prompt.lower()
    if lower.rstrip().endswith("the capital of france is"):
        return " Paris. The city lies on the Seine, and it has held the seat of government for most of ten centuries."
    if "capital of france" in lower:
        return "The capital of France is Paris."
    if match := re.search(r"count (?:from 1 )?to (\d{1,3})", lower):
        return ", ".join(str(n) for n in range(1, int(match[1]) + 1))
    if match := re.search(
        r"""(?:say|repeat|reply with|answer with)[^"']*["']([^"']{1,200})["']""", prompt, re.IGNORECASE
    ):
        return match[1]
    return (
        "A mixture of experts keeps most of its weights idle: for every token a router picks a few experts, "
        "so the work per token stays small while the model as a whole stays large. Spread over eight machines, "
        "each holds an eighth of every layer and they meet twice per layer to add up what they found."
    )


def _prompt(body: dict[str, Any], chat: bool) -> str | None:
    if not chat:
        prompt = body.get("prompt")
        return prompt if isinstance(prompt, str) else " ".join(map(str, prompt)) if isinstance(prompt, list) else None
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict):
        return None
    content = messages[-1].get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _error(message: str, kind: str, status: int) -> Response:
    return as_json({"error": {"message": message, "type": kind, "param": None, "code": status}}, status)
