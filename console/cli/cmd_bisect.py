"""`bisect`: which change broke it, one boot at a time."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from console.base.errors import ExitCode, UsageError
from console.cli.out import Out
from console.cli.world import World
from console.recipe.model import Recipe
from console.services.bisect import Bisecting, Trial


def bisect(args: argparse.Namespace, world: World, out: Out) -> int:
    def get(slug: str) -> Recipe:
        found = next((r for r in world.recipes()[0] if r.slug == slug), None)
        if found is None:
            raise UsageError(f"no recipe is called {slug}")
        return found

    search = Bisecting(world.state_folder, world.ledger().index, get)
    words = list(args.words)
    if words == ["reset"]:
        search.reset()
        out.say("the bisect is forgotten; its recipes stay where they are")
        return ExitCode.DONE
    if words in (["good"], ["bad"]):
        trial = search.verdict(words[0])
    elif words in ([], ["status"]):
        trial = search.status()
    elif len(words) == 2:
        trial = search.start(words[0], words[1], one_by_one=args.one_by_one, by_hand=args.by_hand)
    else:
        raise UsageError("bisect GOOD BAD, or bisect good|bad|status|reset")
    if out.as_json:
        culprit = trial.search.culprit
        recipe = None if trial.recipe is None else str(trial.recipe)
        out.data(
            {
                "schema": 1,
                "culprit": culprit,
                "changed": trial.changed or None,
                "recipe": recipe,
                "warning": trial.warning or None,
                **asdict(trial.search),
            }
        )
    else:
        _tell(trial, out)
    return ExitCode.DONE


def _tell(trial: Trial, out: Out) -> None:
    search = trial.search
    if trial.warning:
        out.say(trial.warning)
    out.line(f"from {search.good} (good) to {search.bad} (bad): {len(search.units)} changes")
    for verdict, units in search.history:
        out.line(f"  {verdict:<5} with {', '.join(units)}")
    if search.culprit is not None:
        rest = f", together with {', '.join(search.base)}" if search.base else ""
        out.line(f"it is: {search.culprit}{rest}")
        if trial.changed:
            out.line(f"  {trial.changed}")
        return
    if search.base:
        out.line(f"  harmless so far: {', '.join(search.base)}")
    out.line(f"  among: {', '.join(search.left)}; {search.steps_left} more boots at most")
    out.line(f"next: {', '.join(search.trying)}")
    out.line(f"  nightdeck launch {trial.recipe}")
    out.line("  then `nightdeck bisect good` or `nightdeck bisect bad`")
