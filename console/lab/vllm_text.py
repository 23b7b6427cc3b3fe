"""The engine's own lines: what each process prints, and in which shape. Sources: docs of the log format."""
# ruff: noqa: E501 lines of output are kept whole, as they are printed

from __future__ import annotations

import time
from typing import Final

from console.lab.logstore import STDERR, STDOUT, LogStore
from console.lab.vllm_args import VERSION

_PKG: Final = "/usr/local/lib/python3.12/dist-packages/"
LOGO: Final = (
    "", "       █     █     █▄   ▄█", " ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
    "  █▄█▀ █     █     █     █  model   {model}", "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀", "",
)  # fmt: skip
BUILD: Final = (
    "[cuda.py:587] Using backend AttentionBackendEnum.FLASH_ATTN for vit attention",
    "[mm_encoder_attention.py:372] Using AttentionBackendEnum.FLASH_ATTN for MMEncoderAttention.",
    "[quant_config.py:79] DeepSeek V4 expert_dtype resolved to 'fp4'",
    "[__init__.py:898] Using FlashInferCutlassMxfp8LinearKernel for MXFP8 GEMM",
    "[attention.py:140] Using DeepSeek's fp8_ds_mla KV cache format.",
    "[mxfp4.py:413] Using 'FLASHINFER_CUTLASS_MXFP4_MXFP8' Mxfp4 MoE backend.",
)
DISABLED: Final = (
    "[symm_mem.py:67] SymmMemCommunicator: Device capability 12.1 not supported, communicator is not available.",
    "[custom_all_reduce.py:201] Custom collectives are disabled because this multi-node group does not have MNNVL-capable GPUs on every rank.",
)
ROUTES: Final = (
    ("/openapi.json", "HEAD, GET"), ("/docs", "HEAD, GET"), ("/health", "GET"), ("/metrics", "GET"), ("/v1/models", "GET"),
    ("/version", "GET"), ("/v1/chat/completions", "POST"), ("/v1/completions", "POST"), ("/v1/responses", "POST"), ("/tokenize", "POST"),
)  # fmt: skip
SHUTDOWN: Final = (
    ("API", "INFO", "[launcher.py:254] [shutdown] API server: shutdown triggered"),
    ("API", "INFO", "[launcher.py:270] [shutdown] API server: stopping engine client mode=abort timeout=0s"),
    ("API", "INFO", "[core_client.py:770] [shutdown] MPClient: start timeout=0s"),
    ("API", "INFO", "[utils.py:628] [shutdown] Process manager: send sigterm to process EngineCore"),
    ("CORE", "INFO", "[core.py:1454] [shutdown] EngineCore: trigger received signal=SIGTERM"),
    ("CORE", "INFO", "[core.py:1499] [shutdown] EngineCore: exiting busy loop"),
    ("CORE", "INFO", "[multiproc_executor.py:479] [shutdown] Executor: waiting for worker exit count=1"),
    ("WORKER", "INFO", "[multiproc_executor.py:843] Parent process exited, terminating worker queues"),
    ("API", "WARNING", "[utils.py:648] [shutdown] Process manager: force killing remaining processes count=1"),
    ("API", "INFO", "[core_client.py:777] [shutdown] MPClient: complete"),
    ("API", "ERROR", "[async_llm.py:906] AsyncLLM output_handler failed."),
    ("API", "ERROR", "[async_llm.py:906] Traceback (most recent call last):"),
    ("API", "ERROR", f'[async_llm.py:906]   File "{_PKG}vllm/v1/engine/async_llm.py", line 849, in output_handler'),
    ("API", "ERROR", "[async_llm.py:906]     outputs = await engine_core.get_output_async()"),
    ("API", "ERROR", "[async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."),
    ("API", "INFO", "[launcher.py:304] [shutdown] API server: shutting down FastAPI HTTP server"),
)  # fmt: skip


class Printer:
    """One rank's standard output and error. Prefixes as in the 0.28 generation: every process's lines carry them,
    except those of a headless main process and of libraries below Python."""

    def __init__(self, logs: LogStore, rank: int) -> None:
        self.logs = logs
        self.rank = rank
        self.joined = False  # a worker has its number in its name only once the groups stand
        self.worker_pid = 383 if rank == 0 else 180 + rank * 48

    def prefix(self, proc: str) -> str:
        if proc == "MAIN":
            proc = "API" if self.rank == 0 else "HEADLESS"
        return {
            "API": "(APIServer pid=1) ",
            "CORE": "(EngineCore pid=310) ",
            "WORKER": f"(Worker{f'_TP{self.rank}' if self.joined else ''} pid={self.worker_pid}) ",
        }.get(proc, "")

    def log(self, proc: str, text: str, level: str = "INFO") -> None:
        """A line of the engine's own logger: level, date without a year, file and line, text."""
        stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime())
        self.logs.text(f"{self.prefix(proc)}{level} {stamp} {text}", STDOUT)

    def bare(self, proc: str, text: str, stream: int = STDERR) -> None:
        """A line that is no logger's: progress bars, uvicorn, tracebacks."""
        self.logs.text(self.prefix(proc) + text, stream)

    def nccl(self, host: str, text: str) -> None:
        self.logs.text(f"{host}:{self.worker_pid}:{self.worker_pid} [0] NCCL INFO {text}", STDOUT)

    def c10d(self, text: str) -> None:
        stamp = time.strftime("%m%d %H:%M:%S", time.gmtime())
        self.logs.text(f"[rank{self.rank}]:[W{stamp}.{time.time_ns() % 10**9:09d} {text}", STDERR)

    def traceback(self, proc: str, where: str, head: str, frames: list[tuple[str, int, str, str]], last: str) -> None:
        """An exception through the logger: every line with the header. frames: file, line, function, source."""
        self.log(proc, f"{where} {head}", "ERROR")
        self.log(proc, f"{where} Traceback (most recent call last):", "ERROR")
        for file, line, function, source in frames:
            self.log(proc, f'{where}   File "{_PKG}{file}", line {line}, in {function}', "ERROR")
            self.log(proc, f"{where}     {source}", "ERROR")
        for line_text in last.split("\n"):
            self.log(proc, f"{where} {line_text}", "ERROR")

    def engine_failed(self) -> None:
        """The wrappers that follow a worker's failure on the head: never the cause."""
        text = "WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."
        self.traceback(
            "CORE", "[core.py:1374]", "EngineCore failed to start.",
            [("vllm/v1/engine/core.py", 1332, "run_engine_core", "engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)"),
             ("vllm/v1/executor/multiproc_executor.py", 213, "_init_executor", "self.workers = WorkerProc.wait_for_ready(unready_workers)")],
            f"Exception: {text}",
        )  # fmt: skip
        self.bare("CORE", "Process EngineCore:")
        self.bare("CORE", "Traceback (most recent call last):")
        self.bare("CORE", f'  File "{_PKG}vllm/v1/engine/core.py", line 1332, in run_engine_core')
        self.bare("CORE", "    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)")
        self.bare("CORE", f"Exception: {text}")
        self.api_failed()

    def api_failed(self) -> None:
        self.bare("API", "Traceback (most recent call last):")
        self.bare("API", '  File "/usr/local/bin/vllm", line 10, in <module>')
        self.bare("API", "    sys.exit(main())")
        self.bare("API", f'  File "{_PKG}vllm/v1/engine/utils.py", line 1320, in wait_for_engine_startup')
        self.bare("API", "    raise RuntimeError(")
        self.bare(
            "API",
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
        )

    def logo(self, model: str) -> None:
        for line in LOGO:
            self.log("API", "[api_utils.py:345] " + line.format(version=VERSION, model=model))


def clock_text(seconds: float) -> str:
    """Seconds as tqdm writes them."""
    s = int(seconds)
    return f"{s // 3600}:{s // 60 % 60:02d}:{s % 60:02d}" if s >= 3600 else f"{s // 60:02d}:{s % 60:02d}"


def shard_bar(done: int, total: int, elapsed: float) -> str:
    """The bar of one loaded shard, as rank 0 prints it."""
    head = f"Loading safetensors checkpoint shards: {round(100 * done / total):3d}% Completed | {done}/{total} "
    if done == 0:
        return head + "[00:00<?, ?it/s]"
    each = max(elapsed / done, 1e-6)
    rate = f"{each:5.2f}s/it" if each >= 1 else f"{1 / each:5.2f}it/s"
    return head + f"[{clock_text(elapsed)}<{clock_text(each * (total - done))}, {rate}]"


def graph_bar(title: str, total: int, seconds: float) -> bytes:
    """Graph capture: many updates on one line, each behind a carriage return."""
    parts = []
    for n in range(total + 1):
        filled = "█" * (10 * n // total)
        elapsed = seconds * n / total
        rate = f"{total / max(seconds, 1e-6):5.2f}it/s" if n else "?it/s"
        left = clock_text(seconds - elapsed) if n else "?"
        parts.append(
            f"\r{title}: {round(100 * n / total):3d}%|{filled:<10}| {n}/{total} [{clock_text(elapsed)}<{left}, {rate}]"
        )
    return "".join(parts).encode()
