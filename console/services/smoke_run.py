"""The whole smoke test of a model that serves: one greedy prompt twice, then what the recipe itself asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from console.base.text import clean_line
from console.recipe.model import SmokePrompt
from console.services.smoke import CHAT, COMPLETIONS, SmokeResult, ask_text
from console.transport.base import Link

GREEDY_TOKENS = 24
# A recipe's own prompt may ask for long answers: its limit follows from the speed that was just seen, with room for
# what other prompts at once take of it.
CHECK_LEAST_S = 30.0
CHECK_MOST_S = 300.0
_ROOM = 2.0
_AT_ONCE = 4


async def run_smoke(
    link: Link,
    host: str,
    port: int,
    served_name: str,
    *,
    now: Callable[[], float],
    judge: bool = True,
    checks: Sequence[SmokePrompt] = (),
) -> SmokeResult:
    """now: monotonic seconds. Never raises TransportError: a failure is a result, and names the prompt it came of.

    Of the two greedy answers the second gives the times: the first pays for what is compiled on first use. That they
    differ is a note and no fault: kernels that add up in another order choose another word where two are close."""
    first = await ask_text(link, host, port, served_name, now=now, max_tokens=GREEDY_TOKENS, judge=judge)
    if not first.ok:
        return first
    again = await ask_text(
        link, host, port, served_name, now=now, max_tokens=GREEDY_TOKENS, judge=judge, paths=(first.path,)
    )
    if not again.ok:
        return replace(again, why=f"asked again: {again.why}", asked=2)
    notes: list[str] = []
    if again.text != first.text:
        notes.append(
            f"the same greedy prompt was answered in two ways: {clean_line(first.text, limit=60)!r}"
            f" and {clean_line(again.text, limit=60)!r}"
        )
    speed = again if again.tokens_per_s is not None else first
    whole = replace(
        again, first_token_s=speed.first_token_s, tokens_per_s=speed.tokens_per_s, notes=tuple(notes), asked=2
    )
    gate = asyncio.Semaphore(_AT_ONCE)

    async def check(prompt: SmokePrompt) -> SmokeResult:
        async with gate:
            result = await ask_text(
                link,
                host,
                port,
                served_name,
                now=now,
                prompt=prompt.prompt,
                max_tokens=prompt.max_tokens,
                timeout=_limit(prompt, speed.tokens_per_s),
                judge=judge,
                expect=prompt.expect,
                # A recipe's prompt is a person's question: a model that chats is asked as one.
                paths=(CHAT, COMPLETIONS),
            )
        asked = clean_line(prompt.prompt.replace("\n", " "), limit=60)
        return result if result.ok else replace(result, why=f"asked {asked!r}: {result.why}")

    answers = await asyncio.gather(*(check(prompt) for prompt in checks))
    bad = sorted((a for a in answers if not a.ok), key=lambda a: not a.text)
    whole = replace(whole, asked=2 + len(answers))
    if not bad:
        return whole
    others = f" (and {len(bad) - 1} more of {len(answers)})" if len(bad) > 1 else ""
    return replace(whole, ok=False, text=bad[0].text, why=bad[0].why + others)


def _limit(prompt: SmokePrompt, tokens_per_s: float | None) -> float:
    """Seconds for a recipe's own prompt."""
    if tokens_per_s is None or tokens_per_s <= 0:
        return CHECK_LEAST_S if prompt.max_tokens <= 256 else CHECK_MOST_S
    return min(CHECK_MOST_S, max(CHECK_LEAST_S, _ROOM * prompt.max_tokens / tokens_per_s))
