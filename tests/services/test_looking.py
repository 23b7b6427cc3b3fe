"""While nodes are asked for a plan, how many have answered is known."""

from __future__ import annotations

from collections.abc import Sequence

from console.cluster.model import Cluster, Node
from console.recipe.model import Recipe
from console.services.facts_book import FactsBook
from console.transport.base import Completed, TransportError, Trouble
from tests.services.fakes import FakeFleet, FakeLink, ManualClock

CLUSTER = Cluster(name="c", file="", nodes=tuple(Node(name=f"dgx{i}", host=f"dgx{i}") for i in range(1, 5)))
RECIPE = Recipe("glm", "/r/glm/recipe.toml", "GLM", "vllm", "glm:local", "m/x", 4)


async def test_each_answer_is_counted_also_one_that_is_none() -> None:
    def answer(argv: Sequence[str]) -> Completed:
        return Completed(0, b"nothing of ours\n", b"")

    def silent(argv: Sequence[str]) -> Completed:
        raise TransportError(Trouble.SILENT, "dgx4 says nothing", node="dgx4")

    links = [FakeLink(f"dgx{i}", answer if i < 4 else silent) for i in range(1, 5)]
    told: list[tuple[int, int] | None] = []
    book = FactsBook(FakeFleet(links), CLUSTER, ManualClock(), told.append)
    facts = await book.ask(RECIPE, fresh_s=0.0, ranks=["dgx1", "dgx2", "dgx4"])
    assert told[:5] == [(0, 3), (1, 3), (2, 3), (3, 3), None] and told[-1] is None
    assert "dgx4 says nothing" in str(getattr(facts["dgx4"], "reason", ""))
