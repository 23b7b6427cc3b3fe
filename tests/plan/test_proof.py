"""Any word of any rank that is changed, dropped, doubled or moved is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.plan import render
from console.plan.model import Plan, RankPlan
from console.plan.proof import Truth, prove
from tests.plan.build import all_facts, plan_of, safe, spark_facts, sparks, tiny


def proven(monkeypatch: pytest.MonkeyPatch, plan_args: dict[str, object]) -> tuple[Plan, list[RankPlan], list[Truth]]:
    """The plan with the very ranks and truths that its own proof was given."""
    seen: list[tuple[list[RankPlan], list[Truth]]] = []

    def watch(ranks: list[RankPlan], truths: list[Truth]) -> object:
        seen.append((list(ranks), list(truths)))
        return prove(ranks, truths)

    monkeypatch.setattr(render, "prove", watch)
    plan = plan_of(**plan_args)  # type: ignore[arg-type]
    return plan, *seen[0]


@pytest.fixture(params=["eight sparks", "uneven nodes", "two cpus", "sglang"])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[list[RankPlan], list[Truth]]:
    uneven = all_facts(sparks())
    uneven["dgx4"] = spark_facts("dgx4", 4, home="/home/someone", nofile_limit=65_535, memlock_unlimited=False)
    args: dict[str, dict[str, object]] = {
        "eight sparks": {"recipe": safe(), "cluster": sparks()},
        "uneven nodes": {"recipe": safe(), "cluster": sparks(), "facts": uneven},
        "two cpus": {"recipe": tiny(), "cluster": sparks()},
        "sglang": {"recipe": tiny(engine="sglang", args=("--context-length", "512")), "cluster": sparks()},
    }
    plan, ranks, truths = proven(monkeypatch, args[request.param])
    assert plan.unexplained == ()
    return ranks, truths


def test_every_single_word_of_the_head_and_of_a_worker(case: tuple[list[RankPlan], list[Truth]]) -> None:
    ranks, truths = case
    for r in (0, min(3, len(ranks) - 1)):
        rank = ranks[r]
        for i in range(len(rank.argv)):
            for argv in (
                (*rank.argv[:i], rank.argv[i] + "x", *rank.argv[i + 1 :]),
                (*rank.argv[:i], *rank.argv[i + 1 :]),
                (*rank.argv[:i], rank.argv[i], *rank.argv[i:]),
            ):
                changed = [*ranks[:r], replace(rank, argv=argv), *ranks[r + 1 :]]
                assert prove(changed, truths)[1], (r, i, rank.argv[i])


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_engine_arguments_that_differ_although_on_record(data: st.DataObject) -> None:
    """The record is changed with the command, as a fault in rendering would."""
    ranks, truths = EIGHT
    r = data.draw(st.integers(0, 7))
    rank = ranks[r]
    start = len(rank.argv) - len(rank.engine_argv)
    i = data.draw(st.integers(start, len(rank.argv) - 1))
    kind = data.draw(st.sampled_from(["other", "drop", "swap", "insert"]))
    words = list(rank.argv)
    if kind == "other":
        words[i] = data.draw(st.text(max_size=8))
    elif kind == "drop":
        del words[i]
    elif kind == "insert":
        words.insert(i, data.draw(st.sampled_from(["--headless", "--max-num-seqs", "9", ""])))
    else:
        j = data.draw(st.integers(start, len(rank.argv) - 1))
        words[i], words[j] = words[j], words[i]
    if tuple(words) == rank.argv:
        return
    changed = replace(rank, argv=tuple(words), engine_argv=tuple(words[start:]))
    assert prove([*ranks[:r], changed, *ranks[r + 1 :]], truths)[1]


def _eight() -> tuple[list[RankPlan], list[Truth]]:
    with pytest.MonkeyPatch.context() as patch:
        _, ranks, truths = proven(patch, {"recipe": safe(), "cluster": sparks()})
    return ranks, truths


EIGHT = _eight()


def test_a_wrong_rank_number_is_named() -> None:
    ranks, truths = EIGHT
    rank = ranks[5]
    at = rank.engine_argv.index("--node-rank") + 1
    engine = (*rank.engine_argv[:at], "4", *rank.engine_argv[at + 1 :])
    argv = rank.argv[: len(rank.argv) - len(engine)] + engine
    text = prove([*ranks[:5], replace(rank, argv=argv, engine_argv=engine), *ranks[6:]], truths)[1]
    assert len(text) == 1 and text[0].startswith("rank 5 (dgx6): after --node-rank: 4")


def test_an_environment_that_differs_on_record_too() -> None:
    ranks, truths = EIGHT
    rank = ranks[2]
    argv = tuple("OMP_NUM_THREADS=4" if w == "OMP_NUM_THREADS=2" else w for w in rank.argv)
    changed = replace(rank, argv=argv, env={**rank.env, "OMP_NUM_THREADS": "4"})
    text = prove([*ranks[:2], changed, *ranks[3:]], truths)[1]
    assert text == ("rank 2 (dgx3): after -e: OMP_NUM_THREADS=4, where the others have OMP_NUM_THREADS=2",)


def test_what_differs_has_a_reason_and_a_value_for_each_rank() -> None:
    plan = plan_of(safe(), sparks())
    assert [d.what for d in plan.differs] == [
        "container name",
        "label rank",
        "label node",
        "own arguments",
        "--node-rank",
        "env VLLM_HOST_IP",
    ]
    assert all(d.why and len(d.values) == 8 for d in plan.differs)
    assert plan.differs[-1].values == tuple(f"10.0.0.{i}" for i in range(1, 9))
