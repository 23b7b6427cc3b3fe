"""Is the API the engine's, does it serve this model, and is its text worth the word ready."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from console.services.smoke import ApiAnswer, SmokeResult, api_address, ask_health, ask_text
from tests.services.servers import Handler, SocketLink, as_json, reply, serving, sse

MODELS = as_json({"data": [{"id": "night"}, {"id": 7}, "x"]})
OK = reply(b"")


def routes(table: Mapping[str, bytes]) -> Handler:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1].decode()
        writer.write(table.get(path, as_json({"detail": "Not Found"}, "404 Not Found")))

    return answer


async def health(table: Mapping[str, bytes], served: str = "night") -> ApiAnswer:
    async with serving(routes(table)) as server:
        return await ask_health(SocketLink(), "127.0.0.1", server.port, served)


async def text(table: Mapping[str, bytes], **options: Any) -> tuple[SmokeResult, list[str]]:
    ticks = iter(range(1000))
    async with serving(routes(table)) as server:
        result = await ask_text(
            SocketLink(), "127.0.0.1", server.port, "night", now=lambda: float(next(ticks)), **options
        )
        return result, [line.split(" ")[1] for line in server.requests]


def piece(words: str, key: str = "text") -> dict[str, Any]:
    return {"choices": [{key: words} if key == "text" else {"delta": {key: words}}]}


async def test_healthy_needs_the_model_and_not_only_an_answer() -> None:
    assert (await health({"/health": OK, "/v1/models": MODELS})).state == "healthy"
    assert (await health({"/v1/models": MODELS})).state == "healthy", "not every engine has /health"
    assert (await health({"/health": reply(b"", "503 Unavailable")})).state == "starting"
    other = await health({"/health": OK, "/v1/models": MODELS}, served="day")
    assert other == ApiAnswer("wrong_model", "day is not served; listed: night")


@pytest.mark.parametrize(
    "models",
    [as_json({"status": "ok"}), reply(b"<html>"), reply(b"[" * 99999), as_json({"data": {}}), as_json("x", "401 No")],
    ids=["status", "page", "deep", "shape", "denied"],
)
async def test_another_program_on_the_port_is_called_that(models: bytes) -> None:
    answer = await health({"/health": OK, "/v1/models": models})
    assert answer.state == "wrong_model" and "is another program on port" in answer.detail


async def test_what_speaks_no_http_is_an_error_and_a_closed_port_is_closed() -> None:
    answer = await health({"/health": b"\x00\x01\x02\r\n\r\n"})
    assert answer.state == "error" and "does not speak as an API" in answer.detail
    async with serving(routes({})) as server:
        port = server.port
    assert (await ask_health(SocketLink(), "127.0.0.1", port, "night")).state == "closed"


async def test_a_streamed_answer_has_text_a_first_token_and_a_rate() -> None:
    stream = sse(piece(" Paris"), piece(" is"), piece(" old."))
    result, asked = await text({"/v1/completions": stream})
    assert result.ok and result.text == " Paris is old." and result.tokens == 3
    assert result.first_token_s is not None and result.first_token_s > 0
    assert asked == ["/v1/completions"]


async def test_a_model_without_completions_is_asked_as_a_chat_and_thoughts_count() -> None:
    for key in ("content", "reasoning_content", "reasoning"):
        stream = sse(piece("The capital of France is Paris.", key))
        result, asked = await text({"/v1/chat/completions": stream})
        assert result.ok and "Paris" in result.text, key
        assert asked == ["/v1/completions", "/v1/chat/completions"]
    result, _ = await text({})
    assert not result.ok and result.why == "the API knows neither completions nor chat"


async def test_an_answer_in_one_piece_counts_too() -> None:
    whole = as_json({"choices": [{"text": " Paris, of course."}]})
    result, _ = await text({"/v1/completions": whole})
    assert result.ok and result.text == " Paris, of course."


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (sse(), "empty"),
        (sse(piece("  \n ")), "empty"),
        (sse({"choices": []}, {"choices": None}, 3, {"choices": [{"delta": None}]}), "empty"),
        (sse(*[piece("care")] * 30), "over and over"),
        (as_json({"error": {"message": "EngineDeadError"}}, "500 Internal Server Error"), "got 500"),
        (reply(b"not json at all"), "empty"),
        (b"", "hung up"),
        (sse(piece(" Par"), end=False), "hung up"),
    ],
    ids=["nothing", "blank", "shapes", "repeats", "dead", "text", "hang-up", "cut"],
)
async def test_what_is_no_sane_answer_says_why(answer: bytes, why: str) -> None:
    result, _ = await text({"/v1/completions": answer})
    assert not result.ok and why in result.why


async def test_an_answer_without_end_is_judged_by_its_beginning() -> None:
    over = asyncio.Event()

    async def flood(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(sse(*[piece("care " * 2000)] * 1000, end=False))
        await over.wait()

    async with serving(flood) as server:
        result = await ask_text(SocketLink(), "127.0.0.1", server.port, "night", now=lambda: 0.0, timeout=30)
        over.set()
    assert not result.ok and "care" in result.why


async def test_escapes_in_an_answer_never_reach_a_terminal() -> None:
    result, _ = await text({"/v1/completions": sse(piece("\x1b[2J\x07Paris is the capital"))})
    assert "\x1b" not in result.text and "Paris" in result.text


async def test_a_request_that_hangs_ends_and_says_how_long_it_waited() -> None:
    over = asyncio.Event()

    async def hang(head: bytes, writer: asyncio.StreamWriter) -> None:
        await over.wait()

    async with serving(hang) as server:
        result = await ask_text(SocketLink(), "127.0.0.1", server.port, "night", now=lambda: 0.0, timeout=0.05)
        over.set()
    assert not result.ok and result.why.startswith("no answer to a short request")


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "localhost"])
def test_a_wildcard_is_reached_on_loopback(host: str) -> None:
    assert api_address(host) == "127.0.0.1"
    assert api_address("10.0.0.1") == "10.0.0.1"
