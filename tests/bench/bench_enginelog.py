"""Lines per second from bytes to stages, eight ranks merged, on one core: `python -m tests.bench.bench_enginelog`."""

from __future__ import annotations

import gc
import random
import re
import time
from pathlib import Path

from console.enginelog.board import BoardTracker

LOGS = Path(__file__).parent.parent / "fixtures" / "engine-logs"
RANKS = 8
CHUNK = 65536
GOAL = 200_000


def _serving(lines: int) -> bytes:
    """What a busy head writes: access lines and statistics, stamped by docker."""
    out = []
    for number in range(lines):
        stamp = f"2026-09-18T23:{number // 6000 % 60:02d}:{number // 100 % 60:02d}.{number % 100:02d}0000000Z "
        clock = stamp[11:19]
        if number % 20:
            peer = f"10.77.1.250:{40000 + number % 999}"
            text = f'(APIServer pid=1) INFO:     {peer} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        else:
            text = (
                f"(APIServer pid=1) INFO 09-18 {clock} [loggers.py:287] Engine 000: "
                "Avg prompt throughput: 184.2 tokens/s, Avg generation throughput: 118.6 tokens/s, "
                "Running: 6 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.9%, Prefix cache hit rate: 11.8%"
            )
        out.append(stamp + text)
    return ("\n".join(out) + "\n").encode()


def _nccl(lines: int) -> bytes:
    """What NCCL_DEBUG=INFO writes on a worker."""
    line = (
        "2026-09-18T23:05:57.{0:09d}Z dgx4:324:412 [0] NCCL INFO Channel {1:02d}/0 : 3[0] -> 4[0] [send] "
        "via NET/IB/0/GDRDMA\n"
    )
    return "".join(line.format(n, n % 64) for n in range(lines)).encode()


def _chatter(lines: int) -> bytes:
    """What a worker writes when a module logs at every step: engine lines that matter to no stage."""
    line = (
        "2026-09-18T23:{0:02d}:{1:02d}.{2:09d}Z (Worker_TP3 pid=324) INFO 09-18 23:{0:02d}:{1:02d} [scheduler.py:288] "
        "Step {2} took 12.5 ms for 8 requests, 48 tokens scheduled\n"
    )
    return "".join(line.format(n // 6000 % 60, n // 100 % 60, n) for n in range(lines)).encode()


def boots(log: bytes, times: int) -> bytes:
    """One boot after another, as a night has them: other days, other process numbers, other fractions of seconds."""
    out = []
    for number in range(times):
        day = b"%02d" % (number % 28 + 1)
        copy = re.sub(rb"(20\d\d-\d\d-|(?:INFO|ERROR|DEBUG|WARNING) \d\d-)\d\d(?=[T ])", rb"\g<1>" + day, log)
        copy = re.sub(rb"pid=\d+", b"pid=%d" % (300 + number * 7 % 600), copy)
        out.append(re.sub(rb"\.\d{6}(?=\d{3}Z )", b".%06d" % (number * 7919 % 10**6), copy))
    return b"".join(out)


def boot_streams(times: int) -> list[bytes]:
    """Eight ranks' boots: the head's log, and a worker's seven times."""
    worker = (LOGS / "composed-success-rank3-docker-t.log").read_bytes()
    return [boots((LOGS / "composed-success.log").read_bytes(), times), *[boots(worker, 3 * times)] * (RANKS - 1)]


# Numbers that stand by themselves: those within names (fp8, V1, TP3, a.py:12) are the same in every boot.
_NUMBER = re.compile(rb"(?<![\w.:/\-])\d+(?:\.\d+)?(?![\w:\-])")
_HEAD = re.compile(rb"(?:\S+Z )?(?:\([^)]*\) )?(?:[A-Z]+ \d\d-\d\d \S+ \[[^\]]*\] )?")


def varied(log: bytes, times: int, rank: int) -> bytes:
    """Boots of one rank of which no two say the same: beside days, process numbers and fractions of seconds, every
    number of every message is another one, of a digit less or more as often as not."""
    rng = random.Random(rank)

    def other(found: re.Match[bytes]) -> bytes:
        whole, point, part = found[0].partition(b".")
        size = max(1, len(whole) + rng.choice((-1, 0, 0, 1)))
        number = b"%d" % rng.randrange(10**size) + point
        return number + b"%0*d" % (len(part), rng.randrange(10 ** len(part))) if part else number

    out = []
    for line in boots(log, times).split(b"\n"):
        found = _HEAD.match(line)
        head = found[0] if found is not None else b""
        number = rank * 977 + 1
        mine = re.sub(rb"pid=(\d+)", lambda m: b"pid=%d" % (int(m[1]) * number % 29989), head)  # noqa: B023 called here
        out.append(mine.replace(b"TP0", b"TP%d" % rank) + _NUMBER.sub(other, line[len(head) :]))
    return b"\n".join(out)


def varied_streams(times: int) -> list[bytes]:
    """Eight ranks' boots of which no two say the same."""
    head = (LOGS / "composed-success.log").read_bytes()
    worker = (LOGS / "composed-success-rank3-docker-t.log").read_bytes()
    return [varied(head, times, 0), *[varied(worker, 3 * times, rank) for rank in range(1, RANKS)]]


def measure(name: str, streams: list[bytes]) -> float:
    """Prints and returns lines per second of this process's own time, best of three: others may use the core."""
    pieces = [
        (rank, stream[start : start + CHUNK])
        for start in range(0, max(map(len, streams)), CHUNK)
        for rank, stream in enumerate(streams)
        if start < len(stream)
    ]
    lines = sum(stream.count(b"\n") for stream in streams)
    seconds = min(_once(pieces) for _ in range(3))
    rate = lines / seconds
    verdict = "" if rate >= GOAL else "below the goal"
    print(f"{name:<28} {lines:>9,} lines {seconds:8.3f} s {rate:>11,.0f} lines/s {verdict}")
    return rate


def _once(pieces: list[tuple[int, bytes]]) -> float:
    board = BoardTracker(RANKS)
    gc.collect()
    begin = time.process_time()
    for rank, piece in pieces:
        board.feed(rank, piece)
    return time.process_time() - begin


def main() -> None:
    real = (LOGS / "real-cpu-tp8-rank0.log").read_bytes()
    measure("engine lines", [_chatter(10_000)] * RANKS)
    measure("serving head, NCCL workers", [_serving(10_000), *[_nccl(10_000)] * (RANKS - 1)])
    measure("boots of eight ranks", boot_streams(30))
    measure("real boots (CPU build)", [boots(real, 50)] * RANKS)


if __name__ == "__main__":
    main()
