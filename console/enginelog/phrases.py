"""The phrases by which a line matters to the tracker: one combined search tells them from the thousands that do not."""

from __future__ import annotations

import re
from typing import Final

# Searched, never anchored: C and Python writers interleave within one line. Each phrase begins with a literal, where it
# can with a capital or a sign: the matcher leaps over characters that begin none, so a line costs a microsecond.
# No phrase names a file or a line of the engine's source.
PHRASES: Final = {
    "banner": r"█ +version ",
    "arguments": r"-default args: ",
    "architecture": r"Resolved architecture: ",
    "max_len": r"Using max model len ",
    "cast": r"Upcasting torch\.|Downcasting torch\.|Casting torch\.",
    "node_rank": r"Inferred data_parallel_rank",
    "engram_config": r"EngramConfig\(",
    "engram": r"Engram (?:table|layer) ",
    "eager": r"Enforce eager set",
    "engine": r"LLM engine \(v|Launching vLLM \(v",
    "leader": r"DP group leader: ",
    "world": r"_init_method=",
    "joined": r"DP rank \d",
    "clients": r"Timed out after \d+ seconds waiting for clients",
    "nccl_version": r"NCCL version |==\d",
    "network": r"NET/|Using network ",
    "nccl": r"NCCL INFO|SymmMemCommunicator|FlashInfer All Reduce|Custom collectives",
    "model": r"Loading model from scratch|Starting to load model|Using V\d+ Model Runner",
    "filesystem": r"Filesystem type for checkpoints",
    "weights": r"Loading weights took",
    "loaded": r"Model loading took",
    "profile": r"Encoder cache will be|Warming up model for|Initial profiling/warmup run|Memory profiling takes"
    r"|Dynamo bytecode|AOT compiled|Compiling a graph",
    "capturing": r"Capturing model for|Capturing CUDA graph",
    "captured": r"Graph capturing finished",
    "kv_memory": r"Available KV cache memory|GiB for KV cache on node",
    "kv_size": r"KV cache size: |Maximum concurrency for",
    "warmup": r"JIT kernel warmup (?:starting|finished)|DeepGEMM warmup|FlashInfer autotune|Autotuning FlashInfer",
    "settled": r"CUDA graph pool memory: |Kernel JIT monitor activated",
    "init": r"\(profile, create kv cache",
    "http": r"Starting vLLM (?:API )?server",
    "ready": r"Application startup complete",
    "served": r'HTTP/1\.\d" 200',
    "attention": r"Using \S{1,60} attention backend|Using the target model|AttentionBackendEnum",
    "moe": r"MoE backend",
    "stats": r"Avg prompt throughput|SpecDecoding metrics",
    "stopping": r"\[shutdown\]",
    "fatal": r"WorkerProc (?:failed|hit an|init)|EngineCore (?:failed|encountered)|Engine core init"
    r"|VllmWorker-\d+ died",
    "sgl_arguments": r"ServerArgs\(",
    "sgl_rendezvous": r"Init torch distributed begin",
    "sgl_joined": r"Init torch distributed ends",
    "sgl_weights": r"Load weight begin",
    "sgl_loaded": r"Load weight end",
    "sgl_kv": r"KV Cache is allocated",
    "sgl_graphs": r"Capture cuda graph (?:begin|end)",
    "sgl_ready": r"The server is fired up and ready",
}
# Phrases that name a digit, or bound how long a part is that may hold some: where a text's digits are not at hand, one
# cannot tell for sure that such a phrase is in it.
COUNTING: Final = frozenset({"attention", "served"})
MATTERS: Final = re.compile("|".join(PHRASES.values()))
EACH: Final = {name: re.compile(phrase) for name, phrase in PHRASES.items()}
SERVED: Final = EACH["served"]
_KNOWN: Final = 512


class Index:
    """Names of phrases by the words that matched, remembered: the same words come again and again."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def names(self, text: str) -> tuple[str, ...]:
        """All that stand in a text, in their order."""
        found = MATTERS.search(text)
        if found is None:
            return ()
        return tuple(dict.fromkeys(self.name(each[0]) for each in MATTERS.finditer(text)))

    def name(self, words: str) -> str:
        known = self._names.get(words)
        if known is None:
            known = next(name for name, phrase in EACH.items() if phrase.fullmatch(words))
            if len(self._names) < _KNOWN:
                self._names[words] = known
        return known


# As much of a bar's line as tells it from another bar; from the first digit on it may be another in each state.
_LABEL: Final = re.compile(r"\D{0,24}")


def label(text: str) -> str:
    """How every state of a progress bar begins; empty where each begins with a number."""
    found = _LABEL.match(text)
    return found[0].rstrip() if found is not None else ""


# It gives nothing back: what follows it is never a digit.
_NUM: Final = r"(\d[\d,]{0,19}+(?:\.\d{1,12}+)?+)"
VERSION: Final = re.compile(r"version (\S{1,100})")
ENGINE_VERSION: Final = re.compile(r"vLLM \(v(\S{1,100}?)\)|LLM engine \(v(\S{1,100}?)\)")
ARGUMENTS: Final = re.compile(r"non-default args: (\{.*)")
ARCHITECTURE: Final = re.compile(r"Resolved architecture: (\w{1,100})")
MAX_LEN: Final = re.compile(r"Using max model len (\d{1,12})")
CAST: Final = re.compile(r"casting torch\.\w{1,30} to torch\.(\w{1,30})", re.IGNORECASE)
ENGINE_DTYPE: Final = re.compile(r"\bdtype=torch\.(\w{1,30})")
NODE_RANK: Final = re.compile(r"from node_rank (\d{1,6})")
OFFLOAD: Final = re.compile(r"cpu_offload=(True|False)")
GIB_PER_RANK: Final = re.compile(_NUM + r" GiB (?:per rank|not allocated)")
WORLD: Final = re.compile(r"world_size=(\d{1,6}) rank=(\d{1,6}) .{0,80}?_init_method=(\S{1,200}) backend=(\w{1,40})")
LEADER_WORLD: Final = re.compile(r"\bworld_size=(\d{1,6})")
HEAD_ADDRESS: Final = re.compile(r"head node address (\S{1,100}:\d{1,5})")
JOINED: Final = re.compile(r"rank (\d{1,6}) in world size (\d{1,6}) is assigned")
CLIENTS: Final = re.compile(r"(\d{1,6})/(\d{1,6}) clients joined")
NCCL_VERSION: Final = re.compile(r"NCCL version (\d[\w.+\-]{0,60})|nccl==(\d[\w.+\-]{0,60})")
NETWORK: Final = re.compile(r"Using network (\w{1,40})|via NET/(\w{1,40})|NET/(IB|Socket) : Using")
HCA: Final = re.compile(r"\[\d{1,3}\]([\w.\-]{1,60}:\d{1,3})/(RoCE|IB)")
FILESYSTEM: Final = re.compile(r"Filesystem type for checkpoints: (\w{1,40})")
CHECKPOINT: Final = re.compile(r"Checkpoint size: " + _NUM + " GiB")
RAM: Final = re.compile(r"Available RAM: " + _NUM + " GiB")
WEIGHTS_TOOK: Final = re.compile(r"Loading weights took " + _NUM + " s")
LOADED: Final = re.compile(r"Model loading took " + _NUM + " G(?:iB|B)(?: memory)? and " + _NUM + " s")
CAPTURED: Final = re.compile(r"Graph capturing finished in " + _NUM + " secs?, took " + _NUM + " GiB")
KV_MEMORY: Final = re.compile(r"Available KV cache memory: " + _NUM + " GiB")
KV_FIXED: Final = re.compile(r"Explicitly set \(" + _NUM + r"/")
KV_SIZE: Final = re.compile(r"KV cache size: " + _NUM + " tokens")
CONCURRENCY: Final = re.compile(r"Maximum concurrency for " + _NUM + " tokens per request: " + _NUM + "x")
WARMUP_TOOK: Final = re.compile(r"JIT kernel warmup finished in " + _NUM + "s")
INIT_TOOK: Final = re.compile(r"took " + _NUM + " s")
URL: Final = re.compile(r"server(?: \d+)? on (https?://\S{1,200})")
# The vision encoder's own attention is not the model's.
ATTENTION: Final = re.compile(
    r"Using (?:the target model's )?(?:AttentionBackendEnum\.)?([A-Z][A-Za-z0-9_ ]{2,60}?) (?:attention )?backend"
)
MOE: Final = re.compile(r"Using '?([A-Za-z][\w\-]{2,80})'? .{0,30}MoE backend")
FATAL: Final = re.compile(
    r"WorkerProc (?:failed to start|hit an exception|initialization failed)"
    r"|EngineCore (?:failed to start|encountered a fatal)|Engine core initialization failed"
    r"|VllmWorker-\d+ died unexpectedly|: error: (?:unrecognized arguments|argument )"
)
SGL_TOKENS: Final = re.compile(r"#tokens: " + _NUM)
SGL_MEM: Final = re.compile(r"mem usage=" + _NUM + " GB")


def number(text: str) -> float:
    return float(text.replace(",", ""))
