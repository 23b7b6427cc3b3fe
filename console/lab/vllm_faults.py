"""How a rank fails: the faults of a scenario at their moment, and the words that each failure leaves in the log."""
# ruff: noqa: E501 lines of output are kept whole, as they are printed

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from console.lab.machine import MEM_TOTAL_KB, Load
from console.lab.vllm_ends import Exit
from console.lab.world import World

if TYPE_CHECKING:
    from console.lab.vllm_rank import Rank

_GPU_WORKER: Final = "vllm/v1/worker/gpu_worker.py"
_FAILED: Final = "[multiproc_executor.py:944]"


class Faults:
    """The faults of one rank. Each method is called at the moment in which its fault can strike."""

    def __init__(self, world: World, rank: Rank) -> None:
        self._world = world
        self._rank = rank
        self._struck = False

    def _here(self, name: str) -> bool:
        r = self._rank
        members = r.group.members.values() if r.group is not None else ()
        used = frozenset(m.node.machine.number for m in members) if len(members) >= r.args.world else frozenset[int]()
        return self._world.strikes_rank(name, r.node, r.rank, r.args.world, used)

    def never_joins(self) -> bool:
        return self._here("rendezvous-timeout") and self._rank.rank > 0

    async def before_nccl(self) -> None:
        if self._here("oom-gate"):
            machine = self._rank.node.machine
            share = self._rank.args.gpu_share * MEM_TOTAL_KB / 1024 / 1024
            # Whatever share the recipe asks for, something else holds a little more than would leave it.
            machine.load("another process").ramp(
                self._rank.clock.now(), max(14.0, machine.available_gib() - share + 6), 2
            )

    async def memory_gate(self) -> None:
        """The engine's own check, before any weight is loaded: available memory under the share asked for."""
        r = self._rank
        total = MEM_TOTAL_KB / 1024 / 1024
        # The engine counts what was free at its start, before its own communication buffers.
        free = r.node.machine.available_gib() + r.load.held(r.clock.now())
        wanted = r.args.gpu_share * total
        if free >= wanted:
            return
        r.say.traceback(
            "WORKER", _FAILED, "WorkerProc failed to start.",
            [("vllm/v1/executor/multiproc_executor.py", 910, "worker_main", "worker = WorkerProc(*args, **kwargs)"),
             (_GPU_WORKER, 412, "init_device", "self.requested_memory = request_memory(init_snapshot, self.cache_config)"),
             ("vllm/v1/worker/utils.py", 281, "request_memory", "raise ValueError(")],
            f"ValueError: Free memory on device cuda:0 ({free:.2f}/{total:.2f} GiB) on startup is less than desired GPU memory "
            f"utilization ({r.args.gpu_share:g}, {wanted:.2f} GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        )  # fmt: skip
        await r.wait(1)
        if r.rank == 0:
            r.say.engine_failed()
        raise Exit(1)

    async def after_shard(self, part: float) -> None:
        """Between two shards: what strikes while weights load."""
        if self._struck or part < 0.3:
            return
        r = self._rank
        if self._here("rank-dies-loading") and part >= 0.38:
            self._struck = True
            r.say.traceback(
                "WORKER", _FAILED, "WorkerProc failed to start.",
                [("vllm/v1/executor/multiproc_executor.py", 914, "worker_main", "worker.load_model()"),
                 ("vllm/model_executor/model_loader/weight_utils.py", 1009, "safetensors_weights_iterator", 'with safe_open(st_file, framework="pt") as f:')],
                "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered",
            )  # fmt: skip
            await r.wait(2)
            raise Exit(1)
        if self._here("node-silent"):
            self._struck = True
            r.node.freeze()
        elif self._here("node-cut"):
            self._struck = True
            r.node.cut_off()
        elif self._here("memory-collapse"):
            self._struck = True
            now = r.clock.now()
            fall = r.node.machine.collapse = Load(
                gib=r.node.machine.available_gib(), goal=r.node.machine.available_gib()
            )
            fall.ramp(now, 0.5, 30)
            asyncio.get_running_loop().call_later(r.clock.wall(60), r.node.freeze)
        await r.node.moving.wait()

    async def while_serving(self) -> None:
        r = self._rank
        if self._here("worker-dies-serving") and r.rank:
            await r.wait(25)
            raise Exit(137)

    def port_in_use(self) -> None:
        say = self._rank.say
        say.bare("API", "Traceback (most recent call last):")
        say.bare("API", '  File "/usr/local/bin/vllm", line 10, in <module>')
        say.bare("API", "    sys.exit(main())")
        say.bare(
            "API",
            '  File "/usr/local/lib/python3.12/dist-packages/vllm/entrypoints/launchers/launcher.py", line 348, in create_server_socket',
        )
        say.bare("API", "    sock.bind(addr)")
        say.bare("API", "OSError: [Errno 98] Address already in use")

    def store_timeout(self, joined: int) -> None:
        r = self._rank
        frames = [
            (_GPU_WORKER, 404, "init_device", "init_worker_distributed_environment("),
            (
                "vllm/distributed/parallel_state.py",
                1821,
                "init_distributed_environment",
                "torch.distributed.init_process_group(",
            ),
            ("torch/distributed/rendezvous.py", 201, "_create_c10d_store", "return TCPStore("),
        ]
        if r.rank == 0:
            last = f"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. {joined}/{r.args.world} clients joined."
        else:
            last = (
                "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
                f"({r.args.text('master-addr')}, {r.args.number('master-port', 29501)})."
            )
        r.say.traceback("WORKER", _FAILED, "WorkerProc failed to start.", frames, last)

    def no_kv_cache(self) -> None:
        self._rank.say.traceback(
            "WORKER", "[multiproc_executor.py:1055]", "WorkerProc hit an exception.",
            [(_GPU_WORKER, 741, "determine_available_memory", "check_enough_kv_cache_memory(")],
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        )  # fmt: skip

    def kv_too_small(self, kv: float, length: int) -> None:
        needed = length / 106_158
        self._rank.say.traceback(
            "CORE", "[core.py:1374]", "EngineCore failed to start.",
            [("vllm/v1/core/kv_cache_utils.py", 702, "check_enough_kv_cache_memory", "raise ValueError(")],
            f"ValueError: To serve at least one request with the models's max seq len ({length}), ({needed:.2f} GiB KV cache is needed, "
            f"which is larger than the available KV cache memory ({kv:.2f} GiB). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.",
        )  # fmt: skip

    def head_gone(self) -> None:
        r = self._rank
        remote = f"[::ffff:{r.args.text('master-addr')}]:{r.args.number('master-port', 29501)}"
        r.say.c10d(
            f"TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=46, addr=[::]:3693, remote={remote}): Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
        )
        r.say.c10d(
            f'ProcessGroupNCCL.cpp:1876] [PG ID 0 PG GUID 0 Rank {r.rank}] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Broken pipe'
        )

    def peer_gone(self, rank: int) -> None:
        r = self._rank
        member = r.group.members.get(rank) if r.group else None
        address = member.node.machine.fabric_address if member else "unknown"
        r.say.logs.text(
            f"{r.node.name}:{r.say.worker_pid}:{r.say.worker_pid} [0] NCCL WARN socketProgress: Connection closed by remote peer {address}<40613>"
        )
        r.say.traceback(
            "WORKER", "[multiproc_executor.py:1055]", "WorkerProc hit an exception.",
            [(_GPU_WORKER, 512, "load_model", "torch.distributed.barrier()")],
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited or there was a network error, NCCL version 2.30.7\n"
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        )  # fmt: skip

    def engine_dead(self) -> None:
        r = self._rank
        r.say.traceback(
            "CORE", "[core.py:1391]", "EngineCore encountered a fatal error.",
            [("vllm/v1/executor/multiproc_executor.py", 402, "get_response", "raise TimeoutError(f\"RPC call to {method} timed out.\") from e")],
            "TimeoutError: RPC call to sample_tokens timed out.",
        )  # fmt: skip
        r.say.log("API", "[async_llm.py:906] AsyncLLM output_handler failed.", "ERROR")
        r.say.log(
            "API",
            "[async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
            "ERROR",
        )
