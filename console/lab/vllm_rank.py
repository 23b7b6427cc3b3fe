"""One rank of a simulated engine: from its arguments to its last line."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Final

from console.lab.containers import Container
from console.lab.logstore import STDERR
from console.lab.machine import HCAS, MEM_TOTAL_KB
from console.lab.vllm_api import ApiServer
from console.lab.vllm_args import VERSION, EngineArgs
from console.lab.vllm_ends import Exit, PeerLeft
from console.lab.vllm_faults import Faults
from console.lab.vllm_text import BUILD, DISABLED, ROUTES, SHUTDOWN, Printer, graph_bar, shard_bar
from console.lab.world import Group, LabNode, World

TOTAL_GIB: Final = MEM_TOTAL_KB / 1024 / 1024
_SHARDS: Final = 48
_STORE_WAIT_S: Final = 601.0
# Lab seconds of the two passes over the checkpoint: a warm NFS mount, between the public NVMe and cold-cache figures.
_WEIGHTS_S: Final = 330.0
_DRAFT_S: Final = 62.0


class Rank:
    """The program in a rank's container. Times are lab seconds."""

    def __init__(self, world: World, node: LabNode, container: Container, args: EngineArgs) -> None:
        self.world = world
        self.node = node
        self.container = container
        self.args = args
        self.rank = args.rank
        self.clock = world.clock
        self.say = Printer(container.logs, args.rank)
        self.group: Group | None = None
        self.ended = False
        self.serving = False
        self.loading = False
        self.key = f"{container.id[:12]}:{args.rank}"
        self.load = node.machine.load(self.key)
        self.faults = Faults(world, self)
        self.api: ApiServer | None = None
        self._rng = random.Random(f"rank {args.rank} of {args.world}")
        self._poke = asyncio.Event()
        self._term = False
        self._left: list[int] = []
        self._bound: list[int] = []

    # -- what others do to it

    def terminate(self) -> None:
        # A head that is still loading takes SIGTERM without a line and boots on until it is killed.
        if self.rank == 0 and self.loading:
            return
        self._term = True
        self._poke.set()

    def peer_left(self, rank: int) -> None:
        self._left.append(rank)
        self._poke.set()

    # -- the process

    async def run(self) -> int:
        try:
            await self._boot()
            await self._serve()
        except Exit as e:
            return e.code
        except PeerLeft as e:
            return await self._after_loss(e.rank)
        finally:
            self.ended = True
            self.node.machine.loads.pop(self.key, None)
            if self.api is not None:
                await self.api.close()
            for port in self._bound:
                self.node.bound.discard(port)
            if self.group is not None and self.group.members.get(self.rank) is self:
                if self.rank == 0:
                    self.node.close_port(self.node.machine.fabric_address, self.args.number("master-port", 29501))
                self.group.leave(self.rank)
        return 0

    async def wait(self, lab_s: float) -> None:
        """Time passes; raises when the process is told to end or must notice that a peer is gone."""
        end = self.clock.now() + lab_s
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._poke.wait(), max(0.0, self.clock.wall(end - self.clock.now())))
            await self.node.moving.wait()
            await self._react()
            if self.clock.now() >= end:
                return

    async def _react(self) -> None:
        self._poke.clear()
        if self._term:
            await self._shutdown()
        for rank in self._left:
            # A worker only notices its head; the head, while loading, everyone.
            if rank == 0 or (self.rank == 0 and not self.serving):
                self._left.remove(rank)
                raise PeerLeft(rank)
        self._left.clear()

    async def _event(self, event: asyncio.Event) -> None:
        """Wait for something that other ranks bring about."""
        while not event.is_set():
            waits = [asyncio.create_task(event.wait()), asyncio.create_task(self._poke.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for w in waits:
                    w.cancel()
            await self.node.moving.wait()
            if not event.is_set():
                await self._react()
        await self.node.moving.wait()

    async def _boot(self) -> None:
        await self._arguments()
        await self._rendezvous()
        await self._build()
        await self._weights()
        await self._profile()
        await self._warm_up()

    async def _arguments(self) -> None:
        a, say = self.args, self.say
        main = "MAIN"
        await self.wait(3.5 + self._rng.random())
        port = a.number("port", 8000)
        if self.rank == 0:
            say.logo(a.model)
            say.log("API", f"[api_utils.py:286] non-default args: {a.non_default()}")
            if port in self.node.bound or self.node.service("127.0.0.1", port) is not None:
                self.faults.port_in_use()
                raise Exit(1)
            self.node.bound.add(port)
            self._bound.append(port)
        await self.wait(2)
        say.log(main, "[config.py:840] Detected quantization_config.scale_fmt=ue8m0; enabling UE8M0 for DeepGEMM.")
        say.log(main, "[model.py:692] Resolved architecture: DeepseekV41ForCausalLM")
        say.log(main, f"[model.py:2030] Using max model len {a.max_len}")
        await self.wait(4)
        say.log(main, f"[arg_utils.py:2268] Inferred data_parallel_rank 0 from node_rank {self.rank}")
        if a.drafts:
            say.log(main, "[model.py:692] Resolved architecture: DeepseekV41ForCausalLM")
            say.log(main, "[model.py:2030] Using max model len 1048576")
            say.log(main, f"[speculative.py:1643] Overriding draft model max model len from 1048576 to {a.max_len}")
        batched = a.number("max-num-batched-tokens", 8192)
        say.log(main, f"[scheduler.py:288] Chunked prefill is enabled with max_num_batched_tokens={batched}.")
        offload = self._offload
        say.log(
            main,
            f"[vllm.py:1147] Resolved Engram configuration: EngramConfig(cpu_offload={offload}, embedding_across_dp=False)",
        )
        say.log(main, "[compilation.py:329] Enabled custom fusions: norm_quant, act_quant")
        await self.wait(1)
        store = f"{a.text('master-addr', '127.0.0.1')}:{a.number('master-port', 29501)}"
        if self.rank:
            say.log(
                main,
                f"[serve.py:217] Launching vLLM (v{VERSION}) headless multiproc executor, with head node address {store} for torch.distributed process group.",
            )
            await self.wait(13 + self._rng.random() * 4)
            return
        self.loading = True
        await self.wait(8)
        say.log("CORE", f"[core.py:123] Initializing a V1 LLM engine (v{VERSION}) with config: model='{a.model}', "
                        f"tokenizer='{a.model}', dtype=torch.bfloat16, max_seq_len={a.max_len}, load_format=auto, "
                        f"tensor_parallel_size={a.number('tensor-parallel-size', 1)}, pipeline_parallel_size={a.number('pipeline-parallel-size', 1)}, "
                        f"kv_cache_dtype=fp8_ds_mla, served_model_name={a.served}, enable_prefix_caching=True")  # fmt: skip
        await self.wait(1)
        head = store.partition(":")[0]
        say.log(
            "CORE",
            f"[multiproc_executor.py:153] DP group leader: node_rank=0, node_rank_within_dp=0, master_addr={head}, mq_connect_ip={head} (local), world_size={a.world}, local_world_size=1",
        )
        await self.wait(7)

    @property
    def _offload(self) -> bool:
        config = self.args.values.get("engram-config")
        return bool(config.get("cpu_offload", True)) if isinstance(config, dict) else True

    async def _rendezvous(self) -> None:
        a, say = self.args, self.say
        address, port = a.text("master-addr", "127.0.0.1"), a.number("master-port", 29501)
        own = self.node.machine.fabric_address
        say.log(
            "WORKER",
            f"[parallel_state.py:1807] world_size={a.world} rank={self.rank} local_rank=0 distributed_init_method=tcp://{address}:{port} backend=nccl",
        )
        if a.world > 1:
            group = self.group = self.world.group(address, port, a.world)
        else:
            group = self.group = Group(self.clock, 1)
        if self.faults.never_joins() or (
            self.rank == 0 and a.world > 1 and address not in (own, self.node.name, "127.0.0.1")
        ):
            await self._store_timeout(None)
        if not group.join(self):
            await self._event(asyncio.Event())  # a second rank of one number: it waits, and says nothing
        if self.rank == 0 and a.world > 1:
            self.node.machine.listening.add((own, port))
        joined = group.arrive("joined", self.rank)
        await self._store_timeout(joined)
        await self.wait(3)
        await self.faults.before_nccl()
        if self.rank:
            hcas = " ".join(f"[{n}]{hca}:1/RoCE" for n, (hca, _) in enumerate(HCAS))
            say.nccl(self.node.name, f"Bootstrap: Using enp1s0f0np0:{own}<0>")
            say.nccl(self.node.name, "NCCL version 2.30.7+cuda13.3")
            say.nccl(self.node.name, f"NET/IB : Using {hcas} [RO]; OOB enp1s0f0np0:{own}<0>")
            say.nccl(self.node.name, "Using network IB")
        else:
            say.logs.text("NCCL version 2.30.7+cuda13.3")
            say.log("WORKER", "[pynccl.py:113] vLLM is using nccl==2.30.7")
        self._set(util=2, rx=2e6, tx=2e6, cpu=1.5)
        self.load.ramp(self.clock.now(), 4.2, 12)
        await self._event(group.arrive("nccl", self.rank))
        await self.wait(14 + self._rng.random())
        for line in DISABLED:
            say.log("WORKER", line, "WARNING")
        say.log(
            "WORKER",
            f"[parallel_state.py:2173] rank {self.rank} in world size {a.world} is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank {self.rank}, ETP rank {self.rank}, EP rank {self.rank}, EPLB rank N/A",
        )
        await self.faults.memory_gate()

    async def _store_timeout(self, joined: asyncio.Event | None) -> None:
        """Wait for all ranks at the store, no longer than torch does."""
        event = joined or asyncio.Event()
        waiting = asyncio.create_task(self._event(event))
        done, _ = await asyncio.wait([waiting], timeout=self.clock.wall(_STORE_WAIT_S))
        if done:
            waiting.result()
            return
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        self.faults.store_timeout(self.group.arrived("joined") if self.group else 0)
        await self.wait(2)
        if self.rank == 0:
            self.say.engine_failed()
        raise Exit(1)

    async def _build(self) -> None:
        say = self.say
        say.log("WORKER", "[gpu_worker.py:438] Using V2 Model Runner")
        say.joined = True
        await self.wait(1)
        say.log("WORKER", "[model_runner.py:394] Loading model from scratch...")
        for line in BUILD:
            say.log("WORKER", line)
        # 111 GiB available fall to about 31 within 5 s, as the parameters are allocated.
        self.load.ramp(self.clock.now(), 84.6 + self._rng.uniform(-0.8, 0.8), 5)
        self._set(util=4, cpu=2)
        for rows in (48_000_771, 48_001_940):
            await self.wait(3)
            if self._offload:
                say.log(
                    "WORKER",
                    f"[engram.py:884] Engram table offloaded to pinned host memory: {rows} rows x 256, 11.80 GiB per rank",
                )
        await self.wait(3)
        say.log("WORKER", "[engram.py:438] Built engram token map (129280 -> 99092 ids) for layers (1, 14)")
        ram = self.node.machine.available_gib()
        say.log(
            "WORKER",
            f"[weight_utils.py:865] Filesystem type for checkpoints: NFS4. Checkpoint size: 475.25 GiB. Available RAM: {ram:.2f} GiB.",
        )
        say.log(
            "WORKER",
            f"[weight_utils.py:877] Network filesystem (NFS4) detected but checkpoint total size (475.25 GiB) exceeds 90% of available RAM ({ram:.2f} GiB). Skipping auto-prefetch.",
            "WARNING",
        )

    async def _weights(self) -> None:
        say = self.say
        begun = self.clock.now()
        slow = 1.16 if self.node.machine.number == 6 else 1.0
        pace = (_WEIGHTS_S * slow * self._rng.uniform(0.96, 1.04)) / _SHARDS
        if self.world.strikes("slow-weights"):
            pace = self.clock.lab(1.6 * self._deadline_s()) / _SHARDS
        self.load.ramp(self.clock.now(), 93.0 + self._rng.uniform(-0.6, 0.6), pace * _SHARDS)
        self._set(util=9, rx=4.6e8 / slow, tx=6e6, disk=0, cpu=3.2 + 2 * (slow - 1) * 10)
        self.load.disk = 1e6
        await self._pass(pace)
        say.log(
            "WORKER",
            f"[default_loader.py:430] Loading weights took {self.clock.wall(self.clock.now() - begun):.2f} seconds",
        )
        if self.args.drafts:
            await self.wait(1)
            say.log(
                "WORKER",
                "[utils.py:25] Using the target model's FLASHINFER_MLA_SPARSE_DSV41 attention backend for the DeepSeek-V4 DSpark drafter.",
            )
            second = self.clock.now()
            await self._pass(_DRAFT_S * slow / _SHARDS)
            say.log(
                "WORKER",
                f"[default_loader.py:430] Loading weights took {self.clock.wall(self.clock.now() - second):.2f} seconds",
            )
        gib = 49.56 if self._offload else 73.16
        say.log(
            "WORKER",
            f"[model_runner.py:408] Model loading took {gib:.2f} GiB memory and {self.clock.wall(self.clock.now() - begun):.6f} seconds",
        )
        self._set(util=1, cpu=1)

    async def _pass(self, pace: float) -> None:
        """All shards once; only rank 0 draws the bar."""
        begun = self.clock.now()
        for done in range(_SHARDS + 1):
            if done:
                await self.wait(max(0.0, begun + done * pace - self.clock.now()))
            if self.rank == 0:
                self.say.bare("WORKER", "\r" + shard_bar(done, _SHARDS, self.clock.wall(self.clock.now() - begun)))
            await self.faults.after_shard(done / _SHARDS)
        if self.rank == 0:
            self.say.bare("WORKER", "")

    def _deadline_s(self) -> float:
        """Wall seconds that the console gives this boot, as the container itself says it."""
        env = self.container.environment()
        text = self.container.labels.get("nightdeck.ready_timeout_s") or env.get("VLLM_ENGINE_READY_TIMEOUT_S", "1800")
        try:
            return float(text)
        except ValueError:
            return 1800.0

    async def _profile(self) -> None:
        assert self.group is not None
        say = self.say
        await self._event(self.group.arrive("loaded", self.rank))
        await self.wait(5)
        say.log(
            "WORKER",
            "[encoder_runner.py:132] Encoder cache will be initialized with a budget of 8192 tokens, and profiled with 1 image items of the maximum feature size.",
        )
        self._set(util=38, rx=3e7, tx=3e7, cpu=4)
        self.load.ramp(self.clock.now(), self._final_gib() - 1.2, 30)
        await self.wait(61)
        if self.rank == 0:
            say.log(
                "CORE",
                "[shm_broadcast.py:733] No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging or doing some time-consuming work (e.g. compilation, weight/kv cache quantization).",
            )
        graphs = await self._graphs(10)
        kv = max(0.0, 9.53 + (self.args.gpu_share - 0.91) * 0.5 * TOTAL_GIB) + self._rng.uniform(-0.04, 0.1) * (
            self.rank > 0
        )
        await self.wait(1.5)
        if kv < 0.3:
            self.faults.no_kv_cache()
            await self._lead_down()
        say.log("WORKER", f"[gpu_worker.py:632] Available KV cache memory: {kv:.2f} GiB")
        await self._event(self.group.arrive("kv", self.rank))
        tokens = int(kv * 106_158)
        if self.rank == 0:
            await self.wait(1)
            if tokens < self.args.max_len:
                self.faults.kv_too_small(kv, self.args.max_len)
                self.say.api_failed()
                raise Exit(1)
            say.log(
                "CORE",
                f"[kv_cache_utils.py:2321] GPU KV cache size: {tokens:,} tokens, Maximum concurrency for {self.args.max_len:,} tokens per request: {tokens / self.args.max_len:.2f}x",
            )
        self._graphs_gib = graphs

    async def _lead_down(self) -> None:
        """This rank failed: on the head the wrappers follow, a worker just ends."""
        await self.wait(1)
        if self.rank == 0:
            self.say.engine_failed()
        raise Exit(1)

    def _final_gib(self) -> float:
        """Memory that a serving rank holds: its share of the pool, less what profiling gave back."""
        return max(70.0, self.args.gpu_share * TOTAL_GIB - 9.2) + self._rng.uniform(-0.5, 0.5)

    async def _graphs(self, seconds: float) -> float:
        say = self.say
        self._set(util=96, rx=9e8, tx=8.6e8, cpu=2)
        for title, total, part in (
            ("Capturing CUDA graphs (PIECEWISE)", 15, 0.6),
            ("Capturing CUDA graphs (FULL)", 8, 0.3),
        ):
            await self.wait(seconds * part)
            if self.rank == 0:
                say.logs.add(
                    say.prefix("WORKER").encode() + graph_bar(title, total, self.clock.wall(seconds * part)) + b"\n",
                    STDERR,
                )
        if self.args.drafts:
            say.log("WORKER", "[speculator.py:141] Capturing model for DSpark speculator...")
            await self.wait(seconds * 0.1)
            if self.rank == 0:
                say.logs.add(
                    say.prefix("WORKER").encode()
                    + graph_bar("Capturing dspark CUDA graphs (FULL)", 8, self.clock.wall(seconds * 0.1))
                    + b"\n",
                    STDERR,
                )
        gib = (1.43 if seconds > 5 else 0.58) + 0.05 * (self.rank % 3)
        say.log("WORKER", f"[model_runner.py:974] Graph capturing finished in {seconds:.0f} secs, took {gib:.2f} GiB")
        self._set(util=20, cpu=2)
        return gib

    async def _warm_up(self) -> None:
        say = self.say
        assert self.group is not None
        self.load.ramp(self.clock.now(), self._final_gib(), 20)
        await self.wait(8)
        say.log("WORKER", "[kernel_warmup.py:124] JIT kernel warmup starting.")
        self._set(util=61, cpu=6)
        await self.wait(21)
        say.log("WORKER", "[kernel_warmup.py:134] JIT kernel warmup finished in 21.37s.")
        if self.rank == 0:
            say.log(
                "WORKER",
                "[kernel_warmup.py:309] Using FlashInfer autotune cache file: /root/.cache/vllm/flashinfer_autotune/sm121-8xtp.json",
            )
        say.log("WORKER", "[kernel_warmup.py:266] Running FlashInfer autotune with 8192 tokens.")
        self._set(util=88, rx=4e8, tx=4e8, cpu=2)
        await self.wait(18)
        say.log(
            "WORKER",
            "[flashinfer_sparse_mla_warmup.py:66] Autotuning FlashInfer SM120 sparse MLA DSV4 decode with cache: /root/.cache/vllm/flashinfer_autotune/sparse_mla_sm120.json",
        )
        await self.wait(24)
        estimated = self._graphs_gib
        gib = await self._graphs(4)
        share = self.args.gpu_share
        say.log(
            "WORKER",
            f"[gpu_worker.py:797] CUDA graph pool memory: {gib:.2f} GiB (actual), {estimated:.2f} GiB (estimated), difference: {estimated - gib:.2f} GiB ({100 * (estimated - gib) / gib:.1f}%).",
        )
        say.log(
            "WORKER",
            f"[gpu_worker.py:860] Free memory on device (115.83/121.69 GiB) on startup. Desired GPU memory utilization is ({share:g}, {share * TOTAL_GIB:.2f} GiB). Actual usage is 84.61 GiB for consumed memory (weights + non-torch), 15.17 GiB for peak activation, and {gib:.2f} GiB for CUDAGraph memory.",
        )
        await self._event(self.group.arrive("warm", self.rank))
        await self.wait(1)
        say.log(
            "WORKER",
            "[jit_monitor.py:85] Kernel JIT monitor activated; monitored JIT compilations during inference will use mode=warn.",
        )
        self._set(cpu=0.4)
        if self.rank:
            self.serving = True
            return
        await self.wait(1)
        say.log("CORE", "[core.py:361] init engine (profile, create kv cache, warmup model) took 152.00 s")
        await self.wait(3)
        host, port = self.args.text("host", "0.0.0.0"), self.args.number("port", 8000)
        say.log("API", "[entry.py:135] Supported tasks: ('generate',)")
        await self.wait(2)
        say.log("API", f"[entry.py:139] Starting vLLM server on http://{host}:{port}")
        say.log("API", "[launcher.py:62] Available routes are:")
        for route, methods in ROUTES:
            say.log("API", f"[launcher.py:70] Route: {route}, Methods: {methods}")
        say.bare("API", "INFO:     Started server process [1]")
        say.bare("API", "INFO:     Waiting for application startup.")
        await self.wait(0.5)
        self.api = ApiServer(self.world, self.node, self.group, self.args, say, self.load)
        self.api.listen(host, port)
        self.loading, self.serving = False, True
        say.bare("API", "INFO:     Application startup complete.")

    async def _serve(self) -> None:
        self.serving = True
        await self.faults.while_serving()
        if self.api is None:
            await self._event(asyncio.Event())
            return
        serving = asyncio.create_task(self.api.report())
        try:
            while True:
                await self.wait(3600)
                if self.api.failed:
                    self.faults.engine_dead()
                    raise Exit(0)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _shutdown(self) -> None:
        """SIGTERM: the head says a good deal, a worker little."""
        self._term = False
        if self.rank == 0:
            for proc, level, text in SHUTDOWN:
                self.say.log(proc, text, level)
        else:
            self.say.log("WORKER", "[multiproc_executor.py:843] Parent process exited, terminating worker queues")
        await asyncio.sleep(self.clock.wall(1.5))
        raise Exit(0)

    async def _after_loss(self, rank: int) -> int:
        """What a rank does when it notices: a worker without its head ends with 0, a head without a worker with 1."""
        if rank == 0:
            self.faults.head_gone()
            await asyncio.sleep(self.clock.wall(4))
            return 0
        self.faults.peer_gone(rank)
        await asyncio.sleep(self.clock.wall(2))
        self.say.engine_failed()
        return 1

    def _set(self, util: float = 0, rx: float = 0, tx: float = 0, disk: float = 0, cpu: float = 0) -> None:
        load = self.load
        load.util, load.rx, load.tx, load.disk, load.cpu = util, rx, tx, disk, cpu
