"""A whole boot over real SSH: from docker run to an answer, and how it ends."""

from __future__ import annotations

import json

import asyncssh
import pytest

from .conftest import Make

CHAT = json.dumps({"messages": [{"role": "user", "content": "What is 17 + 25?"}], "max_tokens": 8}).encode()


async def test_eight_ranks_come_up_and_answer(bench: Make) -> None:
    b = await bench()
    started = await b.launch()
    assert [r.exit_status for r in started] == [0] * 8
    with pytest.raises(asyncssh.ChannelOpenError, match="Connection refused"):
        await b.ask("/health")
    head = await b.until("dgx1", "t1-r0", b"Application startup complete.")
    text = b"".join(head)
    order = [b"non-default args", b"world_size=8 rank=0", b"is assigned as DP rank 0", b"Loading model from scratch",
             b"100% Completed | 48/48", b"Model loading took", b"Available KV cache memory", b"GPU KV cache size",
             b"JIT kernel warmup finished", b"init engine", b"Starting vLLM server"]  # fmt: skip
    places = [text.index(w) for w in order]
    assert places == sorted(places)
    assert text.count(b"100% Completed | 48/48") == 2, "the main model and the draft"
    worker = b"".join(await b.until("dgx4", "t1-r3", b"Kernel JIT monitor activated"))
    assert b"headless multiproc executor, with head node address 10.99.0.1:29501" in worker
    assert b"TP rank 3" in worker and b"startup complete" not in worker and b"Completed |" not in worker
    assert b"200 OK" in await b.ask("/health")
    assert b'"deepseek-v4-flash"' in await b.ask("/v1/models")
    answer = json.loads((await b.ask("/v1/chat/completions", CHAT)).split(b"\r\n\r\n", 1)[1])
    assert answer["choices"][0]["message"]["content"] == "42"
    stream = await b.ask("/v1/completions", b'{"prompt": "The capital of France is", "stream": true, "max_tokens": 4}')
    assert stream.count(b"data: ") == 6 and b"Paris" in stream and b"[DONE]" in stream
    assert b"vllm:generation_tokens_total" in await b.ask("/metrics")
    assert b"200 OK" in await b.ask("/health", node="dgx3", host="10.99.0.1"), "the fabric reaches the head too"
    ports = (await b.run("dgx1", "cat $HOST_PROC/net/tcp")).stdout
    assert ":1F40 " in str(ports), "port 8000 listens"


async def test_memory_falls_off_the_cliff_and_comes_back(bench: Make) -> None:
    b = await bench(nodes=2)
    idle = b.lab.node("dgx1").machine.available_gib()
    await b.launch(world=2)
    await b.until("dgx1", "t1-r0", b"Filesystem type for checkpoints")
    loading = b.lab.node("dgx1").machine.available_gib()
    assert idle > 115 and loading < 40
    await b.ready()
    assert 5 < b.lab.node("dgx2").machine.available_gib() < 20
    assert (await b.run("dgx1", "docker rm -f t1-r0")).exit_status == 0
    assert b.lab.node("dgx1").machine.available_gib() > 115


async def test_a_log_is_resumed_where_it_was_left(bench: Make) -> None:
    b = await bench(nodes=1)
    await b.launch(world=1)
    first = await b.until("dgx1", "t1-r0", b"Completed | 7/48")
    last = first[-1].split(b" ", 1)[0].decode()
    rest = await b.until("dgx1", "t1-r0", b"Application startup complete.", since=last)
    assert rest[0] == first[-1], "since is inclusive"
    whole = (await b.run("dgx1", "docker logs -t t1-r0 2>&1", encoding=None)).stdout
    seen = b"".join(first[:-1] + rest)
    assert sorted(seen.split(b"\n")) == sorted(bytes(whole or b"")[: len(seen)].split(b"\n")) or seen in bytes(
        whole or b""
    )


async def test_killing_the_head_ends_the_workers_with_zero(bench: Make) -> None:
    b = await bench(nodes=3)
    await b.launch(world=3)
    await b.ready()
    assert (await b.run("dgx1", "docker kill t1-r0")).exit_status == 0
    assert (await b.run("dgx1", "docker inspect -f '{{.State.ExitCode}}' t1-r0")).stdout == "137\n"
    for n in (1, 2):
        assert (await b.run(f"dgx{n + 1}", f"docker wait t1-r{n}")).stdout == "0\n"


async def test_a_clean_stop_prints_shutdown_and_ends_with_zero(bench: Make) -> None:
    b = await bench(nodes=1)
    await b.launch(world=1)
    await b.ready()
    assert (await b.run("dgx1", "docker stop -t 20 t1-r0")).stdout == "t1-r0\n"
    log = str((await b.run("dgx1", "docker logs t1-r0 2>&1")).stdout)
    assert "[shutdown] API server: shutdown triggered" in log and "EngineDeadError" in log
    assert (
        await b.run("dgx1", "docker inspect -f '{{.State.Status}} {{.State.ExitCode}}' t1-r0")
    ).stdout == "exited 0\n"
    with pytest.raises(asyncssh.ChannelOpenError):
        await b.ask("/health")


async def test_too_large_a_share_fails_for_the_engine_s_own_reasons(bench: Make) -> None:
    b = await bench(nodes=1)
    await b.launch(world=1, extra="--gpu-memory-utilization 0.97")
    await b.until("dgx1", "t1-r0", b"is less than desired GPU memory utilization (0.97, 118.04 GiB)")
    assert (await b.run("dgx1", "docker wait t1-r0")).stdout == "1\n"


async def test_a_misspelt_argument_ends_with_two(bench: Make) -> None:
    b = await bench(nodes=1)
    await b.launch(world=1, extra="--max-model-length 5")
    await b.until("dgx1", "t1-r0", b"error: unrecognized arguments: --max-model-length")
    assert (await b.run("dgx1", "docker wait t1-r0")).stdout == "2\n"
