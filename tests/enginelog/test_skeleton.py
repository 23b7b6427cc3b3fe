"""Reading a line by the plan of its shape gives what reading it the long way gives, whatever its digits are."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from console.enginelog import records as records_module
from console.enginelog.digits import any_digits, collapsed
from console.enginelog.evidence_collect import CauseCollector
from console.enginelog.hints import Hints, HintsMemo, hints_of
from console.enginelog.phrases import EACH, Index
from console.enginelog.records import Decoder, Record
from console.enginelog.signatures import matches
from console.enginelog.skeleton import Plans, plan_of
from console.enginelog.stages import StageTracker
from tests.enginelog.excerpts import excerpts
from tests.enginelog.logs import LOGS, data

TEXTS = {**{name: data(name) for name in LOGS}, **{e.name: e.data for e in excerpts()}}
LINES = sorted({line for text in TEXTS.values() for line in text.split(b"\n") if 0 < len(line) < 400})
DIGIT = re.compile(rb"\d")
NUMBER = re.compile(rb"\d+")


class Blank(Plans):
    """Never learns a shape, so every line goes the long way."""

    def meet(self, skeleton: bytes) -> None:
        return


def read(text: bytes, plans: Plans, cuts: random.Random | None = None, secrets: tuple[str, ...] = ()) -> list[Record]:
    kept, records_module._PLANS = records_module._PLANS, plans  # type: ignore[misc]
    try:
        decoder = Decoder(0, secrets=secrets)
        out: list[Record] = []
        while text:
            size = cuts.randint(1, 5000) if cuts is not None else len(text)
            out += decoder.feed(text[:size])
            text = text[size:]
        return out + decoder.finish()
    finally:
        records_module._PLANS = kept  # type: ignore[misc]


def with_other_digits(text: bytes, rng: random.Random) -> bytes:
    return DIGIT.sub(lambda _: b"%d" % rng.randrange(10), text)


def with_other_numbers(text: bytes, rng: random.Random) -> bytes:
    """Numbers of one digit more or less here and there, as other ranks and other boots have them."""

    def other(found: re.Match[bytes]) -> bytes:
        size = max(1, len(found[0]) + rng.choice((-1, 0, 0, 0, 1)))
        return b"%0*d" % (size, rng.randrange(10**size)) if rng.random() < 0.3 else found[0]

    return NUMBER.sub(other, text)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_log_reads_the_same_by_plans_and_however_it_is_cut(name: str) -> None:
    rng = random.Random(name)
    texts = [
        TEXTS[name],
        with_other_digits(TEXTS[name], rng).replace(b"\n", b"\r\n"),
        with_other_numbers(TEXTS[name], rng),
    ]
    plans = Plans()
    for text in texts:
        long = read(text, Blank())
        for _ in range(2):
            assert read(text, plans) == long
        assert read(text, plans, rng) == long
    assert plans.known, "nothing was learnt, so nothing was tested"


def test_secrets_are_masked_on_a_line_of_a_known_shape() -> None:
    line = b"(Worker pid=1) INFO 09-18 23:05:30 [a.py:1] the key is abcd1234 and hf_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123\n"
    shown = [r.text for r in read(line * 4, Plans(), secrets=("abcd1234",))]
    assert len(set(shown)) == 1 and "abcd1234" not in shown[0] and "hf_ABC" not in shown[0]


def test_what_may_hold_a_secret_gets_no_plan() -> None:
    memo = HintsMemo()
    assert plan_of("(Worker pid=1) INFO 00-00 00:00:00 [a.py:1] Bearer abcdefghijklmnop", memo) is None
    assert plan_of("(Worker pid=1) INFO 00-00 00:00:00 [a.py:1] nothing to hide", memo) is not None


@given(lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=6), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_other_digits_change_no_reading(lines: list[bytes], seed: int) -> None:
    rng = random.Random(seed)
    plans = Plans()
    text = b"\n".join(lines) + b"\n"
    read(text * 3, plans)
    other = rng.choice((with_other_digits, with_other_numbers))(text, rng)
    assert read(other, plans) == read(other, Blank())


@given(line=st.sampled_from(LINES), seed=st.integers(0, 2**32))
@example(line=b'INFO:     10.0.0.1:4000 - "GET /health HTTP/1.1" 200 OK', seed=1)
@settings(max_examples=120, deadline=None)
def test_hints_hold_all_that_a_text_says(line: bytes, seed: int) -> None:
    rng = random.Random(seed)
    text = with_other_numbers(with_other_digits(line, rng), rng).decode("utf-8", "replace")
    for real in (text, line.decode("utf-8", "replace")):
        hints = hints_of(real)
        assert hints == hints_of(collapsed(real))
        assert tracked(hints, real) == Index().names(real)
        found = matches(real)
        assert matches(real, hints.signatures) == found
        assert hints.fault or not found


def tracked(hints: Hints, text: str) -> tuple[str, ...]:
    """What the tracker makes of hints."""
    asked = all(EACH[name].search(text) for name in hints.ask)
    return hints.phrases if asked else Index().names(text)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_stages_and_causes_are_the_same_by_hints(name: str) -> None:
    warm = Plans()
    read(TEXTS[name] * 3, warm)
    trackers, trails = [], []
    for plans in (Blank(), warm):
        found = read(TEXTS[name] * 2, plans)
        tracker, collector = StageTracker(0), CauseCollector(0)
        tracker.feed(found)
        collector.feed(found)
        trackers.append((tracker.cells(), tracker.numbers(), tracker.progress, tracker.stats, tracker.failed_line))
        trails.append((collector.trail(), collector.news, collector.alarming))
    assert trackers[0] == trackers[1]
    assert trails[0] == trails[1]


@pytest.mark.parametrize(
    ("pattern", "loose"),
    [
        (r"exit 137", r"exit \d?\d?\d?"),
        (r"\d{2,3} of \[1\] ==\d|V\d+ x", r"\d{1,3} of \[\d\] ==\d|V\d+ x"),
        (r"(?P<n2>[a-c]) Running: [1-9]", r"(?P<n2>[a-c]) Running: [\d]"),
        (r"40[13] sm_12\d", r"\d?\d?[\d\d]? sm_\d?\d?\d?"),
        (r"[^0-9x]y [^1]{2}", r"[^0-9x]y [\s\S]{1,2}"),
        (r"\w+(?:\d x)(?P<n>\d) \.\d-\d\S", r"\w*(?:\d? x)(?P<n>\d?) \.\d-\d?\S?"),
        (r"(?:a|\w{2,9}+)(?:b\S*?){2} .", r"(?:a|\w{0,9})(?:b\S*?){2} ."),
    ],
)
def test_a_pattern_is_loosened_where_it_names_digits(pattern: str, loose: str) -> None:
    assert any_digits(pattern) == loose


@pytest.mark.parametrize("pattern", ["a(?!1)", "(?<=1)a", r"(\d)\1", "(?P=n)", "^1", "(?i:a)", r"[\x30-9]", "[ -5]"])
def test_what_cannot_be_loosened_is_not(pattern: str) -> None:
    with pytest.raises(ValueError, match="cannot be loosened"):
        any_digits(pattern)


def test_plans_stay_bounded() -> None:
    plans = Plans()
    for number in range(1300):
        for _ in range(3):
            plans.meet(b"%x" % number + b" " * 4000)
    held = sum(map(len, plans.known)) + sum(map(len, plans._families))
    assert held < 20 << 20
    plans.meet(b" " * 17000)
    assert b" " * 17000 not in plans._families
