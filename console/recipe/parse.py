"""The text of a recipe file as a Recipe, or all that is wrong with it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from console.base.errors import FileError
from console.base.findings import Finding, Severity
from console.base.secrets import mask_argv
from console.base.text import clean_line
from console.base.toml_check import FileErrors, did_you_mean, env_errors, has_control, named, shape_errors
from console.base.toml_locate import Document, Path, key_text, load_document
from console.recipe.checks import value_errors
from console.recipe.launch_tables import guard_hints, launch_errors
from console.recipe.model import (
    DEFAULT_MASTER_PORT,
    DEFAULT_PORT,
    LaunchOptions,
    MemoryHints,
    Mount,
    NodeChoice,
    Recipe,
    SmokePrompt,
)
from console.recipe.reconcile import Agreed, agree, ready_timeout
from console.recipe.schema import PLAIN_TABLES, RecipeTable, known_keys
from console.recipe.words import WordError, is_json, read_entry, shell_meaning, split_words

# The format's own files may begin with their path on a line of its own, which is no TOML.
_PATH_LINE: Final = re.compile(r"\ufeff?[A-Za-z0-9_./~\-]+\.toml[ \t]*(?=\r?\n|$)")
_ENTRY_TABLES: Final = {"extra_mounts": "extra_mounts", "checks": "smoke.checks"}


class RecipeErrors(FileErrors):
    """All errors of a recipe file."""


def parse_recipe(text: str, *, slug: str, file: str) -> Recipe:
    """Read a recipe. Raises RecipeErrors, which holds every error of the file with its line and column."""
    try:
        digest = hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise RecipeErrors([FileError("holds half a character (a lone surrogate)", file=file, line=line)]) from error
    findings: list[Finding] = []
    body = text
    if heading := _PATH_LINE.match(text):
        body = text[heading.end() :]
        message = f"the first line is a path, not TOML, and is passed over: {clean_line(heading.group(), limit=120)}"
        findings.append(Finding("recipe-path-line", Severity.INFO, message, remedy="put # before it"))
    try:
        doc = load_document(body, file)
    except FileError as error:
        raise RecipeErrors([error]) from error
    return _Reader(doc, findings).read(text, slug, digest)


class _Reader:
    """Collects errors and findings while one document is read."""

    def __init__(self, doc: Document, findings: list[Finding]) -> None:
        self.doc = doc
        self.errors: list[FileError] = []
        self.findings = findings

    def read(self, source: str, slug: str, digest: str) -> Recipe:
        data = self.doc.data
        try:
            table: RecipeTable | None = RecipeTable.model_validate(data)
        except ValidationError as error:
            table = None
            self.errors.extend(shape_errors(self.doc, error, what="recipe"))
        self.errors.extend(value_errors(self.doc))
        self.errors.extend(launch_errors(self.doc))
        env: Any = data.get("env", {})
        self.errors.extend(env_errors(self.doc, ("env",), env))
        words, entry_of = self.words()
        agreed = agree(self.doc, words, entry_of)
        self.errors.extend(agreed.errors)
        self.findings.extend(agreed.findings)
        timeout, errors = ready_timeout(self.doc, env if isinstance(env, Mapping) else {})
        self.errors.extend(errors)
        entrypoint = self.entrypoint()
        extra = self.unknown_keys(data, "", ())
        self.advice(data)
        if self.errors or table is None:
            raise RecipeErrors(_without_repeats(self.errors))
        return _recipe(
            table,
            agreed,
            slug=slug,
            file=self.doc.file,
            args=tuple(words),
            env=dict(env),
            entrypoint=entrypoint,
            ready_timeout_s=timeout,
            extra=extra,
            findings=tuple(self.findings),
            source=source,
            digest=digest,
        )

    def words(self) -> tuple[list[str], list[int]]:
        """The words of `args`, and for each the entry that gave it."""
        words: list[str] = []
        entry_of: list[int] = []
        args = self.doc.data.get("args")
        for i, entry in enumerate(args if isinstance(args, list) else []):
            if not isinstance(entry, str):
                continue
            try:
                found = read_entry(entry)
            except WordError as error:
                shown = " ".join(mask_argv(entry.split()))
                self.errors.append(self.doc.error(f"{error.message}, found {named(shown)}", ("args", i)))
                continue
            line, _ = self.doc.place(("args", i), value=True)
            if not found:
                message = f"args: entry {i + 1} (line {line}) is empty and adds nothing"
                self.warn("args-empty", message, "write \"''\" for an empty argument")
            where = f"args: entry {i + 1} (line {line})"
            for word in found:
                value = word.partition("=")[2] if word.startswith("--") else word
                if value.startswith("{") and not is_json(value):
                    message = f"{where} begins like JSON and is none: {clean_line(word, limit=80)}"
                    self.warn("args-json", message, "check quotes and commas; put single quotes around JSON")
            if not (len(found) == 1 and is_json(found[0])) and (piece := shell_meaning(entry)):
                message = f"{where}: {clean_line(piece, limit=60)} stays text, no shell reads it"
                self.warn("args-literal", message, "write the value itself")
            words.extend(found)
            entry_of.extend([i] * len(found))
        return words, entry_of

    def entrypoint(self) -> tuple[str, ...] | None:
        """A text is read as shell words, a list as words that stand as they are."""
        value = self.doc.data.get("entrypoint")
        if not isinstance(value, str | list):
            return None  # absent, or of a wrong type: the shape says so
        try:
            words = split_words(value) if isinstance(value, str) else [w for w in value if isinstance(w, str)]
        except WordError as error:
            self.errors.append(self.doc.error(f"{error.message}, found {named(value)}", ("entrypoint",)))
            return None
        if not words or not words[0]:
            remedy = "leave the key out to use the image's own"
            self.errors.append(self.doc.error("must not be empty", ("entrypoint",), remedy=remedy))
        elif any("\0" in w for w in words) or has_control(words[0]) or words[0].startswith("-"):
            self.errors.append(self.doc.error(f"must begin with a program, found {named(words[0])}", ("entrypoint",)))
        return tuple(words)

    def unknown_keys(self, table: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
        """Keys that no recipe is known to have, kept with their values; each one is warned of."""
        known = known_keys(name)
        extra: dict[str, Any] = {}
        for key, value in table.items():
            here = (*path, key)
            if key not in known:
                line, column = self.doc.place(here)
                few = len(self.findings) < 100  # a file of thousands of strange keys is none that was misspelt
                hint = did_you_mean(key, [k for k in known if k not in table]) if few else ""
                where = f"{self.doc.file}:{line}:{column}"
                self.warn("unknown-key", f"{where}: {key_text(here)}: unknown key, kept without effect", hint)
                extra[key] = value
            elif isinstance(value, Mapping) and key in PLAIN_TABLES:
                if inner := self.unknown_keys(value, key, here):
                    extra[key] = inner
            elif isinstance(value, list) and key in _ENTRY_TABLES:
                for i, entry in enumerate(value):
                    named_table = _ENTRY_TABLES[key]
                    if isinstance(entry, Mapping) and (inner := self.unknown_keys(entry, named_table, (*here, i))):
                        extra[f"{key}[{i + 1}]"] = inner
        return extra

    def advice(self, data: Mapping[str, Any]) -> None:
        if isinstance(size := data.get("shm_size"), str):
            message = (
                f"shm_size {clean_line(size, limit=40)} has no effect: ranks share the host's /dev/shm (--ipc host)"
            )
            self.findings.append(Finding("shm-size-no-effect", Severity.INFO, message))

    def warn(self, code: str, message: str, remedy: str = "") -> None:
        self.findings.append(Finding(code, Severity.WARN, message, remedy=remedy))


def _without_repeats(errors: list[FileError]) -> list[FileError]:
    return list({(e.line, e.column, e.key, e.message): e for e in errors}.values())


def _recipe(table: RecipeTable, agreed: Agreed, **rest: Any) -> Recipe:
    numbers = agreed.numbers
    prompts = [SmokePrompt(prompt=p) for p in table.smoke.prompts]
    checks = [SmokePrompt(prompt=c.prompt, expect=c.expect, max_tokens=c.max_tokens) for c in table.smoke.checks]
    hints = table.memory
    return Recipe(
        title=table.name,
        engine=table.engine,
        docker_image=table.docker_image,
        docker_image_dir=table.docker_image_dir,
        model=table.model,
        required_nodes=table.required_nodes,
        tensor_parallel_size=numbers.get("tensor_parallel_size", 1),
        pipeline_parallel_size=numbers.get("pipeline_parallel_size", 1),
        distributed_backend=agreed.backend,
        shm_size=table.shm_size,
        mounts=tuple(Mount(m.host, m.container, m.read_only) for m in table.extra_mounts),
        port=numbers.get("port", DEFAULT_PORT),
        master_port=numbers.get("master_port", DEFAULT_MASTER_PORT),
        gpus=table.gpus or "all",
        memory=MemoryHints(hints.weights_gb, hints.resident_gb, hints.process_gb, hints.reserve_gib),
        smoke=(*prompts, *checks),
        smoke_judge=table.smoke.judge == "on",
        nodes=NodeChoice(tuple(table.nodes.only), table.nodes.head, tuple(table.nodes.prefer)),
        guard=guard_hints(table.guard),
        launch=LaunchOptions(table.launch.drop_caches, table.launch.sync_image, tuple(table.launch.override)),
        **rest,
    )
