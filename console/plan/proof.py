"""The proof that all ranks are started alike: what differs and why it may, and whatever else differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from console.plan.model import LABEL_NODE, LABEL_RANK, Difference, RankPlan


@dataclass(frozen=True, slots=True)
class Truth:
    """What one rank alone may have, and its only right value.

    cli: the node's container engine. nofile, memlock: its limits. env: the network variables of the node. sources:
    mount target -> source that follows from the node (its user's home, its cache). own: the engine's last words."""

    cli: str
    nofile: int
    memlock: bool = True
    env: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Own:
    """In place of a word that only this rank has and that is as it must be."""

    what: str


_Word = str | _Own
_WHY = {
    "container engine": "as the cluster file says for the node",
    "container name": "carries the rank",
    "label rank": "the rank's number",
    "label node": "the node's name",
    "limit nofile": "what the node allows",
    "limit memlock": "what the node allows",
    "--node-rank": "the rank's number",
    "own arguments": "the head serves the API, the others have none",
}


def prove(ranks: Sequence[RankPlan], truths: Sequence[Truth]) -> tuple[tuple[Difference, ...], tuple[str, ...]]:
    """(what differs with its reason, what differs without one). The second must be empty: a word is explained only
    when it stands where it may differ and is the one right value for its rank."""
    neutral = [_neutral(rank, truth) for rank, truth in zip(ranks, truths, strict=True)]
    unexplained: list[str] = []
    for rank in ranks:
        unexplained += _inconsistent(rank)
    if len(ranks) > 1:
        common = Counter(tuple(words) for words in neutral).most_common(1)[0][0]
        for rank, words in zip(ranks, neutral, strict=True):
            if tuple(words) != common:
                unexplained += _explain(rank, words, common)
    return _differences(ranks, truths), tuple(unexplained)


def _neutral(rank: RankPlan, truth: Truth) -> list[_Word]:
    words: list[_Word] = list(rank.argv)
    if words and words[0] == truth.cli:
        words[0] = _Own("container engine")
    engine_at = len(words) - len(rank.engine_argv)
    right: dict[tuple[str, str], str] = {
        ("--name", rank.container): "container name",
        ("--label", f"{LABEL_RANK}={rank.rank}"): "label rank",
        ("--label", f"{LABEL_NODE}={rank.node}"): "label node",
        ("--ulimit", f"nofile={truth.nofile}:{truth.nofile}"): "limit nofile",
    }
    right |= {("-e", f"{name}={value}"): name for name, value in truth.env.items()}
    for i in range(1, engine_at):
        flag, word = rank.argv[i - 1], rank.argv[i]
        what = right.get((flag, word))
        if what is not None:
            words[i] = _Own(what)
        elif flag == "--mount":
            words[i] = _mount(word, truth)
    for i in range(engine_at + 1, len(words)):
        if rank.argv[i - 1] == "--node-rank" and rank.argv[i] == str(rank.rank):
            words[i] = _Own("--node-rank")
    words = _memlock(words, truth)
    if not truth.own:
        return [*words, _Own("own arguments")]
    if rank.argv[-len(truth.own) :] == truth.own:
        return [*words[: -len(truth.own)], _Own("own arguments")]
    return words


def _memlock(words: list[_Word], truth: Truth) -> list[_Word]:
    """One mark in place of the limit, or where it would stand on a node that does not allow it."""
    limit: list[_Word] = ["--ulimit", "memlock=-1"] if truth.memlock else []
    mark, nofile = _Own("limit memlock"), ["--ulimit", _Own("limit nofile")]
    for i in range(len(limit), len(words) - 1):
        if words[i : i + 2] == nofile and words[i - len(limit) : i] == limit:
            return [*words[: i - len(limit)], mark, *words[i:]]
    return words


def _mount(word: str, truth: Truth) -> _Word:
    for target, source in truth.sources.items():
        for tail in ("", ",readonly"):
            if word == f"type=bind,src={source},dst={target}{tail}":
                return _Own(f"source of {target}{tail}")
    return word


def _inconsistent(rank: RankPlan) -> list[str]:
    """What is executed against what is on record for the rank."""
    out = []
    cut = len(rank.argv) - len(rank.engine_argv)
    if rank.argv[cut:] != rank.engine_argv:
        out.append(f"rank {rank.rank} ({rank.node}): the engine's arguments are not those on record")
    given = Counter(word for flag, word in zip(rank.argv[:cut], rank.argv[1:cut], strict=False) if flag == "-e")
    if given != Counter(f"{name}={value}" for name, value in rank.env.items()):
        out.append(f"rank {rank.rank} ({rank.node}): the environment is not the one on record")
    return out


def _explain(rank: RankPlan, words: Sequence[_Word], common: Sequence[_Word]) -> list[str]:
    out = []
    for tag, a, b, c, d in SequenceMatcher(None, common, words, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        theirs = " ".join(map(_show, common[a:b])) or "nothing"
        ours = " ".join(map(_show, words[c:d])) or "nothing"
        before = _show(words[c - 1]) if c else "the beginning"
        out.append(f"rank {rank.rank} ({rank.node}): after {before}: {ours}, where the others have {theirs}")
    return out


def _show(word: _Word) -> str:
    return f"<{word.what}>" if isinstance(word, _Own) else word


def _differences(ranks: Sequence[RankPlan], truths: Sequence[Truth]) -> tuple[Difference, ...]:
    columns: dict[str, tuple[str, ...]] = {
        "container engine": tuple(t.cli for t in truths),
        "container name": tuple(r.container for r in ranks),
        "label rank": tuple(str(r.rank) for r in ranks),
        "label node": tuple(r.node for r in ranks),
        "limit nofile": tuple(str(t.nofile) for t in truths),
        "limit memlock": tuple("unlimited" if t.memlock else "the engine's default" for t in truths),
        "own arguments": tuple(" ".join(t.own) for t in truths),
    }
    if any("--node-rank" in r.engine_argv for r in ranks):
        columns["--node-rank"] = tuple(str(r.rank) for r in ranks)
    out = [Difference(what, _WHY[what], v) for what, v in columns.items() if len(set(v)) > 1]
    for name in dict.fromkeys(name for t in truths for name in t.env):
        values = tuple(t.env.get(name, "") for t in truths)
        if len(set(values)) > 1:
            out.append(Difference(f"env {name}", "the node's own place in the fabric", values))
    for target in dict.fromkeys(target for t in truths for target in t.sources):
        values = tuple(t.sources.get(target, "") for t in truths)
        if len(set(values)) > 1:
            out.append(Difference(f"mount {target}", "the node's own folder", values))
    return tuple(out)
