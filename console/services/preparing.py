"""What the hub does before a launch: preflight in depth, images on every node, the page cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.base.absent import NOT_SAMPLED, Absent
from console.base.errors import NightdeckError, UsageError
from console.base.units import rate_text
from console.boot.events import StepChanged
from console.cluster.facts import NodeFacts
from console.cluster.model import Node
from console.files.build_context import find_context
from console.files.help_cache import HelpCache
from console.plan.codes import unique
from console.plan.engines import ENGINES
from console.plan.help_flags import compared
from console.plan.model import Plan
from console.plan.preflight_load import IN_USE, Loaded, load_findings, measured
from console.recipe.model import Recipe, SyncImage
from console.services.engine_help import HELP_WORDS, known_flags
from console.services.follower import Follower
from console.services.gpu_load import load_gpus, summary
from console.services.image_build import build_image
from console.services.image_step import CopyStep, image_source
from console.services.image_sync import NodeImage, sync_image
from console.services.images import Image, inspect
from console.services.launch import LaunchFailed
from console.services.lease import LeaseTaken
from console.services.measuring import Measuring
from console.services.page_cache import Dropped, drop_caches

DROP_STEP = "drop page cache"
COPY_STEP = "copy image"


def syncing(recipe: Recipe, sync_image: SyncImage | None) -> Recipe:
    """The recipe with what was asked for in place of its own `[launch] sync_image`."""
    return recipe if sync_image is None else replace(recipe, launch=replace(recipe.launch, sync_image=sync_image))


class Preparing(Measuring):
    """`Watching` and the work before a launch. One action that changes nodes at a time."""

    def __init__(self, *, helps: HelpCache | None = None, **parts: Any) -> None:
        super().__init__(**parts)
        self._help: dict[tuple[str, tuple[str, ...]], frozenset[str]] = {}
        self._helps = helps

    def _may_act(self, job: str) -> None:
        if self._read_only:
            raise UsageError(f"{job}: this console is read-only")

    def _begin_job(self, job: str, *, take_over: bool = False) -> None:
        self._may_act(job)
        if self._controls_view.state == "taken" and not take_over:
            raise LeaseTaken(self._controls_view.holder)
        if self._job:
            raise UsageError(f"{job}: {self._job} is still under way", remedy="wait for it, or abort it")
        self._job = job
        self._touch()

    def _end_job(self) -> None:
        self._job = ""
        self._touch()

    async def sync_image(
        self,
        name: str,
        *,
        nodes: Sequence[str] | None = None,
        source: str | None = None,
        direct: bool = True,
        told: Callable[[NodeImage], None] = lambda _row: None,
    ) -> Mapping[str, NodeImage]:
        """name: a recipe, or an image reference. nodes: these alone, else the whole cluster."""
        image = self._image_of(name)
        wanted = [n.name for n in self._cluster.nodes] if nodes is None else [self._node_named(n).name for n in nodes]
        if source is not None:
            self._node_named(source)
        self._begin_job(f"copying {image}")
        try:
            return await sync_image(
                self._fleet,
                self._cluster,
                image,
                wanted,
                clock=self._clock,
                told=told,
                source=source,
                direct=direct,
            )
        finally:
            self._facts_changed()
            self._end_job()

    def _image_of(self, name: str) -> str:
        try:
            return self._shelf.get(name).docker_image
        except UsageError:
            if ":" in name or "/" in name:
                return name
            raise

    def _node_named(self, name: str) -> Node:
        node = self._cluster.node(name)
        if node is None:
            known = ", ".join(n.name for n in self._cluster.nodes)
            raise UsageError(f"there is no node {name!r} in cluster {self._cluster.name}", remedy=f"its nodes: {known}")
        return node

    async def build_image(
        self, name: str, *, node: str | None = None, said: Callable[[str], None] = lambda _line: None
    ) -> tuple[str, Image]:
        """Build a recipe's image from its `docker_image_dir`, on the first node unless named: (node, image)."""
        recipe = self._shelf.get(name)
        if not recipe.docker_image_dir:
            raise UsageError(
                f"{recipe.slug} names no docker_image_dir, so there is nothing to build", where=recipe.file
            )
        where = self._node_named(node) if node else self._cluster.nodes[0]
        folder = await asyncio.to_thread(find_context, recipe.file, recipe.docker_image_dir)
        self._begin_job(f"building {recipe.docker_image} on {where.name}")
        try:
            built = await build_image(
                self._fleet, where.name, where.container_cli, recipe.docker_image, folder, said=said
            )
        finally:
            self._end_job()
        return where.name, built

    async def drop_caches(self, name: str | None = None) -> Mapping[str, Dropped]:
        """Drop the page cache on every node; the recipe's image is what a container is made of where sudo asks for a
        password."""
        image = self._image_of(name) if name else "busybox"
        self._begin_job("dropping the page cache")
        try:
            return await drop_caches(self._fleet, self._cluster, image, [n.name for n in self._cluster.nodes])
        finally:
            self._end_job()

    async def _with_flags(self, plan: Plan, recipe: Recipe) -> Plan:
        """The plan with what the image's own --help says against its flags. Asked on the head, once an image Id."""
        node = self._node_named(plan.head_node)
        link = self._fleet.link(node.name)
        image = await inspect(link, node.container_cli, plan.image)
        if not isinstance(image, Image):
            return plan
        entrypoint = recipe.entrypoint or ENGINES[recipe.engine].entrypoint
        command = ("image's own",) if entrypoint is None else entrypoint
        kept = await asyncio.to_thread(self._helps.get, image.id, command) if self._helps else None
        flags: frozenset[str] | Absent = self._help.get((image.id, command), kept or NOT_SAMPLED)
        if isinstance(flags, Absent):
            flags = await known_flags(link, node.container_cli, plan.image, entrypoint, HELP_WORDS[recipe.engine])
            if not isinstance(flags, Absent) and self._helps:
                await asyncio.to_thread(self._helps.put, image.id, command, flags)
        if not isinstance(flags, Absent):
            self._help[image.id, command] = flags
        return compared(plan, flags, node.name)

    async def _with_load(self, plan: Plan, recipe: Recipe) -> Plan:
        """The plan with what a few seconds of load show of each GPU; while anything works on a node, none is loaded."""
        nodes = [r.node for r in plan.ranks]
        if recipe.gpus == "none" or any(f.code == "gpu-left-out" for f in plan.findings):
            return plan
        used = [f for f in plan.findings if f.code in IN_USE]
        lacking = {f.node for f in plan.findings if f.code in ("image-missing", "image-copied", "image-no-room")}
        loads: dict[str, Loaded | Absent] = {}
        if used:
            why = Absent(f"not loaded: {used[0].message}")
            loads = dict.fromkeys(nodes, why)
        else:
            able = [n for n in nodes if n not in lacking]
            loads = await load_gpus(self._fleet, self._cluster, plan.image, recipe.gpus, able)
        if told := summary(loads):
            self._tell("info", told)
        # What was seen under load stands in place of what an idle clock was taken for.
        seen = {node for node, load in loads.items() if isinstance(load, Loaded)}
        before = [f for f in plan.findings if f.code != "gpu-clock-low" or f.node not in seen]
        return replace(plan, findings=unique([*before, *load_findings(loads)]), loads=measured(loads))

    async def _image_before(self, plan: Plan, facts: Mapping[str, NodeFacts | Absent], follower: Follower) -> bool:
        """A step of a launch: the image to the nodes of which the plan says that they get it; False: to none. The time
        that it takes is not the engine's: the deadline moves by it. Raises LaunchFailed where a node did not get it."""
        lacking = [f.node for f in plan.findings if f.code == "image-copied" and f.node]
        if not lacking:
            return False
        began, job = self._clock.monotonic(), self._job
        step = CopyStep(lambda *row: follower.apply(StepChanged(self._clock.wall(), COPY_STEP, *row)))

        def told(row: NodeImage) -> None:
            step.told(row)
            if row.state == "copying" and row.moved_bytes:
                self._job = f"{job}: image to {row.node}, {step.share(row)} at {rate_text(row.rate)}"
                self._touch()

        source = image_source(plan, facts, lacking)
        try:
            done = await sync_image(
                self._fleet, self._cluster, plan.image, lacking, clock=self._clock, told=told, source=source
            )
        except NightdeckError as error:
            raise self._not_started(plan, error.what, error.where or lacking[0], error.remedy, {}) from error
        except asyncio.CancelledError:
            step.ended("aborted")
            raise
        finally:
            self._job = job
            self._facts_changed()
        follower.extend_deadline(self._clock.monotonic() - began)
        bad = [row for row in done.values() if not row.good]
        if bad:
            words = "; ".join(f"{row.node}: {row.state.replace('_', ' ')}: {row.detail}" for row in bad)
            remedy = "nothing was started; what was copied whole stays"
            details = {row.node: row.detail for row in bad}
            raise self._not_started(plan, f"not every node has {plan.image}: {words}", bad[0].node, remedy, details)
        self._tell("info", f"{plan.image} was copied to {', '.join(done)}")
        return True

    @staticmethod
    def _not_started(plan: Plan, what: str, where: str, remedy: str, details: Mapping[str, str]) -> LaunchFailed:
        results = {r.node: ("not_started", details.get(r.node, "")) for r in plan.ranks}
        return LaunchFailed(what, where=where, remedy=remedy, results=results)

    def _facts_changed(self) -> None:
        """What the nodes said of themselves does not hold any more."""

    async def _drop_before(self, plan: Plan, follower: Follower) -> None:
        """A step of a launch. A node that cannot is told; the launch goes on: the engine's gate decides."""
        for rank in plan.ranks:
            follower.apply(StepChanged(self._clock.wall(), DROP_STEP, rank.node, "running"))
        done = await drop_caches(self._fleet, self._cluster, plan.image, [r.node for r in plan.ranks])
        for node, result in done.items():
            state = {"dropped": "done", "failed": "failed"}.get(result.state, "unknown")
            follower.apply(StepChanged(self._clock.wall(), DROP_STEP, node, state, result.detail or result.how))
        bad = {n: r for n, r in done.items() if r.state != "dropped"}
        if bad:
            node, first = next(iter(bad.items()))
            more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            self._tell("warn", f"the page cache was not dropped on {node}{more}: {first.detail}")
