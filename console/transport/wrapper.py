"""A command that must not outlive its channel: constant sh text that ends it when standard input ends.

Why a wrapper: closing a channel or losing a connection leaves a process without a terminal running, and for root sshd
ignores a client's signal requests; only the end of standard input reaches the far side in every case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# Words: $1 is the number of bytes that standard input brings for the command, the rest is the command.
# - Input goes to an unlinked file first: a command never starts on half of its input, and one that does not read
#   its input cannot keep the watcher from seeing the end.
# - The command has its own session, so its whole process group can be ended; without setsid only itself.
#   A child that has not come to its setsid yet has no group: then it is ended by its own number.
# - Only the command holds stdout and stderr: the shell's own words (and its hold on the channel) end at `exec >`.
# - The watcher repeats its signal: a signal between the shell's last look and its wait is lost in some shells. It kills
#   the group itself where somebody killed this shell; a shell that ends by itself ends the watcher first.
SCRIPT: Final = """n=$1
shift
exec 3<&0 </dev/null
if [ "$n" -gt 0 ]; then
  f=
  for d in /dev/shm "${TMPDIR:-/tmp}" /var/tmp; do
    f=$(mktemp "$d/nightdeck.XXXXXXXXXX" 2>/dev/null) && break
  done
  if [ -z "$f" ]; then
    echo "nightdeck: no folder for a temporary file: /dev/shm, ${TMPDIR:-/tmp}, /var/tmp" >&2
    exit 125
  fi
  trap "rm -f \\"$f\\"; exit 143" TERM HUP INT
  head -c "$n" <&3 >"$f"
  got=$(wc -c <"$f")
  exec 4<"$f"
  rm -f "$f"
  if [ "$got" -ne "$n" ]; then
    echo "nightdeck: $got of $n bytes of input came; the command was not started" >&2
    exit 125
  fi
else
  exec 4</dev/null
fi
end() {
  trap "" TERM HUP INT
  kill -s KILL "$w"
  kill -s TERM -- "$g$p" || kill -s TERM "$p"
  (sleep 2; kill -s KILL -- "$g$p") 3<&- 4<&- &
  k=$!
  wait "$p"
  kill -s KILL "$k"
  kill -s KILL -- "$g$p"
  exit 143
}
if command -v setsid >/dev/null 2>&1; then
  g=-
  setsid "$@" <&4 3<&- 4<&- &
else
  g=
  "$@" <&4 3<&- 4<&- &
fi
p=$!
exec >/dev/null 2>&1 4<&-
trap end TERM HUP INT
m=$$
(while read -r x; do :; done; while kill -s TERM "$m"; do sleep 1; done; kill -s KILL -- "$g$p") <&3 3<&- &
w=$!
wait "$p"
s=$?
kill -s KILL "$w"
exit "$s"
"""


def wrapped(argv: Sequence[str], input_bytes: int = 0) -> list[str]:
    """argv that runs `argv` and ends it (TERM to its process group, KILL after 2 s) when standard input ends.

    input_bytes: how many bytes of standard input are the command's own; 0 gives it /dev/null. The exit status and
    stderr are the command's; one that a signal ended gives 128 + the signal's number, as shells do; 125 means that
    its input could not be taken. SIGINT and SIGQUIT are ignored in the command (a shell's background job)."""
    return ["sh", "-c", SCRIPT, "nightdeck", str(input_bytes), *argv]
