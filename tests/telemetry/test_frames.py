"""Frames out of bytes: whole, in pieces, damaged, and out of anything at all."""

from __future__ import annotations

import json
import zlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from console.telemetry.frames import MAX_LINE, Bad, Frame, FrameReader
from console.telemetry.freshness import judge
from console.telemetry.sample import Sample
from console.telemetry.sampler import Sampler
from console.telemetry.to_json import node_json


def encode(seq: int, data: Any) -> bytes:
    body = json.dumps(data).encode()
    return b"ND1 %d %d %08x " % (seq, len(body), zlib.crc32(body)) + body + b"\n"


def feed_all(*blocks: bytes) -> list[Frame | Bad]:
    reader = FrameReader()
    return [found for block in blocks for found in reader.feed(block)]


def test_a_frame_comes_out_once_whole() -> None:
    whole = encode(7, {"t": 1.5})
    for cut in range(len(whole)):
        assert feed_all(whole[:cut], whole[cut:]) == [Frame(7, {"t": 1.5})]


def test_a_greeting_before_the_first_frame_is_bad_and_costs_nothing() -> None:
    found = feed_all(b"Welcome to Ubuntu\n\n*** restart required\r\n" + encode(1, {}))
    assert [type(f) for f in found] == [Bad, Bad, Frame]


def test_half_a_frame_followed_by_a_whole_one_on_the_same_line() -> None:
    found = feed_all(encode(1, {"a": "x" * 50})[:40] + encode(2, {"b": 1}))
    assert isinstance(found[0], Bad) and found[1:] == [Frame(2, {"b": 1})]


def test_damage_is_told_from_half() -> None:
    whole = encode(1, {"a": "xyz"})
    (damaged,) = feed_all(whole.replace(b"xyz", b"xyw"))
    (half,) = feed_all(whole[:-4] + b"\n")
    assert isinstance(damaged, Bad) and "checksum" in damaged.reason
    assert isinstance(half, Bad) and "half" in half.reason


def test_an_endless_line_is_bounded_and_told_once() -> None:
    reader = FrameReader()
    found: list[Frame | Bad] = []
    for _ in range(160):
        found += reader.feed(b"\xff" * 65536)
        assert len(reader._rest) <= MAX_LINE
    assert [type(f) for f in found] == [Bad]
    assert reader.feed(b"tail\n" + encode(3, {})) == [Frame(3, {})]


def test_json_that_is_no_object_or_no_number_is_bad() -> None:
    for body in (b"[1]", b'{"a":NaN}', b"[" * 5000, b'{"a":1', b"\xff\xfe"):
        line = b"ND1 1 %d %08x " % (len(body), zlib.crc32(body)) + body + b"\n"
        assert [type(f) for f in feed_all(line)] == [Bad]


def test_what_is_shown_of_bad_bytes_holds_no_control_codes() -> None:
    (bad,) = feed_all(b"\x1b]0;title\x07\x1b[31mred\x00\xe2\x80\xae\n")
    assert isinstance(bad, Bad) and bad.excerpt == "red"


@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=8))
def test_any_bytes_give_something_and_raise_nothing(blocks: list[bytes]) -> None:
    assert all(isinstance(f, (Frame, Bad)) for f in feed_all(*blocks))


# A fixed alphabet: making the table of all of Unicode takes seconds.
LETTERS = "aZ09.-+:[]/ \n\t\x1b\x00\u202e\ud800é千"
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(alphabet=LETTERS, max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet=LETTERS, max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = ("t", "w", "part", "host", "gpu", "apps", "fs", "procs", "fabric", "containers", "kernel", "self", "dropped")
INNER = (
    "t",
    "why",
    "rows",
    "events",
    "fields",
    "ports",
    "link",
    "meminfo",
    "stat",
    "net",
    "disks",
    "buddyinfo",
    "page",
)
TEXTS = st.text(alphabet="cpu 0123456789:\n-.kBNodezone,[]/A", max_size=60)
GROUP = st.dictionaries(st.sampled_from(INNER), JSON | TEXTS | st.lists(JSON, max_size=3), max_size=6)


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), JSON | GROUP, max_size=8), min_size=1, max_size=3))
def test_any_object_makes_a_sample_that_can_be_shown(objects: list[dict[str, Any]]) -> None:
    sampler = Sampler("n")
    for seq, data in enumerate(objects):
        sample = sampler.step(Frame(seq, data), received_at=float(seq), wall=0.0)
        assert isinstance(sample, Sample)
        shown = json.dumps(node_json("n", judge(float(seq), float(seq)), sample), allow_nan=False, ensure_ascii=False)
        (shown + repr(sample)).encode()
