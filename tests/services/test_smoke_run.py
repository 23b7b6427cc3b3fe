"""The whole smoke test: one greedy prompt twice, then the recipe's own; what is wrong withholds the word ready."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from console.recipe.model import SmokePrompt
from console.services.smoke import CHAT, COMPLETIONS, SmokeResult
from console.services.smoke_run import GREEDY_TOKENS, run_smoke
from tests.services.servers import Server, SocketLink, as_json, serving, sse

PARIS = " Paris, a city on the Seine."
Say = Callable[[str, str, dict[str, Any]], bytes]
NUMBER = SmokePrompt("What is 17*23? Answer with the number alone.", r"\b391\b", 2048)


def words(text: str, path: str = COMPLETIONS, usage: int | None = None) -> bytes:
    pieces = [text[i : i + 4] for i in range(0, len(text), 4)]
    events: list[Any] = [
        {"choices": [{"text": p} if path == COMPLETIONS else {"delta": {"content": p}}]} for p in pieces
    ]
    if usage is not None:
        events.append({"choices": [], "usage": {"completion_tokens": usage}})
    return sse(*events)


async def smoke(say: Say, checks: Sequence[SmokePrompt] = (), judge: bool = True) -> tuple[SmokeResult, Server]:
    """say(path, prompt, body) is the answer."""
    server: Server

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1].decode()
        body = json.loads(server.bodies[-1])
        writer.write(say(path, body["messages"][0]["content"] if path == CHAT else body["prompt"], body))

    ticks = itertools.count()
    async with serving(answer) as server:
        result = await run_smoke(
            SocketLink(),
            "127.0.0.1",
            server.port,
            "night",
            now=lambda: next(ticks) / 100,
            judge=judge,
            checks=checks,
        )
    return result, server


async def test_the_greedy_prompt_is_asked_twice_with_one_seed_and_few_tokens() -> None:
    result, server = await smoke(lambda path, _p, _b: words(PARIS, path))
    assert (result.ok, result.text, result.notes, result.asked) == (True, PARIS, (), 2)
    assert result.first_token_s is not None and result.tokens_per_s is not None
    bodies = [json.loads(b) for b in server.bodies]
    assert len(bodies) == 2 and bodies[0] == bodies[1]
    assert (bodies[0]["temperature"], bodies[0]["seed"], bodies[0]["max_tokens"]) == (0, 0, GREEDY_TOKENS)


async def test_tokens_are_counted_as_the_engine_counts_them() -> None:
    pieces, _ = await smoke(lambda path, _p, _b: words(PARIS, path))
    counted, _ = await smoke(lambda path, _p, _b: words(PARIS, path, usage=24))
    assert (pieces.tokens, counted.tokens) == (7, 24), "drafted tokens come several to a piece"
    assert pieces.tokens_per_s is not None and counted.tokens_per_s is not None
    assert counted.tokens_per_s > 3 * pieces.tokens_per_s


async def test_an_engine_that_refuses_stream_options_is_asked_without() -> None:
    def say(path: str, _prompt: str, body: dict[str, Any]) -> bytes:
        if "stream_options" in body:
            return as_json({"error": {"message": "stream_options: extra fields not permitted"}}, "400 Bad Request")
        return words(PARIS, path)

    result, _ = await smoke(say)
    assert result.ok and result.text == PARIS


async def test_two_answers_to_one_greedy_prompt_are_a_note_and_no_fault() -> None:
    texts = iter([PARIS, " Paris, the city of light."])
    result, _ = await smoke(lambda path, _p, _b: words(next(texts), path))
    assert result.ok and len(result.notes) == 1 and "two ways" in result.notes[0] and "light" in result.notes[0]


async def test_garble_in_the_second_answer_counts() -> None:
    texts = iter([PARIS, "care" * 40])
    result, _ = await smoke(lambda path, _p, _b: words(next(texts), path))
    assert not result.ok and result.why.startswith("asked again: ") and "over and over" in result.why


async def test_the_recipes_own_prompts_are_asked_as_a_chat_and_end_where_they_match() -> None:
    def say(path: str, prompt: str, _body: dict[str, Any]) -> bytes:
        if prompt == NUMBER.prompt:
            return words("17 times 23 is 391. " + "And so it goes on and on, word by word. " * 3, path)
        return words("Hello there." if prompt == "Say hello." else PARIS, path)

    result, server = await smoke(say, [NUMBER, SmokePrompt("Say hello.")])
    assert result.ok and result.asked == 4 and result.text == PARIS
    assert [r.split(" ")[1] for r in server.requests] == [COMPLETIONS, COMPLETIONS, CHAT, CHAT]
    assert {json.loads(b)["max_tokens"] for b in server.bodies[2:]} == {2048, 64}


async def test_a_base_model_without_a_chat_template_is_asked_for_completions() -> None:
    why = "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template"

    def say(path: str, prompt: str, _body: dict[str, Any]) -> bytes:
        if path == CHAT:
            return as_json({"error": {"message": why}}, "400 Bad Request")
        return words(" 391 of course", path) if prompt == NUMBER.prompt else words(PARIS, path)

    result, server = await smoke(say, [NUMBER])
    assert result.ok
    assert [r.split(" ")[1] for r in server.requests] == [COMPLETIONS, COMPLETIONS, CHAT, COMPLETIONS]


@pytest.mark.parametrize("judge", [True, False], ids=["judged", "noise"])
async def test_a_wrong_answer_to_a_check_says_which_and_shows_it(judge: bool) -> None:
    def say(path: str, prompt: str, _body: dict[str, Any]) -> bytes:
        return words("It is 3910." if prompt == NUMBER.prompt else PARIS, path)

    result, _ = await smoke(say, [NUMBER], judge=judge)
    assert not result.ok and result.text == "It is 3910."
    assert result.why == "asked 'What is 17*23? Answer with the number alone.': the answer does not match \\b391\\b"
    assert result.tokens_per_s is not None, "the speed of the greedy answer is known all the same"


async def test_garble_deep_in_a_long_answer_is_found() -> None:
    def say(path: str, prompt: str, _body: dict[str, Any]) -> bytes:
        long = " ".join(f"word{n}" for n in range(300)) + " 的的" * 600
        return words(long if prompt == "Tell a tale." else PARIS, path)

    result, _ = await smoke(say, [SmokePrompt("Tell a tale.", None, 1200)])
    assert not result.ok and result.why.startswith("asked 'Tell a tale.': ")


async def test_several_bad_answers_are_counted_and_those_with_text_come_first() -> None:
    def say(path: str, prompt: str, _body: dict[str, Any]) -> bytes:
        return words({"a": "", "b": "care" * 40, "c": "Fine words."}.get(prompt, PARIS), path)

    result, _ = await smoke(say, [SmokePrompt("a"), SmokePrompt("b"), SmokePrompt("c")])
    assert not result.ok and result.why.startswith("asked 'b': ") and result.why.endswith("(and 1 more of 3)")


async def test_a_first_answer_that_is_bad_ends_it() -> None:
    result, server = await smoke(lambda path, _p, _b: words("care" * 40, path), [NUMBER])
    assert not result.ok and len(server.requests) == 1
