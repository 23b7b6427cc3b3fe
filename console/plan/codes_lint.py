"""The findings of the recipe lint, as rows: code, severity, why, remedy."""

from __future__ import annotations

from typing import Final

from console.base.findings import Severity

INFO, WARN, BLOCK = Severity.INFO, Severity.WARN, Severity.BLOCK

LINT: Final[tuple[tuple[str, Severity, str, str], ...]] = (
    (
        "doubled-argument",
        WARN,
        "A flag stands twice with the same value: the next edit will change only one of them.",
        "Remove one of the two.",
    ),
    (
        "contradictory-argument",
        BLOCK,
        "A flag stands twice with different values, or beside its own negation: the engine takes the last in silence.",
        "Keep the one that is meant.",
    ),
    (
        "key-argument-conflict",
        BLOCK,
        "A key of the recipe and a flag in args say different things.",
        "Make them equal, or remove the flag from args.",
    ),
    (
        "launcher-argument",
        BLOCK,
        "This flag differs from rank to rank, so the launcher writes it; in args it would be the same on all ranks.",
        "Remove it from args.",
    ),
    (
        "argument-without-value",
        BLOCK,
        "The engine's parser ends with exit code 2 when a flag that takes a value has none.",
        "Give the value, or remove the flag.",
    ),
    (
        "number-expected",
        BLOCK,
        "The engine's parser ends with exit code 2 when this flag's value is not a number it can take.",
        "Write a number.",
    ),
    (
        "stray-word",
        WARN,
        "A word before the first flag is read as another positional argument, after the model.",
        "Put it behind its flag, or remove it.",
    ),
    (
        "command-in-args",
        BLOCK,
        "The entrypoint gives the engine's command already; a second one is taken for arguments.",
        "Begin args with the first flag; the model stands in the key model.",
    ),
    (
        "unicode-quote",
        WARN,
        "Typographic quotes, as word processors write them, are part of the word: nothing takes them for quotes.",
        "Write plain quotes.",
    ),
    (
        "unicode-dash",
        BLOCK,
        "A flag begins with a typographic dash, as word processors write it; the engine does not know it.",
        "Write two plain hyphens.",
    ),
    (
        "json-argument",
        BLOCK,
        "The engine reads this value as JSON and ends when it cannot.",
        "Mend the JSON; in args put it into single quotes, as --flag '{\"a\": 1}'.",
    ),
    (
        "world-size",
        BLOCK,
        "Tensor parallel x pipeline parallel is the number of ranks; with another number of nodes no boot comes to be.",
        "Make the product equal to the number of nodes.",
    ),
    (
        "utilisation-range",
        BLOCK,
        "GPU memory utilisation is a share of the whole memory, above 0 and at most 1; it is no percentage.",
        "Write 0.80 for 80 %.",
    ),
    (
        "shm-size-no-effect",
        INFO,
        "With --ipc host the container uses the node's /dev/shm; the size is the node's own.",
        "Leave it, or size /dev/shm on the node.",
    ),
    (
        "capture-sizes-short",
        WARN,
        "The largest CUDA graph is smaller than the largest decode batch, max-num-seqs x (speculative tokens + 1): "
        "full batches run without a graph.",
        "Add sizes up to the largest decode batch.",
    ),
    (
        "capture-sizes-uneven",
        INFO,
        "With k speculative tokens a decode batch is a multiple of k (draft) or k + 1 (verification); other sizes are "
        "captured, cost memory and pad.",
        "Use multiples of k and k + 1.",
    ),
    (
        "batched-tokens-short",
        BLOCK,
        "The engine refuses a batch budget (max-num-batched-tokens) below max-num-seqs, and below the context when "
        "chunked prefill is off.",
        "Raise --max-num-batched-tokens.",
    ),
    (
        "nccl-buffers-default",
        WARN,
        "NCCL's default buffers took 11.61 GiB of shared memory on each node at eight ranks, 0.425 GiB with the buffer "
        "settings (measured, published); on unified memory the model's share pays for it.",
        "Set NCCL_BUFFSIZE=1048576, NCCL_LL128_BUFFSIZE=262144, NCCL_PROTO=^LL128, NCCL_MAX_NCHANNELS=8.",
    ),
    (
        "engram-pinned",
        WARN,
        "Without --engram-config the engine puts the Engram tables into pinned host memory; every public recipe for "
        "this machine says otherwise.",
        "Add --engram-config '{\"cpu_offload\":false}', or keep it knowingly.",
    ),
    (
        "env-name",
        WARN,
        "A variable that nothing reads is ignored in silence; this name is one slip away from a known one.",
        "Check the spelling.",
    ),
    (
        "host-ip-fixed",
        BLOCK,
        "The address by which ranks reach each other is different on every node; one value for all points them at one.",
        "Remove it: the launcher sets it for each node.",
    ),
    (
        "secret-in-recipe",
        WARN,
        "A secret in a recipe is readable in its file and in `docker inspect` on every node, one in args in `ps` too.",
        "Use a file on the node that is mounted read-only, or leave the secret out.",
    ),
    (
        "ready-timeout-note",
        INFO,
        "VLLM_ENGINE_READY_TIMEOUT_S does not end a boot that is too slow: the engine waits for its start without a "
        "limit. The console keeps the deadline itself.",
        "Set ready_timeout_s, or leave it: the console uses this value as the deadline.",
    ),
    (
        "local-image",
        INFO,
        "An image tagged :local is in no registry: it must be on every node before the launch.",
        "Copy it with `nightdeck image sync`.",
    ),
    (
        "image-not-pinned",
        INFO,
        "The tag moves: nodes that loaded it on different days may run different builds.",
        "Name a version or a digest.",
    ),
    (
        "offline-hub-model",
        INFO,
        "The model is named by its hub id while HF_HUB_OFFLINE is set: every node's cache must hold it already.",
        "Check hf_cache in the cluster file.",
    ),
    (
        "jit-unbounded",
        WARN,
        "Kernels that are compiled at run time start some twenty compilers of 3-8 GiB each; on this machine that has "
        "frozen whole nodes.",
        "Set MAX_JOBS=2.",
    ),
    (
        "ray-not-supported",
        BLOCK,
        "A Ray cluster is started by its own tools; the launcher starts one engine process a node.",
        'Use distributed_backend = "mp".',
    ),
    (
        "recipe-override",
        INFO,
        "The recipe's own [launch] override lets a launch go on in spite of this finding.",
        "Remove the code from the recipe once its reason is gone.",
    ),
    (
        "override-unknown",
        WARN,
        "No check has this code, so it overrides nothing.",
        "Take the code from the finding that is meant.",
    ),
    (
        "unknown-key",
        WARN,
        "No part of the console reads this key; it is kept and shown.",
        "Correct its name, or leave it.",
    ),
    (
        "args-empty",
        WARN,
        "An entry of args holds no word, so nothing of it reaches the engine.",
        "Remove it, or write '' for an empty argument.",
    ),
    (
        "args-json",
        WARN,
        "A word of args begins like JSON and is none: a shell's reading has taken its quotes, or a comma is missing.",
        "Put single quotes around the JSON.",
    ),
    (
        "args-literal",
        WARN,
        "Variables, backticks and operators of a shell stay text: no shell reads args.",
        "Write the value itself.",
    ),
    (
        "args-per-rank-flag",
        BLOCK,
        "This flag is for one rank; in args it would reach all of them.",
        "Remove it: the console gives it where it belongs.",
    ),
    (
        "recipe-path-line",
        INFO,
        "The file begins with its own path, which is no TOML, and is read without that line.",
        "Put # before it.",
    ),
)
