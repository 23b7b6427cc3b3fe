"""Every signature of a failure, and which of them a line shows."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from console.enginelog.digits import any_digits, collapsed, takes_digits
from console.enginelog.signatures_around import AROUND
from console.enginelog.signatures_files import FILES
from console.enginelog.signatures_kernels import KERNELS
from console.enginelog.signatures_launchers import LAUNCHERS
from console.enginelog.signatures_memory import MEMORY
from console.enginelog.signatures_model import Kind, Signature, said
from console.enginelog.signatures_neutral import NEUTRAL, STOPPING
from console.enginelog.signatures_node import NODE
from console.enginelog.signatures_ranks import RANKS

SIGNATURES: Final[tuple[Signature, ...]] = (*NEUTRAL, *MEMORY, *KERNELS, *FILES, *RANKS, *LAUNCHERS, *NODE, *AROUND)
_PLACE: Final = {id(signature): place for place, signature in enumerate(SIGNATURES)}
_BY_CLASS: Final = {s.cls: s for s in reversed(SIGNATURES) if s.kind is not Kind.BENIGN and s.action}
# Classes that no line of a log can show: what states, launches, nodes and requests say.
UNSEEN: Final = {
    "rank_missing": ("One rank never came.", "look at its container, its node, and its way to the head"),
    "node_unreachable": (
        "The node does not answer.",
        "check its power, its link and its SSH; its container may run on",
    ),
    "host_wedged": (
        "The node answers ping and accepts TCP, and nothing more: as a node does whose unified memory is exhausted.",
        "wait 25 to 40 minutes or power-cycle it; do not hammer it with SSH",
    ),
    "host_rebooted": (
        "The node restarted during the boot.",
        "after a reset: mounts, GID index, swap; then look at dmesg for the watchdog or AER",
    ),
    "clock_latch": (
        "The GPU is held at a low clock and low power.",
        "unplug the node's power adapter for 30 to 60 s; a reboot does not help",
    ),
    "memory_fragmented": (
        "The node's free memory lies in small pieces: launches crawl, and the driver may find no room.",
        "reboot the node; dropping caches alone rarely helps",
    ),
    "garbage_output": (
        "The engine is up and its answers are no text.",
        "stop; compare image ids, patches and weights on all nodes",
    ),
    "serving_hang": (
        "The engine is up and answers no request.",
        "relaunch; read the logs of all ranks for the one that stopped",
    ),
    "unknown_exception": (
        "The engine raised an error that is not in the list of known ones.",
        "read the traceback at that line",
    ),
    "jit_compile_slow": ("Kernels are still being compiled.", "wait; keep the caches so that it happens once"),
}
# Of a longer text its two ends are looked at.
LONGEST: Final = 4000
_NONE: Final[frozenset[str]] = frozenset()
# Letters and digits make words; everything else parts them. A line is looked up by its words, not by every key.
_PARTED: Final = {code: " " for code in range(128) if not chr(code).isalnum()}


def _rarest(key: str) -> str:
    """The longest word of a key, whole ones first: its ends may be cut out of longer words."""
    words = key.translate(_PARTED).split()
    inner = words[1:-1] if len(words) > 2 else words
    return max(inner if max(map(len, inner)) > 4 else words, key=len)


def _indexed() -> dict[str, tuple[Signature, ...]]:
    index: dict[str, list[Signature]] = {}
    for signature in SIGNATURES:
        for key in signature.keys:
            entry = index.setdefault(_rarest(key), [])
            if signature not in entry:
                entry.append(signature)
    return {word: tuple(entry) for word, entry in index.items()}


_INDEX: Final = _indexed()
_WORDS: Final = frozenset(_INDEX)


def advice(cls: str) -> tuple[str, str]:
    """(sentence, action) of a class, for causes that were found elsewhere than in a line."""
    if cls in UNSEEN:
        return UNSEEN[cls]
    known = _BY_CLASS.get(cls)
    return (known.sentence, known.action) if known is not None else (cls.replace("_", " "), "")


_BYTES: Final = frozenset(word.encode() for word in _WORDS)
_PARTED_BYTES: Final = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))


@cache
def _loose(signature: Signature) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    keys = tuple(map(collapsed, signature.keys))
    try:
        return keys, re.compile(any_digits(signature.pattern.pattern), signature.pattern.flags)
    except ValueError:
        return keys, None


@cache
def _loose_index() -> dict[str, tuple[Signature, ...]]:
    """The index for texts with collapsed digits; made at the first need: most commands read no log."""
    out: dict[str, tuple[Signature, ...]] = {}
    for word, found in _INDEX.items():
        out[collapsed(word)] = (*out.get(collapsed(word), ()), *found)
    return out


def suspects(text: str) -> tuple[Signature, ...]:
    """All signatures that can be in a text that differs from this one in its digits alone, and in how many there are
    together; also where more stands before it."""
    text = collapsed(text)
    index = _loose_index()
    found: dict[int, Signature] = {}
    for word in index.keys() & text.translate(_PARTED).split():
        for signature in index[word]:
            keys, pattern = _loose(signature)
            if any(key in text for key in keys) and (pattern is None or pattern.search(text)):
                found[id(signature)] = signature
    return tuple(s for s in SIGNATURES if id(s) in found)


@cache
def _neutral() -> tuple[Signature, ...]:
    """Benign signatures that find the same whatever the digits are."""
    return tuple(
        s
        for s in SIGNATURES
        if s.kind is Kind.BENIGN
        and s is not STOPPING
        and _loose(s)[1] is not None
        and not any(char.isdigit() for key in s.keys for char in key)
        and not takes_digits(s.pattern.pattern)
    )


def harmless(text: str) -> bool:
    """Whether a text, and every one that differs from it in its digits alone and is not cut for its length, shows a
    benign signature for sure, so that nothing else on it counts."""
    text = collapsed(text)
    return any(any(key in text for key in s.keys) and s.pattern.search(text) for s in _neutral())


def _words(text: str) -> frozenset[str]:
    """The words of a line by which signatures are looked up."""
    if not text.isascii():
        return _WORDS.intersection(text.translate(_PARTED).split())
    # Four times as fast, and the same.
    found = _BYTES.intersection(text.encode().translate(_PARTED_BYTES).split())
    return frozenset(word.decode() for word in found) if found else _NONE


def matches(text: str, among: tuple[Signature, ...] | None = None) -> list[tuple[Signature, dict[str, str]]]:
    """Signatures that a line shows with what they caught, the most telling first; none where a benign one is among
    them. among: the only ones that can be in it, see `suspects`."""
    if among is None or len(text) > LONGEST:
        among = _indexed_in(text)
        if len(text) > LONGEST:
            text = text[: LONGEST // 2] + " " + text[-LONGEST // 2 :]
    found: list[tuple[Signature, dict[str, str]]] = []
    for signature in among:
        for key in signature.keys:
            if key in text:
                if hit := signature.pattern.search(text):
                    if signature.kind is Kind.BENIGN and signature is not STOPPING:
                        return []
                    found.append((signature, said(hit)))
                break
    if len(found) > 1:
        found.sort(key=lambda pair: (-pair[0].weight, pair[0].cls, _PLACE[id(pair[0])]))
    return found


def _indexed_in(text: str) -> tuple[Signature, ...]:
    """Signatures that the words of a text lead to, each once."""
    words = _words(text)
    if len(words) == 1:
        (word,) = words
        return _INDEX[word]
    return tuple({id(s): s for word in words for s in _INDEX[word]}.values())
