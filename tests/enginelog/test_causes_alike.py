"""Ranks that say the same decisive cause of themselves: each is named, and none is the victim of another."""

from __future__ import annotations

from console.boot.events import BootOpened, CauseFound, ContainerSeen, RankRef
from console.boot.reduce import opened, reduce_all
from console.boot.words import victims_in_words
from console.enginelog.causes_model import Cause, cause_row
from tests.enginelog.evidence_of import WORLD, Boot, said

TYPO = "vllm: error: unrecognized arguments: --served-model-name-typo"


def refused(*ranks: int) -> Cause:
    """Ranks that the engine refuses a flag; the others are ended by their side."""
    boot = Boot().waiting()
    for rank in range(WORLD):
        if rank in ranks:
            boot.logs[rank] = said(f"01:50:{10 - rank:02}", TYPO)
        boot.end(rank, 2 if rank in ranks else 0, "01:50:20")
    cause = boot.diagnosis().cause
    assert cause is not None and cause.cls == "unrecognized_argument"
    return cause


def test_a_wrong_flag_is_refused_by_all_ranks() -> None:
    cause = refused(*range(WORLD))
    assert (cause.rank, cause.ranks, cause.victims) == (7, tuple(range(8)), ())
    assert cause.who == "all 8 ranks, first rank 7 on dgx8"
    assert victims_in_words(cause, range(WORLD)) == ""
    row = cause_row(cause)
    assert (row["ranks"], row["victims"], row["rank"]) == (list(range(8)), [], 7)


def test_it_is_said_once_and_not_as_eight_findings() -> None:
    boot = Boot().waiting()
    for rank in range(WORLD):
        boot.logs[rank] = said("01:50:10", TYPO)
        boot.end(rank, 2, "01:50:20")
    assert [o.cls for o in boot.diagnosis().others if o.cls == "unrecognized_argument"] == []


def test_some_say_it_and_the_rest_fall() -> None:
    cause = refused(3, 4, 6)
    assert (cause.ranks, cause.victims) == ((3, 4, 6), (0, 1, 2, 5, 7))
    assert cause.who == "ranks 3-4, 6, first rank 6 on dgx7"


def test_one_alone_is_named_as_before() -> None:
    cause = refused(5)
    assert (cause.who, cause.ranks, cause.victims) == ("rank 5 on dgx6", (), (0, 1, 2, 3, 4, 6, 7))


def test_how_it_failed_names_them_all() -> None:
    refs = tuple(RankRef(r, f"dgx{r + 1}", f"c{r}") for r in range(WORLD))
    began = opened(BootOpened(0.0, "d", 1, "flash", "F", "x", "dgx1", refs, 0.0, 3600.0, 8000, "m"))
    ends = [ContainerSeen(2.0, r, "exited", exit_code=2, finished_at=1.0) for r in range(WORLD)]
    state = reduce_all(began, [*ends, CauseFound(3.0, refused(*range(WORLD)))])
    assert state.failed_why == "all 8 ranks ended with exit code 2"


def test_of_a_rank_whose_log_nobody_could_read_nothing_is_claimed() -> None:
    boot = Boot().waiting()
    for rank in range(WORLD):
        boot.logs[rank] = said("01:50:10", TYPO)
        boot.end(rank, 2, "01:50:20")
    del boot.logs[6]
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.ranks, cause.victims) == ((0, 1, 2, 3, 4, 5, 7), ())
