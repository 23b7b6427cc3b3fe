"""The recipes pane: a list with search beside the chosen one in full: plan, memory, findings, what changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from console.base.errors import NightdeckError
from console.plan.model import Plan
from console.recipe.model import Recipe
from console.services.hub import HubApi, RecipeProblem, Snapshot
from console.tui.glyphs import UNICODE, Glyphs
from console.tui.grid import Grid, Row
from console.tui.lasting import while_here
from console.tui.paint import Paint
from console.tui.pane import Pane, Paper
from console.tui.plan_lines import finding_lines, plan_lines
from console.tui.spans import Line, Span, clip, fit, fit_name, safe, wrap_spans

PROBLEM = "problem:"
NARROW = 30  # cells below which the list has names and a bare count of nodes


def problem_words(problem: RecipeProblem) -> str:
    """`file:line:column: key: message`."""
    where = problem.file + (f":{problem.line}" if problem.line is not None else "")
    where += f":{problem.column}" if problem.line is not None and problem.column is not None else ""
    return f"{safe(where)}: " + (f"{safe(problem.key)}: " if problem.key else "") + safe(problem.message)


class RecipesPane(Pane):
    """Draws the recipes of a snapshot; the plan of the chosen one comes from the hub."""

    NAME = "Recipes"

    def __init__(self, hub: HubApi, *, id: str = "recipes") -> None:  # noqa: A002
        super().__init__(id=id)
        self.hub = hub
        self.glyphs: Glyphs = UNICODE
        self.words = ""
        self.touched = False
        self._recipes: Sequence[Recipe] = ()
        self._problems: Sequence[RecipeProblem] = ()
        self._plan: Plan | NightdeckError | None = None
        self._planned: tuple[str, str] | None = None
        self._planning: asyncio.Task[None] | None = None
        self._shown: object = None

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Grid(id="recipe-list")
            yield Paper(id="recipe-paper")
        prompt = Input(placeholder="search recipes by name, model, image", id="recipe-search", compact=True)
        prompt.display = False
        yield prompt

    @property
    def grid(self) -> Grid:
        return self.query_one(Grid)

    @property
    def paper(self) -> Paper:
        return self.query_one(Paper)

    @property
    def target(self) -> Widget:
        return self.grid

    @property
    def chosen(self) -> Recipe | None:
        """The recipe under the cursor; None on a file that could not be read."""
        key = self.grid.cursor_key
        return next((r for r in self._recipes if r.slug == key), None)

    @property
    def chosen_file(self) -> tuple[str, int | None] | None:
        """(file, line) under the cursor: a broken file opens at its error."""
        key = self.grid.cursor_key or ""
        if key.startswith(PROBLEM):
            problem = self._problems[int(key.removeprefix(PROBLEM))]
            return problem.file, problem.line
        recipe = self.chosen
        return (recipe.file, None) if recipe is not None else None

    def choose(self, slug: str) -> None:
        self.grid.move_to_key(slug)

    @while_here
    def set_paint(self, paint: Paint, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        self.grid.cursor_sign = glyphs.cursor
        self.grid.set_paint(paint)
        self.paper.set_paint(paint)
        self.retitle(paint)
        self.draw()

    @while_here
    def show(self, snapshot: Snapshot) -> None:
        """Called with every picture; what is here changes when a file does, or when a boot begins or ends."""
        boot = snapshot.boot
        key = (snapshot.recipes, snapshot.problems, boot and (boot.deployment, boot.phase.over), self.display)
        if key == self._shown:
            return
        self._shown = key
        self._recipes, self._problems = snapshot.recipes, snapshot.problems
        self.draw()

    def on_show(self) -> None:
        self.draw()

    def on_resize(self, _event: events.Resize) -> None:
        self.draw()

    def on_unmount(self) -> None:
        if self._planning is not None:
            self._planning.cancel()

    @while_here
    def draw(self) -> None:
        g = self.glyphs
        width = max(20, self.grid.size.width - 1)
        rows = [Row(r.slug, (self._row(r, width),)) for r in self._recipes if self._wanted(r)]
        for i, problem in enumerate(self._problems):
            line: Line = ((f" {g.failed} ", "bad bold"), (problem_words(problem), "bad"))
            rows.append(Row(f"{PROBLEM}{i}", (clip(line, width),)))
        name_width = self._name_width(width)
        tail = "nodes engine" if width >= NARROW else " n"
        self.grid.set_content(clip(((f"   {fit('recipe', name_width)} {tail}", "head"),), width, "head"), rows)
        count = f"{len(self._recipes)} "
        title: list[Span] = [("Recipes ", "title"), (count, "strong")]
        if self._problems:
            title.append((f"{g.failed} {len(self._problems)} cannot be read ", "bad"))
        if self.words:
            title.append((f"{g.dot} with “{safe(self.words, limit=30)}” ", "warn"))
        self.set_title(tuple(title))
        if self.display and self.size.width:
            self._ensure_plan()
            self._draw_paper()

    @staticmethod
    def _name_width(width: int) -> int:
        return min(28, max(12, width - (16 if width >= NARROW else 7)))

    def _row(self, recipe: Recipe, width: int) -> Line:
        name_width = self._name_width(width)
        count = f"{recipe.required_nodes:>5} " if width >= NARROW else f"{recipe.required_nodes:>2}"
        bad = any(f.severity == "block" for f in recipe.findings)
        sign = self.glyphs.failed if bad else self.glyphs.warn if recipe.findings else " "
        return clip(
            (
                (f" {sign} ", "bad" if bad else "warn"),
                (fit_name(safe(recipe.slug), name_width), "strong"),
                (f" {count}", "text"),
                (safe(recipe.engine) if width >= NARROW else "", "dim"),
            ),
            width,
        )

    def _wanted(self, recipe: Recipe) -> bool:
        hay = f"{recipe.slug} {recipe.title} {recipe.model} {recipe.docker_image} {recipe.engine}".lower()
        return all(word in hay for word in self.words.lower().split())

    def _ensure_plan(self) -> None:
        """Ask the hub for the plan of the chosen recipe, once for each content of its file."""
        recipe = self.chosen
        key = (recipe.slug, recipe.digest) if recipe is not None else None
        if key == self._planned:
            return
        self._planned, self._plan = key, None
        if self._planning is not None:
            self._planning.cancel()
        if recipe is not None:
            self._planning = asyncio.get_running_loop().create_task(self._fetch(recipe.slug))

    async def _fetch(self, slug: str) -> None:
        try:
            self._plan = await self.hub.plan(slug)
        except NightdeckError as error:
            self._plan = error
        self._draw_paper(top=True)

    @while_here
    def _draw_paper(self, *, top: bool = False) -> None:
        width = max(20, self.paper.size.width - 2)
        g = self.glyphs
        key = self.grid.cursor_key or ""
        if key.startswith(PROBLEM):
            problem = self._problems[int(key.removeprefix(PROBLEM))]
            lines = wrap_spans((" ", "text"), problem_words(problem), "bad", width, limit=8)
            self.paper.set_lines([*lines, (), ((" e opens the file; it is read again when saved", "dim"),)], top=top)
            return
        recipe = self.chosen
        if recipe is None:
            self.paper.set_lines([((" no recipe here", "dim"),)])
            return
        out: list[Line] = [((f" {safe(recipe.title)}", "strong"),)]
        out.append(((f" {safe(recipe.model)}   {safe(recipe.docker_image)}", "text"),))
        out.append(((f" {safe(recipe.file)}", "dim"),))
        changes = self.hub.changes_since_last(recipe.slug)
        out += [
            (),
            ((" since its last boot", "title"), ("" if changes else "   nothing changed", "dim")),
        ]
        for change in changes:
            out += wrap_spans((f" {g.dot} ", "warn"), safe(change), "text", width, limit=3)
        out.append(())
        if self._plan is None:
            out.append(((" rendering the plan …", "dim"),))
            out += finding_lines(recipe.findings, width, g)
        elif isinstance(self._plan, NightdeckError):
            out += wrap_spans((f" {g.failed} ", "bad"), safe(self._plan, limit=800), "bad", width, limit=6)
        else:
            out += plan_lines(self._plan, width, g)[1:]
        self.paper.set_lines(out, top=top)

    def ask_search(self) -> None:
        prompt = self.query_one(Input)
        prompt.value = self.words
        prompt.display = True
        prompt.focus()

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()
        self.touched = True
        self._ensure_plan()
        self._draw_paper(top=True)

    def on_grid_picked(self, event: Grid.Picked) -> None:
        event.stop()
        self.paper.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input.display:
            self.words = event.value
            self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        event.input.display = False
        self.grid.focus()

    def on_key(self, event: events.Key) -> None:
        prompt = self.query_one(Input)
        if event.key == "escape" and (prompt.display or self.words or self.paper.has_focus):
            event.stop()
            self.words = prompt.value = ""
            prompt.display = False
            self.grid.focus()
            self.draw()
