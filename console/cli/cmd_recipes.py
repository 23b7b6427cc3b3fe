"""`recipes`: what could run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from console.base.errors import ExitCode, UsageError
from console.base.secrets import mask_argv, mask_env
from console.boot.to_json import plain
from console.cli.out import Out
from console.cli.world import World
from console.recipe.model import LaunchOptions, Recipe
from console.services.hub import RecipeProblem


def recipes(args: argparse.Namespace, world: World, out: Out) -> int:
    good, bad = world.recipes()
    if args.name:
        return _one(args.name, good, bad, out)
    if out.as_json:
        out.data({"schema": 1, "recipes": [_summary(r) for r in good], "errors": [_problem(p) for p in bad]})
        return ExitCode.USAGE if bad else ExitCode.DONE
    rows = [[r.slug, str(r.required_nodes), r.engine, r.docker_image, r.title] for r in good]
    out.table(["name", "nodes", "engine", "image", "title"], rows, right=[1])
    if not bad:
        return ExitCode.DONE
    out.flush()  # the good ones stand above what is wrong, also where both go to one place
    files = len({p.file for p in bad})
    out.say(f"{files} recipe file{'s' if files != 1 else ''} cannot be used:")
    for problem in bad:
        out.say(f"  {_where(problem)}: {problem.message}")
    return ExitCode.USAGE


def _one(name: str, good: Sequence[Recipe], bad: Sequence[RecipeProblem], out: Out) -> int:
    recipe = next((r for r in good if r.slug == name), None)
    if recipe is None:
        problems = [p for p in bad if f"/{name}/" in p.file]
        if problems:
            raise UsageError(
                f"{problems[0].key + ': ' if problems[0].key else ''}{problems[0].message}", where=_where(problems[0])
            )
        names = ", ".join(r.slug for r in good) or "none"
        raise UsageError(f"no recipe is called {name!r}", remedy=f"there are: {names}")
    if out.as_json:
        out.data({"schema": 1, "recipes": [{**_summary(recipe), **_whole(recipe)}], "errors": []})
        return ExitCode.DONE
    out.line(f"{recipe.slug}: {recipe.title}")
    out.line(f"  file      {recipe.file}")
    out.line(f"  engine    {recipe.engine} ({recipe.distributed_backend})")
    out.line(f"  model     {recipe.model}, served as {recipe.served_name}")
    out.line(f"  image     {recipe.docker_image}")
    out.line(
        f"  nodes     {recipe.required_nodes} (TP {recipe.tensor_parallel_size}, PP {recipe.pipeline_parallel_size})"
    )
    out.line(f"  deadline  {recipe.ready_timeout_s:.0f} s")
    for word in mask_argv(recipe.args):
        out.line(f"  arg       {word}")
    for key, value in mask_env(recipe.env).items():
        out.line(f"  env       {key}={value}")
    for mount in recipe.mounts:
        out.line(f"  mount     {mount.host} -> {mount.container}{' (read only)' if mount.read_only else ''}")
    for table, options in (("guard", recipe.guard.changes()), ("launch", _launch(recipe))):
        for key, option in options.items():
            out.line(f"  {table:9} {key} = {json.dumps(option)}")
    for key, value in recipe.extra.items():
        out.line(f"  unknown   {key} = {json.dumps(plain(value), default=str)}")
    for finding in recipe.findings:
        out.say(f"{finding.severity}: {finding.message}")
    return ExitCode.DONE


def _summary(recipe: Recipe) -> dict[str, object]:
    return {
        "name": recipe.slug,
        "title": recipe.title,
        "file": recipe.file,
        "engine": recipe.engine,
        "model": recipe.model,
        "nodes": recipe.required_nodes,
        "image": recipe.docker_image,
        "findings": [f.as_json() for f in recipe.findings],
    }


def _whole(recipe: Recipe) -> dict[str, object]:
    return {
        "served_name": recipe.served_name,
        "tensor_parallel_size": recipe.tensor_parallel_size,
        "pipeline_parallel_size": recipe.pipeline_parallel_size,
        "distributed_backend": recipe.distributed_backend,
        "args": mask_argv(recipe.args),
        "env": mask_env(recipe.env),
        "mounts": plain(recipe.mounts),
        "port": recipe.port,
        "master_port": recipe.master_port,
        "ready_timeout_s": recipe.ready_timeout_s,
        "memory": plain(recipe.memory),
        "guard": recipe.guard.changes(),
        "launch": plain(recipe.launch),
        "extra": plain(recipe.extra),
        "digest": recipe.digest,
    }


def _launch(recipe: Recipe) -> dict[str, object]:
    """What differs from a launch without the table."""
    usual, mine = LaunchOptions(), recipe.launch
    return {
        k: plain(v) for k in ("drop_caches", "sync_image", "override") if (v := getattr(mine, k)) != getattr(usual, k)
    }


def _problem(problem: RecipeProblem) -> dict[str, object]:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "key": problem.key,
        "message": problem.message,
    }


def _where(problem: RecipeProblem) -> str:
    where = problem.file
    if problem.line is not None:
        where += f":{problem.line}"
        if problem.column is not None:
            where += f":{problem.column}"
    return f"{where}: {problem.key}" if problem.key else where
