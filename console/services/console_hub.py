"""The hub: everything that a face may ask for, over what is watched."""

from __future__ import annotations

import asyncio
import secrets as random_secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from console.base.absent import NOT_SAMPLED, Absent
from console.base.errors import NightdeckError, UsageError
from console.base.secrets import mask_text, secret_values
from console.base.text import clean_line
from console.boot.events import Acted, BootFailed, BootOpened, RankRef
from console.boot.state import BootState
from console.cluster.facts import NodeFacts
from console.plan.choose import choose_nodes
from console.plan.model import LARGEST_FOREIGN_BOOT, Plan
from console.plan.render import make_plan
from console.recipe.model import Recipe, SyncImage
from console.services.census import Census
from console.services.facts_book import Facts, FactsBook
from console.services.follower import Follower
from console.services.launch import (
    LIFTED_BY_A_STOP,
    Launch,
    LaunchFailed,
    refuse_blocks,
    refuse_leftovers,
)
from console.services.lease import Lease
from console.services.model_check_measured import headers_bytes
from console.services.page_cache import wants_drop
from console.services.preflighted import with_preflight
from console.services.preparing import syncing
from console.services.restarting import restart_changes
from console.services.smoke import api_address, ask_health
from console.services.stopping import Stopping

FACTS_KEEP_S = 300.0
LAUNCH_FACTS_KEEP_S = 15.0  # what was shown a moment ago still holds; what runs on a node does not hold longer


class ConsoleHub(Stopping):
    """`HubApi`: `Stopping`, plans, launch and restart. One action that changes nodes at a time."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._facts = FactsBook(self._fleet, self._cluster, self._clock, self._look_told)

    # -- facts and plans ----------------------------------------------------------------------------------------

    def _look_told(self, looking: tuple[int, int] | None) -> None:
        self._looking = looking
        self._touch_soon()

    def _facts_changed(self) -> None:
        self._facts.forget()

    def _ranks(self, recipe: Recipe, nodes: int | None, head: str | None) -> list[str]:
        """The nodes that a launch would take. Raises UsageError as a plan does."""
        return [n.name for n in choose_nodes(recipe, self._cluster, node_count=nodes, head=head)]

    async def _make(
        self, recipe: Recipe, facts: Mapping[str, NodeFacts | Absent], number: int, nodes: int | None, head: str | None
    ) -> Plan:
        measured = await asyncio.to_thread(self._ledger.measured, recipe, nodes or recipe.required_nodes)
        deployment = f"{recipe.slug}-b{number}-{random_secrets.token_hex(4)}"
        return make_plan(
            recipe,
            self._cluster,
            facts,
            boot_number=number,
            deployment=deployment,
            launched_at=self._clock.wall(),
            node_count=nodes,
            head=head,
            measured=measured,
            headers_bytes=headers_bytes(facts),
        )

    async def plan(
        self,
        recipe: str,
        *,
        nodes: int | None = None,
        head: str | None = None,
        ask_nodes: bool = True,
        fresh: bool = False,
        sync_image: SyncImage | None = None,
    ) -> Plan:
        found = syncing(self._shelf.get(recipe), sync_image)
        facts: Facts = {n.name: NOT_SAMPLED for n in self._cluster.nodes}
        if ask_nodes:
            ranks = self._ranks(found, nodes, head)
            facts = await self._facts.ask(found, fresh_s=0.0 if fresh else FACTS_KEEP_S, ranks=ranks)
        made = await self._make(found, facts, self._ledger.next_number(), nodes, head)
        return with_preflight(made, found, self._cluster, facts) if ask_nodes else made

    async def preflight(
        self, recipe: str, *, nodes: int | None = None, head: str | None = None, deep: bool = False
    ) -> Plan:
        if not deep:
            return await self.plan(recipe, nodes=nodes, head=head, fresh=True)
        self._begin_job("looking in depth")  # it starts containers, so nobody may launch meanwhile
        try:
            async with self._controls("preflight --deep"):
                made = await self.plan(recipe, nodes=nodes, head=head, fresh=True)
                return await self._with_load(
                    await self._with_flags(made, self._shelf.get(recipe)), self._shelf.get(recipe)
                )
        finally:
            self._end_job()

    # -- actions ------------------------------------------------------------------------------------------------

    async def launch(
        self,
        recipe: str,
        *,
        nodes: int | None = None,
        head: str | None = None,
        override: Sequence[str] = (),
        keep_on_failure: bool = True,
        drop_caches: bool = False,
        sync_image: SyncImage | None = None,
        take_over: bool = False,
    ) -> BootState:
        self._begin_job(f"launching {recipe}", take_over=take_over)
        try:
            found = syncing(self._shelf.get(recipe), sync_image)
            # Facts and plan take longer than the lease and are made beside it; the census comes after it.
            draft = asyncio.create_task(self._draft(found, nodes, head), name=f"plan {found.slug}")
            try:
                doing = f"launching {clean_line(recipe, limit=60)}"
                async with self._controls(doing, override, take_over=take_over) as lease:
                    census = await self._census()
                    return await self._launch(
                        lease, found, draft, census, nodes, head, override, keep_on_failure, drop_caches
                    )
            finally:
                draft.cancel()
                await asyncio.gather(draft, return_exceptions=True)
        finally:
            self._end_job()

    async def _draft(
        self, recipe: Recipe, nodes: int | None, head: str | None, *, renew: bool = False
    ) -> tuple[Facts, Plan]:
        """A plan for the number that this console knows of. renew: of facts, what passes by itself is asked again."""
        ask = self._facts.renew if renew else self._facts.ask
        facts = await ask(recipe, fresh_s=LAUNCH_FACTS_KEEP_S, ranks=self._ranks(recipe, nodes, head))
        return facts, await self._make(recipe, facts, self._ledger.next_number(), nodes, head)

    async def _launch(
        self,
        lease: Lease,
        recipe: Recipe,
        draft: Awaitable[tuple[Facts, Plan]],
        census: Census,
        nodes: int | None,
        head: str | None,
        override: Sequence[str],
        keep_on_failure: bool,
        drop_caches: bool = False,
    ) -> BootState:
        """census: taken under this lease. draft: facts and a plan, under way."""
        facts, plan = await draft
        seen = [f.boot for rows in census.values() if isinstance(rows, tuple) for f in rows if f.boot is not None]
        number = self._ledger.next_number(above=max((n for n in seen if n <= LARGEST_FOREIGN_BOOT), default=0))
        if number != plan.boot_number:
            plan = await self._make(recipe, facts, number, nodes, head)
        plan = with_preflight(plan, recipe, self._cluster, facts)
        chosen = [r.node for r in plan.ranks]
        refuse_leftovers(census, chosen=chosen)
        self._tell_kept(census)
        refuse_blocks(plan, override)
        follower = self._open_launch(plan, recipe, facts)
        follower.apply(Acted(self._clock.wall(), "launch", recipe.slug, self._by))
        if lease.taken_from:
            follower.apply(Acted(self._clock.wall(), "controls taken over", f"from {lease.taken_from}", self._by))
        for code in override:
            follower.apply(Acted(self._clock.wall(), "override", code, self._by))
        for code in dict.fromkeys(f.code for f in plan.findings if f.severity == "block" and f.code in plan.override):
            follower.apply(Acted(self._clock.wall(), "override", code, f"the recipe {recipe.slug}"))
        launch = Launch(plan, self._fleet, self._cluster, self._clock, follower.apply, lambda: lease.fences)
        try:
            if await self._image_before(plan, facts, follower):
                refuse_leftovers(await self._census(), chosen=chosen)
            if drop_caches or wants_drop(recipe):
                await self._drop_before(plan, follower)
            await launch.run()
        except asyncio.CancelledError:
            follower.launch_over()
            lost = f"aborted: {lease.taken_by} took the controls" if lease.taken_by else "aborted by the operator"
            follower.apply(BootFailed(self._clock.wall(), f"the launch was {lost}"))
            raise
        except LaunchFailed as failed:
            follower.launch_over()
            rank = next((r for r in plan.ranks if r.node == failed.where), None)
            follower.apply(BootFailed(self._clock.wall(), failed.what, rank.rank if rank else None, failed.where))
            if keep_on_failure and not failed.nothing_started:
                self.vigil.launching(plan, recipe)
            elif not failed.nothing_started:
                await self._stop(plan.deployment, 10.0, None)
            raise
        except NightdeckError as refused:
            follower.launch_over()
            follower.apply(BootFailed(self._clock.wall(), refused.what))
            raise
        # After the containers, which need the node's processors first; weights take minutes before memory is short.
        self.vigil.launching(plan, recipe)
        follower.launch_over()
        self._tell("info", f"boot {number} of {recipe.slug}: all {len(plan.ranks)} containers were started")
        return follower.state

    def _open_launch(self, plan: Plan, recipe: Recipe, facts: Mapping[str, NodeFacts | Absent]) -> Follower:
        now = self._clock.wall()
        event = BootOpened(
            at=now,
            deployment=plan.deployment,
            number=plan.boot_number,
            recipe=plan.recipe_slug,
            title=plan.recipe_title,
            digest=plan.recipe_digest,
            head_node=plan.head_node,
            ranks=tuple(RankRef(r.rank, r.node, r.container) for r in plan.ranks),
            launched_at=now,
            deadline_s=plan.ready_timeout_s,
            port=plan.port,
            served_name=plan.served_name,
            changed=tuple(self._ledger.changes(recipe)),
            judge=recipe.smoke_judge,
        )
        secrets = plan.secrets | secret_values(recipe.env, recipe.args)
        follower = self._open(event, secrets=secrets, checks=recipe.smoke)
        follower.keep_plan(recipe, plan, facts)
        self._choose()
        return follower

    async def restart(
        self,
        recipe: str | None = None,
        *,
        nodes: int | None = None,
        head: str | None = None,
        override: Sequence[str] = (),
        grace_s: float = 30.0,
        take_over: bool = False,
        discard_logs: bool = False,
        told: Callable[[Sequence[str]], None] = lambda _lines: None,
    ) -> BootState:
        self._begin_job("restarting", take_over=take_over)
        try:
            async with self._controls("restarting", override, take_over=take_over) as lease:
                return await self._restart(lease, recipe, nodes, head, override, grace_s, discard_logs, told)
        finally:
            self._end_job()

    async def _restart(
        self,
        lease: Lease,
        recipe: str | None,
        nodes: int | None,
        head: str | None,
        override: Sequence[str],
        grace_s: float,
        discard_logs: bool,
        told: Callable[[Sequence[str]], None],
    ) -> BootState:
        census: Census = await self._census()
        await self._adopt(census)
        shown = self._followers.get(self._show or "")
        name = recipe or (shown.state.recipe if shown is not None else None)
        if name is None:
            raise UsageError("nothing runs, so nothing can be restarted", remedy="name a recipe, or launch it")
        found = self._shelf.get(name)  # a recipe that cannot be read must not cost the deployment that runs
        deployment = shown.state.deployment if shown is not None else ""
        if not any(isinstance(rows, tuple) and rows for rows in census.values()):
            first = await self._draft(found, nodes, head)
            told(await self._changed(found, first, deployment, census, override))
            draft = self._draft(found, nodes, head)
            return await self._launch(lease, found, draft, census, nodes, head, override, True)
        # Most facts hold over the stop. A boot that cannot be must not cost the one that runs, so they come before it.
        facts, plan = first = await self._draft(found, nodes, head)
        told(await self._changed(found, first, deployment, census, override))
        refuse_blocks(with_preflight(plan, found, self._cluster, facts), (*override, *LIFTED_BY_A_STOP))
        stop = await self._stop(None, grace_s, census, discard_logs)
        bad = {n: r for n, r in stop.results.items() if r[0] in ("still_running", "unknown")}
        if bad:
            words = "; ".join(f"{node}: {state.replace('_', ' ')} {why}" for node, (state, why) in bad.items())
            raise NightdeckError(f"not restarted: {words}", remedy="nothing new was started")
        draft = self._draft(found, nodes, head, renew=True)
        return await self._launch(lease, found, draft, stop.left, nodes, head, override, True)

    async def _changed(
        self, recipe: Recipe, draft: tuple[Facts, Plan], deployment: str, census: Census, override: Sequence[str]
    ) -> tuple[str, ...]:
        """What a restart changes against what runs, else against the recipe's last boot."""
        facts, plan = draft
        rows = [f for found in census.values() if isinstance(found, tuple) for f in found]
        images = {f.node: f.image_id for f in rows if f.deployment == deployment and f.image_id}

        def read() -> tuple[str, ...]:
            entry = self._ledger.entry_of(deployment) or self._ledger.last_of(recipe.slug)
            return restart_changes(entry, recipe, plan, facts, override=override, images=images)

        try:
            return await asyncio.to_thread(read)
        except NightdeckError as error:  # a ledger that cannot be read keeps nobody from restarting
            return (f"restart of {recipe.slug}: what changed is not known: {error}",)

    async def extend_deadline(self, seconds: float) -> None:
        self._shown().extend_deadline(seconds)

    async def roll_back(self) -> Mapping[str, tuple[str, str]]:
        return await self.stop(self._shown().state.deployment, grace_s=10.0)

    async def keep(self) -> None:
        self._shown().apply(Acted(self._clock.wall(), "keep", by=self._by))

    async def note(self, text: str) -> None:
        self._shown().apply(Acted(self._clock.wall(), "note", clean_line(mask_text(text), limit=500), self._by))

    async def smoke(self) -> Mapping[str, Any]:
        if self._show is None:
            await self._adopt(await self._census())
        state = self._shown().state
        host = api_address(self._cluster.api_host)
        link = self._fleet.link(state.head_node)
        answer = await ask_health(link, host, state.port, state.served_name)
        if answer.state != "healthy":
            return {"ok": False, "text": "", "why": f"the API is {answer.state}: {answer.detail}"}
        return (await self._ready[state.deployment].whole()).as_mapping()
