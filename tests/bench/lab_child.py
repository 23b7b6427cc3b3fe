"""`python -m tests.bench.lab_child FOLDER NODES RATE`: a lab in its own process, whose ranks write RATE lines a second.

Says in one line of JSON where the cluster file is, a second line once all ranks write, and ends with its input."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count
from pathlib import Path

from console.lab.lab import Lab, LabConfig
from console.lab.main import bundled_recipes

BEATS = 20  # bursts a second
RANKS = 8
# What fills an engine's log in a night: requests, NCCL, warnings, now and then the engine's own figures.
AT = "11-30 03:{minute:02}:{second:02}"
LINES = (
    '\x1b[0;36m(APIServer pid=1)\x1b[0;0m INFO:     10.0.0.9:{number} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "(Worker_TP{rank} pid=4242) dgx1:4242:{number} [0] NCCL INFO Channel 05/0 : {rank}[0] -> 1[0] [send] via NET/IB/0",
    "(Worker_TP{rank} pid=4242) WARNING " + AT + " [shm_broadcast.py:501] No available shared memory broadcast block",
    "(APIServer pid=1) INFO " + AT + " [logger.py:40] Received request chatcmpl-{number}: params: SamplingParams(n=1)",
    "(Worker_TP{rank} pid=4242) INFO "
    + AT
    + " [gpu_model_runner.py:3021] Warmed up {number} shapes of the draft model",
)
FIGURES = (
    "(EngineCore pid=4242) INFO " + AT + " [loggers.py:123] Engine 000: Avg prompt throughput: {number}.0 tokens/s, "
    "Avg generation throughput: 98.1 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%"
)


async def chatter(lab: Lab, rate: int) -> None:
    numbers = count()
    told = False
    while True:
        await asyncio.sleep(1.0 / BEATS)
        running = [c for n in lab.world.nodes.values() for c in n.engine.all() if c.running]
        if len(running) < RANKS:
            continue
        for rank, container in enumerate(running):
            for _ in range(max(1, rate // BEATS // len(running))):
                n = next(numbers)
                line = LINES[n % len(LINES)] if n % 500 else FIGURES
                container.logs.text(line.format(rank=rank, minute=n // 6000 % 60, second=n // 100 % 60, number=n))
        if not told:
            told = True
            print(json.dumps({"writing": len(running)}), flush=True)


async def serve(folder: Path, nodes: int, rate: int) -> None:
    lab = Lab(LabConfig(folder=folder, nodes=nodes, speed=100.0, recipes=tuple(bundled_recipes())))
    await lab.start()
    talk = asyncio.create_task(chatter(lab, rate)) if rate else None
    print(json.dumps({"cluster": str(lab.cluster_file)}), flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    if talk is not None:
        talk.cancel()
    await lab.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
