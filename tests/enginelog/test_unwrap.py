"""A log tells the same whatever carried it here."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable

import pytest

from console.enginelog.causes_model import Diagnosis
from console.enginelog.diagnose import diagnose
from console.enginelog.unwrap import Plain, of_json, unwrapped, wrapping_of
from tests.enginelog.excerpts import excerpts
from tests.enginelog.logs import data
from tests.enginelog.test_causes_logs import EXPECTED

CASES = {**{name: data(name) for name in EXPECTED}, **{e.name: e.data for e in excerpts()}}
STAMPED = re.compile(rb"^20\d\d-\d\d-\d\dT", re.MULTILINE)
AT = "2026-09-18T23:05:30"


def _lines(text: bytes) -> list[bytes]:
    return text.removesuffix(b"\n").split(b"\n")


def before(prefix: str) -> Callable[[bytes], bytes]:
    return lambda text: b"".join(prefix.encode() + line + b"\n" for line in _lines(text))


def as_json(text: bytes, said: str = "log", at: str | None = "time") -> bytes:
    when = {at: f"{AT}.5Z"} if at is not None else {}
    rows = ({"stream": "stderr", said: line.decode("utf-8", "replace") + "\n", **when} for line in _lines(text))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


# Each with the least lines that it takes to be told from words of the engine.
CARRIED: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "docker": (1, before(f"{AT}.123456789Z ")),
    "compose": (1, before("head-1  | ")),
    "compose-colour": (1, before("\x1b[36mhead-1  | \x1b[0m")),
    "compose-no-number": (8, before("vllm  | ")),
    "swarm": (1, before("vllm_head.1.k3j4h5k6j7h8@spark1    | ")),
    "journald": (1, before("Sep 18 23:05:30 dgx1 docker[1234]: ")),
    "journald-precise": (1, before("Sep 18 23:05:30.123456 dgx1 docker[1234]: ")),
    "journald-iso": (1, before(f"{AT}+0000 dgx1 nd-x-b1-r0[1234]: ")),
    "journald-zone": (1, before(f"{AT}.123456+02:00 dgx1 docker[1234]: ")),
    "syslog": (1, before("<30>Sep 18 23:05:30 dgx1 docker[1234]: ")),
    "kubectl": (1, before("[pod/vllm-head-0/engine] ")),
    "kubectl-stamped": (1, before(f"[pod/vllm-head-0/engine] {AT}.123456789Z ")),
    "cri": (1, before(f"{AT}.123456789Z stderr F ")),
    "srun": (8, before("0: ")),
    "mpirun": (1, before("[1,0]<stdout>:")),
    "torchrun": (8, before("[default0]:")),
    "pdsh": (8, before("dgx1: ")),
    "json-file": (1, as_json),
    "journald-json": (1, lambda text: as_json(text, "MESSAGE", None)),
    "collector-json": (1, lambda text: as_json(text, "message", "@timestamp")),
    "stern-deployment": (8, before("vllm-head-6d4b75cb6d-hwctx engine ")),
    "windows": (1, lambda text: text.replace(b"\n", b"\r\n")),
    "mark": (1, lambda text: b"\xef\xbb\xbf" + text),
    "utf-16": (1, lambda text: text.decode("utf-8", "replace").encode("utf-16")),
}


def told(name: str, text: bytes, piece: int = 65536) -> tuple[str, str, int | None]:
    found: Diagnosis = diagnose([(name, None, lambda: [text[i : i + piece] for i in range(0, len(text), piece)])])
    cause = found.cause
    return str(found.verdict), cause.cls if cause else "", cause.line if cause else None


@pytest.mark.parametrize("how", CARRIED)
def test_a_log_tells_the_same_however_it_came(how: str) -> None:
    least, carry = CARRIED[how]
    tried = 0
    for name, text in CASES.items():
        # A quarter of all for each, where all will do: every log is carried in some way.
        other = least == 1 and zlib.crc32(f"{name} {how}".encode()) % 4
        if len(_lines(text)) < least or STAMPED.search(text) or other:
            continue
        assert told(name, carry(text)) == told(name, text), name
        tried += 1
    assert tried > 2


@pytest.mark.parametrize("name", CASES)
def test_words_of_the_engine_are_taken_for_no_wrapping(name: str) -> None:
    carried = wrapping_of(CASES[name])
    published_with_it = b"|" in CASES[name] or name.startswith("kernel-")
    assert carried is None or published_with_it, "compose and journald are what some were published with"


def test_a_time_comes_along_as_docker_writes_it() -> None:
    rows = (
        (b"2026-09-18T23:05:30+0000 dgx1 docker[1]: hello", b"2026-09-18T23:05:30.000000000Z hello"),
        (b"2026-09-18T23:05:30.25+02:00 dgx1 docker[1]: hello", b"2026-09-18T23:05:30.25+02:00 hello"),
        (b"2026-09-18T23:05:30.25Z stdout F hello", b"2026-09-18T23:05:30.250000000Z hello"),
        (b"Sep 18 23:05:30 dgx1 docker[1]: hello", b"hello"),
    )
    for line, want in rows:
        wrapping = wrapping_of(line)
        assert wrapping is not None
        assert unwrapped(line, wrapping) == want


@pytest.mark.parametrize(
    "line", [b'{"log":', b'{"log": 5}', b'{"log":"x", "time": 5}', b"[]", b'{"log":' + b"[" * 99999]
)
def test_what_is_no_entry_of_docker_stays(line: bytes) -> None:
    assert of_json(line) in (line, b"x")


def test_a_stream_in_single_bytes_is_read_alike() -> None:
    text = "naïve ✓\n".encode("utf-16")
    plain = Plain()
    assert b"".join(plain.feed(text[i : i + 1]) for i in range(len(text))) + plain.finish() == "naïve ✓\n".encode()
    assert Plain().feed(b"ab") == b"" and Plain().finish() == b""
