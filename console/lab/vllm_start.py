"""A rank's first minute: its arguments, and the meeting with the others at the head's store."""
# ruff: noqa: E501 lines of output are kept whole, as they are printed

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from console.lab.machine import HCAS
from console.lab.vllm_args import VERSION
from console.lab.vllm_ends import Exit
from console.lab.vllm_load import offload
from console.lab.vllm_text import DISABLED
from console.lab.world import Group

if TYPE_CHECKING:
    from console.lab.vllm_rank import Rank

_STORE_WAIT_S: Final = 601.0
# Whoever starts the ranks works in wall seconds whatever the lab's speed: while some are not started yet, a rank waits
# at least this long.
_START_PATIENCE_S: Final = 60.0


async def arguments(r: Rank) -> None:
    a, say = r.args, r.say
    main = "MAIN"
    await r.wait(3.5 + r.rng.random())
    port = a.number("port", 8000)
    if r.rank == 0:
        say.logo(a.model)
        say.log("API", f"[api_utils.py:286] non-default args: {a.non_default()}")
        if port in r.node.bound or r.node.service("127.0.0.1", port) is not None:
            r.faults.port_in_use()
            raise Exit(1)
        r.node.bound.add(port)
        r.bound.append(port)
    await r.wait(2)
    say.log(main, "[config.py:840] Detected quantization_config.scale_fmt=ue8m0; enabling UE8M0 for DeepGEMM.")
    say.log(main, "[model.py:692] Resolved architecture: DeepseekV41ForCausalLM")
    say.log(main, f"[model.py:2030] Using max model len {a.max_len}")
    await r.wait(4)
    say.log(main, f"[arg_utils.py:2268] Inferred data_parallel_rank 0 from node_rank {r.rank}")
    if a.drafts:
        say.log(main, "[model.py:692] Resolved architecture: DeepseekV41ForCausalLM")
        say.log(main, "[model.py:2030] Using max model len 1048576")
        say.log(main, f"[speculative.py:1643] Overriding draft model max model len from 1048576 to {a.max_len}")
    batched = a.number("max-num-batched-tokens", 8192)
    say.log(main, f"[scheduler.py:288] Chunked prefill is enabled with max_num_batched_tokens={batched}.")
    tables = offload(r)
    say.log(
        main,
        f"[vllm.py:1147] Resolved Engram configuration: EngramConfig(cpu_offload={tables}, embedding_across_dp=False)",
    )
    say.log(main, "[compilation.py:329] Enabled custom fusions: norm_quant, act_quant")
    await r.wait(1)
    store = f"{a.text('master-addr', '127.0.0.1')}:{a.number('master-port', 29501)}"
    if r.rank:
        say.log(
            main,
            f"[serve.py:217] Launching vLLM (v{VERSION}) headless multiproc executor, with head node address {store} for torch.distributed process group.",
        )
        await r.wait(13 + r.rng.random() * 4)
        return
    r.loading = True
    await r.wait(8)
    say.log("CORE", f"[core.py:123] Initializing a V1 LLM engine (v{VERSION}) with config: model='{a.model}', "
                    f"tokenizer='{a.model}', dtype=torch.bfloat16, max_seq_len={a.max_len}, load_format=auto, "
                    f"tensor_parallel_size={a.number('tensor-parallel-size', 1)}, pipeline_parallel_size={a.number('pipeline-parallel-size', 1)}, "
                    f"kv_cache_dtype=fp8_ds_mla, served_model_name={a.served}, enable_prefix_caching=True")  # fmt: skip
    await r.wait(1)
    head = store.partition(":")[0]
    say.log(
        "CORE",
        f"[multiproc_executor.py:153] DP group leader: node_rank=0, node_rank_within_dp=0, master_addr={head}, mq_connect_ip={head} (local), world_size={a.world}, local_world_size=1",
    )
    await r.wait(7)


async def rendezvous(r: Rank) -> None:
    a, say = r.args, r.say
    address, port = a.text("master-addr", "127.0.0.1"), a.number("master-port", 29501)
    own = r.node.machine.fabric_address
    say.log(
        "WORKER",
        f"[parallel_state.py:1807] world_size={a.world} rank={r.rank} local_rank=0 distributed_init_method=tcp://{address}:{port} backend=nccl",
    )
    if a.world > 1:
        group = r.group = r.world.group(address, port, a.world)
    else:
        group = r.group = Group(r.clock, 1)
    started = group.arrive("started", r.rank)
    if r.faults.never_joins() or (r.rank == 0 and a.world > 1 and address not in (own, r.node.name, "127.0.0.1")):
        await _store(r, asyncio.Event(), started)
    if not group.join(r):
        await r.until(asyncio.Event())  # a second rank of one number: it waits, and says nothing
    if r.rank == 0 and a.world > 1:
        r.node.machine.listening.add((own, port))
    joined = group.arrive("joined", r.rank)
    await _store(r, joined, started)
    await r.wait(3)
    await r.faults.before_nccl()
    if r.rank:
        hcas = " ".join(f"[{n}]{hca}:1/RoCE" for n, (hca, _) in enumerate(HCAS))
        say.nccl(r.node.name, f"Bootstrap: Using enp1s0f0np0:{own}<0>")
        say.nccl(r.node.name, "NCCL version 2.30.7+cuda13.3")
        say.nccl(r.node.name, f"NET/IB : Using {hcas} [RO]; OOB enp1s0f0np0:{own}<0>")
        say.nccl(r.node.name, "Using network IB")
    else:
        say.logs.text("NCCL version 2.30.7+cuda13.3")
        say.log("WORKER", "[pynccl.py:113] vLLM is using nccl==2.30.7")
    r.set(util=2, rx=2e6, tx=2e6, cpu=1.5)
    r.load.ramp(r.clock.now(), 4.2, 12)
    await r.until(group.arrive("nccl", r.rank))
    await r.wait(14 + r.rng.random())
    for line in DISABLED:
        say.log("WORKER", line, "WARNING")
    say.log(
        "WORKER",
        f"[parallel_state.py:2173] rank {r.rank} in world size {a.world} is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank {r.rank}, ETP rank {r.rank}, EP rank {r.rank}, EPLB rank N/A",
    )
    await r.faults.memory_gate()


async def _store(r: Rank, joined: asyncio.Event, started: asyncio.Event) -> None:
    """Wait for all ranks at the store, no longer than torch does."""
    meeting, late = asyncio.create_task(r.until(joined)), asyncio.create_task(started.wait())
    patience = r.clock.wall(_STORE_WAIT_S)
    try:
        await asyncio.wait([meeting], timeout=patience)
        if not started.is_set() and patience < _START_PATIENCE_S:
            left = _START_PATIENCE_S - patience
            await asyncio.wait([meeting, late], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([meeting], timeout=patience)
        if joined.is_set():
            return await meeting
    finally:
        meeting.cancel()
        late.cancel()
        await asyncio.gather(meeting, late, return_exceptions=True)
    r.faults.store_timeout(r.group.arrived("joined") if r.group else 0)
    await r.wait(2)
    if r.rank == 0:
        r.say.engine_failed()
    raise Exit(1)
