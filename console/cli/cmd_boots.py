"""`boots`: the ledger, one boot of it, and what is done with boots afterwards."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from console.base.errors import ExitCode, UsageError
from console.base.secrets import secret_values
from console.boot.figures import lowest_text, ready_text, speed_text
from console.boot.to_json import stamp
from console.cli.out import Out
from console.cli.times import day, whole
from console.cli.world import World
from console.files.archive import log_files
from console.services.compare import record_of
from console.services.hub import BootSummary
from console.services.ledger import Ledger, summary_row
from console.services.retention import RULE, Limits

VERBS = ("note", "star", "unstar", "rm", "export", "prune")
_AGE = re.compile(r"([0-9]{1,6})(m|h|d)")


def boots(args: argparse.Namespace, world: World, out: Out) -> int:
    words = list(args.words)
    ledger = world.ledger()
    verb = words.pop(0) if words and words[0] in VERBS else ""
    if verb:
        return _act(verb, words, args, world, ledger, out)
    if len(words) > 1:
        raise UsageError(f"{words[0]!r} is no action on boots", remedy=f"there are: {', '.join(VERBS)}")
    if words:
        return _one(words[0], ledger, out)
    since = parse_since(args.since, time.time()) if args.since else None
    rows = [
        b
        for b in ledger.boots()
        if (not args.recipe or b.recipe == args.recipe)
        and (not args.state or b.state in args.state.split(",") or _served(b, args.state))
        and (since is None or b.started_at >= since)
    ]
    if args.limit:
        rows = rows[: args.limit]
    if out.as_json:
        out.data({"schema": 1, "boots": [boot_json(b) for b in rows]})
    else:
        show(rows, out)
    return ExitCode.DONE


def _served(boot: BootSummary, wanted: str) -> bool:
    return "served" in wanted.split(",") and boot.ready_s is not None


def parse_since(text: str, now: float) -> float:
    """Epoch seconds of `90m`, `8h`, `3d` ago, of a date, or of a date with a time (UTC where no zone is given).

    Raises UsageError."""
    match = _AGE.fullmatch(text)
    if match:
        unit = {"m": "minutes", "h": "hours", "d": "days"}[match.group(2)]
        return now - timedelta(**{unit: int(match.group(1))}).total_seconds()
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"--since: {text!r} is no time", remedy="8h, 3d, 2026-09-18, or 2026-09-18T22:00+02:00"
        ) from error
    return at.timestamp()  # without a zone it is this machine's, as times are shown


def show(rows: Sequence[BootSummary], out: Out) -> None:
    table = [
        [
            str(b.number),
            day(b.started_at),
            b.recipe,
            b.state,
            "" if b.ready_s is None else ready_text(b.ready_s, b.ready_by),
            lowest_text(b.min_available_bytes) + ("*" if b.unseen else ""),
            "" if b.tokens_per_s is None else speed_text(b.tokens_per_s),
            b.cause if b.state == "failed" and b.cause else "; ".join(b.changed) or b.cause,
            ("* " if b.starred else "") + b.note,
        ]
        for b in rows
    ]
    heads = ["boot", "started", "recipe", "verdict", "ready", "lowest free", "tok/s", "changed or cause", "note"]
    out.table(heads, table, right=[0, 4, 5, 6])
    if any(b.unseen for b in rows):
        out.line("* no console looked all the time: `nightdeck boots BOOT` says when not")


def boot_json(boot: BootSummary) -> dict[str, object]:
    return {
        "id": boot.id,
        "number": boot.number,
        "recipe": boot.recipe,
        "started_at": stamp(boot.started_at),
        "changed": list(boot.changed),
        "state": boot.state,
        "cause": {"class": boot.cause_class or None, "sentence": boot.cause} if boot.cause else None,
        "ready_s": boot.ready_s,
        "ready_by": boot.ready_by or None,
        "stages": dict(boot.stages),
        "min_available_bytes": boot.min_available_bytes,
        "min_available_by_node": dict(boot.min_available_by_node),
        "min_available_unseen": boot.unseen or None,
        "tokens_per_s": boot.tokens_per_s,
        "smoke_text": boot.smoke_text or None,
        "note": boot.note or None,
        "starred": boot.starred,
    }


def _one(name: str, ledger: Ledger, out: Out) -> int:
    listed = ledger.index.find(name)
    boot = summary_row(listed)
    record = record_of(listed)
    logs = log_files(listed.entry.path)
    if out.as_json:
        row = {
            **boot_json(boot),
            "folder": str(listed.entry.path),
            "live": listed.entry.live,
            "logs": {str(rank): str(file) for rank, file in logs.items()},
            "measure": record.measure or None,
        }
        out.data({"schema": 1, "boots": [row]})
        return ExitCode.DONE
    out.line(
        f"boot {boot.number} of {boot.recipe}: {boot.state}{' (a console writes it now)' if listed.entry.live else ''}"
    )
    out.line(f"  started     {whole(boot.started_at)}")
    out.line(f"  ready       {'n/a' if boot.ready_s is None else 'after ' + ready_text(boot.ready_s, boot.ready_by)}")
    for change in boot.changed:
        out.line(f"  changed     {change}")
    if boot.cause:
        out.line(f"  cause       {boot.cause}")
        for line in _evidence(record.summary):
            out.line(f"  evidence    {line}")
    for stage, seconds in boot.stages.items():
        out.line(f"  stage       {stage:<14} {seconds:8.1f} s")
    for node, low in sorted(boot.min_available_by_node.items(), key=lambda i: i[1]):
        out.line(f"  lowest      {node:<14} {low / 2**30:8.2f} GiB available")
    if boot.unseen:
        out.line(f"  lowest      {'' if boot.min_available_by_node else 'n/a: '}{boot.unseen}")
    out.line(f"  speed       {speed_text(boot.tokens_per_s)}{'' if boot.tokens_per_s is None else ' tokens/s'}")
    if boot.smoke_text:
        out.line(f"  answer      {boot.smoke_text.strip()}")
    if boot.note:
        out.line(f"  note        {boot.note}")
    out.line(f"  folder      {listed.entry.path}")
    out.line(f"  logs        {', '.join(f.name for f in logs.values()) or 'none'}")
    return ExitCode.DONE


def _evidence(summary: Mapping[str, object]) -> list[str]:
    """What the kept cause rests on."""
    cause = summary.get("cause")
    lines = cause.get("evidence") if isinstance(cause, Mapping) else None
    return [str(line) for line in lines[:6]] if isinstance(lines, list) else []


def _act(verb: str, words: list[str], args: argparse.Namespace, world: World, ledger: Ledger, out: Out) -> int:
    if verb == "prune":
        return _prune(args, world, ledger, out)
    if not words:
        raise UsageError(f"boots {verb} needs a boot's number or id")
    if verb == "note":
        boot = ledger.note(words[0], " ".join(words[1:]))
        return _said(out, {"noted": boot}, f"{boot}: {'noted' if words[1:] else 'note taken away'}")
    if verb in ("star", "unstar"):
        done = [ledger.star(word, verb == "star") for word in words]
        return _said(out, {f"{verb}red": done}, f"{verb}red: {', '.join(done)}")
    if verb == "rm":
        done = [ledger.remove(word) for word in words]
        return _said(out, {"removed": done}, f"removed: {', '.join(done)}")
    if len(words) != 1:
        raise UsageError("export takes one boot")
    listed = ledger.index.find(words[0])
    target = Path(args.output or f"{listed.entry.id}.tar.gz")
    if target.exists():
        raise UsageError(f"{target} is there already", remedy="-o FILE names another")
    values = {v for r in world.recipes()[0] if r.slug == listed.entry.recipe for v in secret_values(r.env, r.args)}
    names = ledger.export(listed.entry.id, target, secrets=values)
    return _said(out, {"file": str(target), "names": names}, f"{target}: {len(names)} files, secrets masked")


def _prune(args: argparse.Namespace, world: World, ledger: Ledger, out: Out) -> int:
    """By the limits given, else by the settings'; with --dry-run nothing goes."""
    if args.keep is None and args.keep_gib is None:
        settings = world.settings()
        keep, gib = settings.keep_boots, settings.keep_gib
    else:
        keep, gib = args.keep or 0, args.keep_gib or 0.0
    if keep < 0 or gib < 0:
        raise UsageError("prune: --keep and --keep-gib are 0 (no limit) or more", remedy=RULE)
    limits = Limits(keep, int(gib * 2**30), args.marked_too)
    beyond = ledger.beyond(limits)
    sizes = {row.entry.id: size for row, size in beyond}
    gone = list(sizes) if args.dry_run else ledger.retain(limits)
    verb = "would be removed" if args.dry_run else "removed"
    rows = [f"{name} ({sizes.get(name, 0) / 2**20:.1f} MiB)" for name in gone]
    limit = f"limits: {keep or 'any number of'} boots, {f'{gib:g} GiB' if gib else 'any size'}"
    if args.dry_run and not out.as_json:
        out.line(f"{limit}; {RULE}")
    key = "would_remove" if args.dry_run else "removed"
    data: dict[str, object] = {key: gone, "bytes": sum(sizes.get(n, 0) for n in gone), "rule": RULE}
    return _said(out, data, f"{len(gone)} {verb}: {', '.join(rows) or 'none'}")


def _said(out: Out, data: dict[str, object], text: str) -> int:
    if out.as_json:
        out.data({"schema": 1, **data})
    else:
        out.line(text)
    return ExitCode.DONE
