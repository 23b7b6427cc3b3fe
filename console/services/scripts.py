"""The few constant programs that run in a node's shell: words are positional arguments, never part of the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from console.base.errors import UsageError
from console.plan.model import LABEL_DEPLOYMENT
from console.services.lease_program import FENCE

# A node's hold of the controls: its pid there, and the token in its command line.
Fence = tuple[str, str]

# $1: container CLI, $2: label filter. The ids are hexadecimal words of the engine's own, so splitting them is safe.
_CENSUS_BODY: Final = (
    'ids=$("$cli" ps -aq --no-trunc --filter "label=$label") || exit $?; '
    "if [ -z \"$ids\" ]; then echo '[]'; exit 0; fi; "
    '"$cli" inspect $ids'
)
_CENSUS: Final = "cli=$1; label=$2; " + _CENSUS_BODY

# $1: number of folders, then the folders, then the command.
_START: Final = (
    'n=$1; shift; while [ "$n" -gt 0 ]; do '
    'mkdir -p -- "$1" || { echo "cannot make the folder $1" >&2; exit 91; }; shift; n=$((n-1)); done; '
    'exec "$@"'
)
MKDIR_FAILED: Final = 91

# How long a start may go on that nobody waits for any more, in seconds: well above what a console waits itself.
START_LIMIT_S: Final = 180
# $1: number of secret values, then their names, then the command. Each value is a line of standard input, its bytes as
# octal escapes: so it stands on no command line, in no text of a shell, and may hold line ends.
# The command has a session of its own: an engine's command that is ended in the middle of `run -d` hands the signal on
# to the container that it has just begun. Whoever cuts this start off ends this shell alone; what is under way comes to
# its end (or is killed at the limit, with a signal that is not handed on), and holds `.run` until then.
APART: Final = """n=$1; shift
while [ "$n" -gt 0 ]; do
  IFS= read -r v || { echo "the value of $1 did not come; nothing was started" >&2; exit 93; }
  v=$(printf '%b.' "$v"); export "$1=${v%.}"; shift; n=$((n-1))
done
v=
if timeout -s KILL 9 true 2>/dev/null; then set -- timeout -s KILL LIMIT "$@"; fi
if command -v setsid >/dev/null 2>&1; then set -- setsid "$@"; fi
"$@" </dev/null &
wait "$!"
""".replace("LIMIT", str(START_LIMIT_S))
# What a shell can export; docker itself takes more.
_EXPORTABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# $1: container CLI, then container ids. One by one: podman removes none of them where one is gone already.
_PURGE: Final = 'cli=$1; shift; for c; do "$cli" rm -f -v "$c" >/dev/null; done'
# $1: container CLI, $2: label filter, then container ids: remove them, then say what is left under the label.
_REMOVE: Final = 'cli=$1; label=$2; shift 2; for c; do "$cli" rm -f -v "$c" >/dev/null; done; ' + _CENSUS_BODY

# $1: container CLI, $2: since, $3: container. Both streams of the engine in the order in which they were logged.
_FOLLOW: Final = 'exec "$1" logs --follow --timestamps --since "$2" "$3" 2>&1'
_FOLLOW_ALL: Final = 'exec "$1" logs --follow --timestamps "$2" 2>&1'
_READ: Final = 'exec "$1" logs --timestamps "$2" 2>&1'
_READ_SINCE: Final = 'exec "$1" logs --timestamps --since "$2" "$3" 2>&1'


def _sh(program: str, *words: str) -> list[str]:
    return ["sh", "-c", program, "sh", *words]


def census_argv(cli: str, deployment: str | None = None) -> list[str]:
    """Everything of ours on a node (or of one deployment): a JSON array as `inspect` prints it."""
    return _sh(_CENSUS, cli, _label(deployment))


def start_argv(
    mkdirs: Sequence[str], argv: Sequence[str], fence: Fence | None = None, secrets: Sequence[str] = ()
) -> list[str]:
    """Make the folders as the user, then run `argv`. Exit status 91: a folder could not be made; 93: a secret's
    value did not come.

    A start under way comes to its end also where this command is ended. fence: pid and token of the node's own hold of
    the controls. Nothing is started once that has ended (exit status 92), and whoever takes the controls meanwhile
    waits until this has. secrets: names of variables of `argv`, whose values are `start_input`. Raises UsageError for
    one that a shell cannot export."""
    for name in secrets:
        if not _EXPORTABLE.fullmatch(name):
            raise UsageError(
                f"env {name} holds a secret, and a shell cannot pass a variable of that name on without showing it",
                remedy="give it a name of letters, digits and underscores",
            )
    start = list(argv) if not mkdirs else _sh(_START, str(len(mkdirs)), *mkdirs, *argv)
    return _sh(APART, str(len(secrets)), *secrets, *(start if fence is None else _sh(FENCE, *fence, *start)))


def start_input(values: Iterable[str]) -> bytes:
    """Standard input of a start: its secret values, in the order of their names."""
    return b"".join(b"%s\n" % "".join(f"\\0{byte:03o}" for byte in v.encode()).encode() for v in values)


def purge_argv(cli: str, ids: Sequence[str]) -> list[str]:
    """Remove containers by id, with what they wrote."""
    return [cli, "rm", "-f", "-v", *ids] if len(ids) == 1 else _sh(_PURGE, cli, *ids)


def remove_argv(cli: str, ids: Sequence[str]) -> list[str]:
    """The same, then the census of everything of ours."""
    return _sh(_REMOVE, cli, _label(None), *ids)


def follow_argv(cli: str, container: str, since: str = "", *, follow: bool = True) -> list[str]:
    """The container's log with time stamps. since: RFC 3339 with nanoseconds, inclusive; empty: from the start."""
    if follow:
        return _sh(_FOLLOW, cli, since, container) if since else _sh(_FOLLOW_ALL, cli, container)
    return _sh(_READ_SINCE, cli, since, container) if since else _sh(_READ, cli, container)


def stop_argv(cli: str, grace_s: float, ids: Sequence[str]) -> list[str]:
    """Ask the containers to end; the engine kills what is left after `grace_s` seconds."""
    return [cli, "stop", "-t", str(max(0, round(grace_s))), *ids]


def _label(deployment: str | None) -> str:
    return LABEL_DEPLOYMENT if deployment is None else f"{LABEL_DEPLOYMENT}={deployment}"
