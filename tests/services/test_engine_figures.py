"""The head's /metrics as versions of the engine print it, and as a broken one does."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from console.boot.events import Event, StatsSeen
from console.boot.reduce import reduce
from console.boot.state import Phase
from console.cluster.model import Cluster
from console.enginelog.metrics import MAX_BYTES, parse_metrics
from console.services import engine_figures
from console.services.engine_figures import EngineFigures, figures
from console.services.http import HttpError
from console.services.hub import Snapshot
from console.services.openmetrics import openmetrics
from console.transport.base import TransportError, Trouble
from tests.services.fakes import FakeLink, ManualClock
from tests.services.test_alarm_book import boot

V1 = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} 3.0
vllm:num_requests_waiting{{engine="0",model_name="m"}} 1.0
vllm:{kv}{{engine="0",model_name="m"}} 0.25
vllm:{queries}_total{{engine="0",model_name="m"}} 400.0
vllm:{queries}_created{{engine="0",model_name="m"}} 1.7e+09
vllm:{hits}_total{{engine="0",model_name="m"}} 100.0
vllm:prompt_tokens_total{{engine="0",model_name="m"}} 5000.0
vllm:generation_tokens_total{{engine="0",model_name="m"}} 1000.0
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} 100.0
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} 500.0
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} 257.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} 90.0
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.001",model_name="m"}} 0.0
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} 4.0
vllm:time_to_first_token_seconds_count{{engine="0",model_name="m"}} 4.0
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="m"}} 2.0
"""
NEW = V1.format(kv="kv_cache_usage_perc", queries="prefix_cache_queries", hits="prefix_cache_hits")
EARLY = V1.format(kv="gpu_cache_usage_perc", queries="gpu_prefix_cache_queries", hits="gpu_prefix_cache_hits")
V0 = """\
vllm:num_requests_running{model_name="m"} 3.0
vllm:num_requests_swapped{model_name="m"} 0.0
vllm:num_requests_waiting{model_name="m"} 1.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.25
vllm:cpu_cache_usage_perc{model_name="m"} 0.9
vllm:cpu_prefix_cache_hit_rate{model_name="m"} -1.0
vllm:gpu_prefix_cache_hit_rate{model_name="m"} 0.25
vllm:prompt_tokens_total{model_name="m"} 5000.0
vllm:generation_tokens_total{model_name="m"} 1000.0
vllm:spec_decode_draft_acceptance_rate{model_name="m"} 0.514
vllm:spec_decode_efficiency{model_name="m"} 0.7
vllm:spec_decode_num_accepted_tokens_total{model_name="m"} 257.0
vllm:spec_decode_num_draft_tokens_total{model_name="m"} 500.0
vllm:spec_decode_num_emitted_tokens_total{model_name="m"} 357.0
vllm:time_to_first_token_seconds_count{model_name="m"} 4.0
vllm:time_to_first_token_seconds_sum{model_name="m"} 2.0
"""
FIRST = {"running": 3, "waiting": 1, "kv_usage": 0.25, "prefix_hit": 0.25, "draft_acceptance": 0.514, "ttft_s": 0.5}


@pytest.mark.parametrize("text", [NEW, EARLY, V0], ids=["kv_cache_usage_perc", "gpu_cache_usage_perc", "V0"])
def test_all_versions_say_the_same_in_the_end(text: str) -> None:
    first = figures(None, parse_metrics(text.encode(), at=100.0))
    assert {k: first[k] for k in FIRST} == pytest.approx(FIRST)
    assert ("acceptance_length" in first) == ("num_drafts" in text)
    later = text.replace(" 1000.0", " 1500.0").replace(" 5000.0", " 5050.0")
    now = figures(parse_metrics(text.encode(), at=100.0), parse_metrics(later.encode(), at=105.0))
    assert (now["generation_tokens_per_s"], now["prompt_tokens_per_s"]) == (100.0, 10.0)
    assert "ttft_s" not in now, "no request got its first token meanwhile"


def test_several_engines_add_up_and_the_fullest_cache_counts() -> None:
    second = NEW.replace('engine="0"', 'engine="1"').replace(" 0.25\n", " 0.75\n")
    now = figures(None, parse_metrics((NEW + second).encode(), at=1.0))
    assert (now["running"], now["waiting"], now["kv_usage"], now["prefix_hit"]) == (6, 2, 0.75, 0.25)


def test_a_share_that_is_not_there_is_not_shown() -> None:
    text = V0.replace(
        'gpu_prefix_cache_hit_rate{model_name="m"} 0.25', 'gpu_prefix_cache_hit_rate{model_name="m"} -1.0'
    )
    assert "prefix_hit" not in figures(None, parse_metrics(text.encode(), at=1.0))


@pytest.mark.parametrize("word", ["NaN", "+Inf", "-Inf", "1e999", "", "abc"])
def test_what_is_no_number_is_no_figure(word: str) -> None:
    text = NEW.replace(
        'kv_cache_usage_perc{engine="0",model_name="m"} 0.25', f'kv_cache_usage_perc{{engine="0"}} {word}'
    )
    now = figures(None, parse_metrics(text.encode(), at=1.0))
    assert "kv_usage" not in now and now["running"] == 3


def test_counters_that_began_anew_give_no_rate_and_no_share() -> None:
    before = parse_metrics(NEW.encode(), at=100.0)
    after = parse_metrics(NEW.replace(" 1000.0", " 7.0").replace(" 257.0", " 2.0").encode(), at=105.0)
    now = figures(before, after)
    assert "generation_tokens_per_s" not in now and now["running"] == 3
    again = figures(after, parse_metrics(NEW.replace(" 1000.0", " 57.0").encode(), at=110.0))
    assert again["generation_tokens_per_s"] == 10.0


class Head:
    """/metrics of a head that answers as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: Any = (200, NEW.encode())
        self.told: list[Event] = []
        self.clock = ManualClock()
        self.state = replace(boot(), phase=Phase.READY, ready_at=1.0)
        monkeypatch.setattr(engine_figures, "fetch", self._fetch)
        self.figures = EngineFigures(lambda: self.state, self.told.append, FakeLink("dgx1"), "0.0.0.0", self.clock)

    async def _fetch(self, link: object, port: int, path: str, **more: object) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return SimpleNamespace(status=self.answer[0], body=self.answer[1])

    async def look(self, answer: Any) -> str:
        self.answer = answer
        self.clock.now += 5.0
        await self.figures.look()
        return self.figures.why


async def test_figures_reach_the_state_and_stop_when_the_answers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Head(monkeypatch)
    assert await head.look((200, NEW.encode())) == ""
    (seen,) = head.told
    assert isinstance(seen, StatsSeen) and seen.values["running"] == 3 and seen.values["at"] == head.clock.now
    for answer, why in (
        ((200, b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"), "holds no figures"),
        ((200, b""), "holds no figures"),
        ((200, b"\x00\xff\x1b[2J" * 1000), "holds no figures"),
        ((404, b"{}"), "/metrics says 404"),
        ((500, b"Internal Server Error"), "/metrics says 500"),
        (HttpError("the answer is no HTTP"), "no HTTP"),
        (TransportError(Trouble.REFUSED, "connection refused", node="dgx1"), "refused"),
    ):
        assert why in await head.look(answer)
    whys = [e.why for e in head.told if isinstance(e, StatsSeen) and not e.values]
    assert len(whys) == len(head.told) - 1 == 5, "what was known stays, with its time; a reason is told once"
    state = boot()
    for event in head.told:
        state = reduce(state, event)
    assert (state.stats["running"], state.stats_at, state.stats_why) == (3, seen.at, "dgx1: connection refused")
    assert await head.look((200, NEW.replace(" 1000.0", " 2000.0").encode())) == ""


async def test_a_huge_answer_is_read_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Head(monkeypatch)
    padding = b'vllm:x{a="%s"} 1\n' % (b"y" * 4000)
    huge = NEW.encode() + padding * (MAX_BYTES // len(padding) + 10) + b"vllm:num_requests_running 9\n"
    assert await head.look((200, huge)) == ""
    assert isinstance(head.told[0], StatsSeen) and head.told[0].values["running"] == 3


@pytest.mark.parametrize(("later", "exported"), [(14.0, True), (16.0, False), (25_200.0, False)])
def test_figures_of_before_are_not_exported(later: float, exported: bool) -> None:
    state = reduce(replace(boot(), phase=Phase.READY), StatsSeen(1000.0, {"kv_usage": 0.25}))
    snap = Snapshot(1, 0.0, Cluster("c", "f", ()), (), None, (state,), (), ())
    assert (b"kv_cache_usage" in openmetrics(snap, 1000.0 + later)) is exported
