"""Recipe x cluster x facts: the exact command of every rank, what differs between them, and what was found."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace

from console.base.absent import Absent
from console.base.errors import UsageError
from console.base.findings import Finding
from console.base.secrets import mask_text, secret_values
from console.cluster.facts import NodeFacts
from console.cluster.model import Cluster, Node
from console.plan import model as labels
from console.plan.adapt import NOT_ASKED, Facts, adapt_flags
from console.plan.choose import choose_nodes
from console.plan.codes import finding, unique
from console.plan.container import Adapt, container_name, run_argv
from console.plan.effective import Effective, aliases_of, effective
from console.plan.engines import engine_of
from console.plan.engines.base import Engine, RankArgs, RankContext
from console.plan.fabric import Fabric, check_addresses, check_rdma, fabric_of
from console.plan.flags import find_value, without
from console.plan.lint import lint_recipe
from console.plan.memory import memory_budget
from console.plan.memory_model import MeasuredBoot
from console.plan.model import Plan, RankPlan
from console.plan.mounts import Bind, binds_of
from console.plan.network import merge_env, network_env
from console.plan.proof import Truth, prove
from console.recipe.model import Recipe


def make_plan(
    recipe: Recipe,
    cluster: Cluster,
    facts: Facts,
    *,
    boot_number: int,
    deployment: str,
    launched_at: float,
    nodes: Sequence[str] | None = None,
    node_count: int | None = None,
    head: str | None = None,
    measured: MeasuredBoot | None = None,
    headers_bytes: int | None = None,
) -> Plan:
    """A launch, rendered. launched_at: epoch seconds, for the label. node_count: run on so many nodes instead of
    required_nodes; the tensor parallel size follows. measured: an earlier boot of this recipe; headers_bytes: the
    checkpoint's tensors over all ranks; both for the memory budget.

    Raises UsageError for what cannot be rendered at all: an engine or a backend that is not supported, nodes that the
    cluster lacks, too few nodes, a path that no mount can carry. Everything else becomes a finding; one that blocks
    leaves the plan to be looked at, not to be run."""
    engine = engine_of(recipe.engine, where=recipe.file)
    chosen = choose_nodes(recipe, cluster, nodes=nodes, node_count=node_count, head=head)
    world = len(chosen)
    if world != recipe.required_nodes:
        recipe = resized(recipe, world)
    values = effective(recipe)
    _refuse_ray(recipe, values, world)
    per_node = values.world // world if values.world % world == 0 else 1
    found: list[Finding] = [*recipe.findings, *cluster.findings, *lint_recipe(recipe, world, cluster_env=cluster.env)]
    adapts, adapt_findings = adapt_flags(recipe, chosen, facts, per_node_gpus=per_node)
    found += adapt_findings
    fabrics, network, network_findings = _network(recipe, chosen, facts, engine)
    found += network_findings
    envs, env_findings = merge_env(network, cluster.env, recipe.env)
    found += env_findings
    ranks: list[RankPlan] = []
    truths: list[Truth] = []
    for rank, node in enumerate(chosen):
        fact = facts.get(node.name, NOT_ASKED)
        binds, bind_findings = binds_of(recipe, node, fact, envs[rank])
        found += bind_findings
        args = engine.rank_args(
            recipe,
            RankContext(
                rank,
                world,
                fabrics[0].address if fabrics else "",
                values.tensor_parallel,
                values.pipeline_parallel,
                values.port,
                values.master_port,
                cluster.api_host,
            ),
        )
        marks = _labels(recipe, deployment, boot_number, rank, world, chosen, values.port, launched_at)
        ranks.append(_rank(recipe, engine, node, rank, boot_number, marks, envs[rank], binds, args, adapts[rank]))
        truths.append(_truth(node, fact, adapts[rank], network[rank], envs[rank], binds, args))
    differs, unexplained = prove(ranks, truths)
    secrets = frozenset().union(*(secret_values(r.env, r.engine_argv) for r in ranks))
    if not any(f.code in ("launcher-argument", "args-per-rank-flag") for f in found):  # they say why
        found += [finding("ranks-differ", mask_text(text, secrets)) for text in unexplained]
    memory = memory_budget(
        recipe,
        {n.name: facts.get(n.name, NOT_ASKED) for n in chosen},
        world,
        measured,
        headers_bytes,
        head=chosen[0].name,
        env=envs[0],
    )
    return Plan(
        recipe_slug=recipe.slug,
        recipe_title=recipe.title,
        recipe_digest=recipe.digest,
        deployment=deployment,
        boot_number=boot_number,
        boot_label=f"{recipe.slug}-b{boot_number}",
        image=recipe.docker_image,
        served_name=recipe.served_name,
        port=values.port,
        ready_timeout_s=recipe.ready_timeout_s,
        head_node=chosen[0].name,
        ranks=tuple(ranks),
        differs=differs,
        unexplained=unexplained,
        findings=unique([*found, *memory.findings]),
        memory=memory.as_json(),
        secrets=secrets,
        override=recipe.launch.override,
    )


def resized(recipe: Recipe, world: int) -> Recipe:
    """The recipe for another number of nodes: world ranks, pipeline as it is, the rest tensor parallel. Raises
    UsageError when the pipeline's size does not divide the number of nodes."""
    pipeline = effective(recipe).pipeline_parallel
    if world % pipeline:
        raise UsageError(f"{world} nodes cannot be divided by pipeline_parallel_size {pipeline}", where=recipe.file)
    names = ("--tensor-parallel-size", "--tp-size")
    args = without(recipe.args, names, aliases_of(recipe.engine))
    return replace(recipe, required_nodes=world, tensor_parallel_size=world // pipeline, args=args)


def _refuse_ray(recipe: Recipe, values: Effective, world: int) -> None:
    backend = find_value(values.args, "--distributed-executor-backend") or recipe.distributed_backend
    if world > 1 and backend == "ray":
        raise UsageError(
            "the ray backend over several nodes is not supported",
            where=recipe.file,
            remedy='use distributed_backend = "mp": one engine process a node, no cluster to start before',
        )


def _network(
    recipe: Recipe, nodes: Sequence[Node], facts: Facts, engine: Engine
) -> tuple[list[Fabric], list[dict[str, str]], list[Finding]]:
    if len(nodes) == 1:
        return [], [{}], []
    fabrics: list[Fabric] = []
    found: list[Finding] = []
    for node in nodes:
        fabric, findings = fabric_of(node, facts.get(node.name, NOT_ASKED))
        fabrics.append(fabric)
        found += findings
    found += check_addresses(nodes, fabrics)
    rdma = recipe.gpus != "none"
    if rdma:
        found += check_rdma(nodes, fabrics, facts)
    return fabrics, [network_env(f, host_ip_env=engine.host_ip_env, rdma=rdma) for f in fabrics], found


def _labels(
    recipe: Recipe,
    deployment: str,
    boot: int,
    rank: int,
    world: int,
    nodes: Sequence[Node],
    port: int,
    launched_at: float,
) -> dict[str, str]:
    return {
        labels.LABEL_DEPLOYMENT: deployment,
        labels.LABEL_BOOT: str(boot),
        labels.LABEL_RECIPE: recipe.slug,
        labels.LABEL_TITLE: recipe.title,
        labels.LABEL_DIGEST: recipe.digest,
        labels.LABEL_RANK: str(rank),
        labels.LABEL_WORLD: str(world),
        labels.LABEL_NODE: nodes[rank].name,
        labels.LABEL_HEAD: nodes[0].name,
        labels.LABEL_PORT: str(port),
        labels.LABEL_SERVED: recipe.served_name,
        labels.LABEL_DEADLINE: f"{recipe.ready_timeout_s:g}",
        labels.LABEL_LAUNCHED: f"{launched_at:.3f}",
        **({} if recipe.smoke_judge else {labels.LABEL_JUDGE: "off"}),
        **({labels.LABEL_GUARD: "off"} if recipe.guard.enabled is False else {}),
    }


def _rank(
    recipe: Recipe,
    engine: Engine,
    node: Node,
    rank: int,
    boot: int,
    marks: Mapping[str, str],
    env: Mapping[str, str],
    binds: Sequence[Bind],
    args: RankArgs,
    adapt: Adapt,
) -> RankPlan:
    name = container_name(recipe.slug, boot, rank)
    argv = run_argv(
        recipe,
        cli=node.container_cli,
        name=name,
        labels=marks,
        env=env,
        binds=binds,
        entrypoint=recipe.entrypoint or engine.entrypoint,
        engine_argv=args.words,
        adapt=adapt,
    )
    mkdirs = tuple(dict.fromkeys(b.source for b in binds if b.make))
    return RankPlan(rank, node.name, rank == 0, name, argv, args.words, dict(env), mkdirs)


def _truth(
    node: Node,
    fact: NodeFacts | Absent,
    adapt: Adapt,
    network: Mapping[str, str],
    env: Mapping[str, str],
    binds: Sequence[Bind],
    args: RankArgs,
) -> Truth:
    home = "" if isinstance(fact, Absent) or isinstance(fact.home, Absent) else fact.home
    sources = {
        b.target: b.source
        for b in binds
        if b.source.startswith(("~", home.rstrip("/") + "/") if home else "~")
        or (node.hf_cache is not None and b.source == posixpath.normpath(node.hf_cache))
    }
    own_env = {name: value for name, value in network.items() if env.get(name) == value}
    return Truth(node.container_cli, adapt.nofile, adapt.memlock, own_env, sources, args.own)
