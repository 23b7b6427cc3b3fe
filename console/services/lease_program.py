"""What runs on a node to hold the controls, to ask for them, to take them, and to start nothing without them."""

from __future__ import annotations

from typing import Final

# Without a word from its console for so long, a hold ends by itself: a console that is frozen, or whose machine sleeps,
# keeps nobody out for longer. Judgement: well above a slow link's retransmissions, well below a launch.
EXPIRE_S: Final = 30.0
# A start that is under way on a node is waited for before the controls change hands: `docker run -d` takes 0.1 s, and
# seconds on a node that is short of memory.
IN_FLIGHT_S: Final = 20
# How long a holder that is told to go may take to say so; then it is killed.
GO_S: Final = 3
# How long python3 may take to start before the shell keeps the hold itself: one that hangs would never see its console
# go, and keep everybody out.
PYTHON_S: Final = 5

# $1: who. $2: hold, ask, take or look. $3: the watcher's text. $4: EXPIRE_S.
# One lock for a machine, whatever a cluster file calls it (the host's name is in it because machines may share their
# /tmp, as a test bed's do). The kernel gives the lock up when the process ends, however it ends, so no lock is ever
# stale; a holder that is just ending is waited for. The files are opened for reading only and never removed: any user
# of the node can lock them, and there is no moment in which two files have one name. Who holds, asks or takes is told
# in a file of each one's own. Anybody may write there, and pids come again: a file is believed (`real`) only while the
# process that it names is such a program and belongs to the file's owner. So nobody speaks for another's process, and
# only programs of this kind are ever signalled.
# `.run` is held (shared) by every start while it runs. Whoever gets the lock waits for it: what an earlier holder
# started then shows in a census, and what it starts later sees that its holder is gone (FENCE below).
# A short hold ends here with its input. One that lasts hears a first beat, and gives its place (and pid) to a watcher;
# where python3 is missing or does not start, the shell goes on, and ends as well when it hears no beat.
PROGRAM: Final = (
    """read -r n </proc/sys/kernel/hostname || exit 94
f=${TMPDIR:-/tmp}/nightdeck-lease-$n
if ! command -v flock >/dev/null 2>&1; then echo "no flock on this node"; exit 95; fi
umask 022
[ -e "$f" ] || (set -C; : >"$f") 2>/dev/null
[ -e "$f.run" ] || (set -C; : >"$f.run") 2>/dev/null
[ -f "$f" ] && [ -r "$f" ] || { echo "cannot read $f"; exit 96; }
exec 9<"$f"
real() {
  [ -f "$1" ] && [ ! -h "$1" ] || return 1
  pid= who=
  read -r pid who <"$1" || [ -n "$pid" ] || return 1
  case $pid in ''|0*|*[!0-9]*|"$$") return 1;; esac
  if ! { [ -O "$1" ] && [ -O "/proc/$pid" ]; }; then
    o=$(stat -c %u "$1") && [ "$o" = "$(stat -c %u "/proc/$pid")" ] || return 1
  fi
  while read -r c || [ -n "$c" ]; do case $c in *nightdeck-lease*) return 0;; esac; done <"/proc/$pid/cmdline"
  return 1
} 2>/dev/null
tell() {
  for h in "$f.$1".*; do
    real "$h" && printf '%s%s\\n' "$2" "$who"
  done
}
signal() {
  for h in "$f.h".*; do
    real "$h" || continue
    # A child of a holder's that hangs has the lock as well.
    if [ "$1" = KILL ] && kill -s KILL -- "-$pid"; then continue; fi
    kill -s "$1" "$pid"
  done 2>/dev/null
}
busy() { echo busy; tell h ''; }
u=$(id -u)
mine=
drop() { [ -z "$mine" ] || rm -f "$mine"; mine=; }
say() { mine=$f.$1; rm -f "$mine"; (set -C; printf '%s %s\\n' "$$" "$2" >"$mine") 2>/dev/null; }
trap drop EXIT
trap '' PIPE
trap 'exit 0' TERM HUP INT
case $2 in
look)
  if flock -n -s 9; then echo free; else busy; fi
  tell a 'ask '
  exit 0;;
hold)
  if ! flock -w 0.3 9; then busy; exit 75; fi;;
ask)
  say "a.$u.$$" "$1"
  until flock -n 9; do busy; echo end; read -r line || exit 0; done
  drop;;
take)
  if ! flock -w 0.3 9; then
    say "t.$u.$$" "$1"
    tell h 'from '
    echo wait
    signal TERM
    if ! flock -w $((GO)) 9; then
      signal KILL
      if ! flock -w $((GO)) 9; then busy; exit 75; fi
    fi
    drop
  fi;;
esac
if [ -f "$f.run" ] && [ -r "$f.run" ]; then
  exec 8<"$f.run"
  if ! flock -n 8; then
    echo wait
    flock -w $((FLIGHT)) 8 || { echo busy; echo "a start of an earlier console, which has not ended yet"; exit 75; }
  fi
  exec 8<&-
fi
taken() { tell t 'taken '; exit 0; }
trap taken TERM
echo "held $$"
say "h.$u.$$" "$1"
read -r line || exit 0
starts() {
  command -v python3 && command -v timeout || return 1
  timeout -s KILL $((PYTHON)) python3 -S -c '' </dev/null 9<&-
} >/dev/null 2>&1
if starts; then
  trap - TERM
  exec python3 -S -c "$3" "$1" "$f" "$mine" "$4"
fi
wait_for=$4
late=
calm() { [ -z "$late" ] || kill "$late"; late=; } 2>/dev/null
heard() {
  calm
  (trap 'kill "$s"; exit' TERM; trap - EXIT; sleep "$wait_for" & s=$!; wait "$s" && kill -s HUP "$$") \\
    </dev/null >/dev/null 2>&1 9<&- &
  late=$!
}
trap 'calm; drop' EXIT
trap 'echo expired; exit 0' HUP
heard
while read -r line; do
  heard
  t=$(tell t 'taken ')
  [ -z "$t" ] || { printf '%s\\n' "$t"; exit 0; }
  echo asks; tell a 'ask '; echo beat
done
""".replace("$((GO))", str(GO_S))
    .replace("$((FLIGHT))", str(IN_FLIGHT_S))
    .replace("$((PYTHON))", str(PYTHON_S))
)

# Standard library of Python 3.8 alone; it has the lock's descriptor from the shell. argv: who, the lock, this hold's
# own file, seconds without a beat. A beat is a line with who holds now; it is answered with who asks, then `beat`.
WATCHER: Final = r"""
import glob, os, select, signal, stat, sys, time
who, lock, mine, expire = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
def say(*lines):
    try:
        os.write(1, "".join(l + "\n" for l in lines).encode("utf-8", "replace"))
    except OSError:
        leave()
def leave(*_):
    try:
        os.unlink(mine)
    except OSError:
        pass
    os._exit(0)
def real(path):
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        row = os.fstat(opened)
        pid, _, text = os.read(opened, 2000).decode("utf-8", "replace").partition(" ")
    finally:
        os.close(opened)
    proc = "/proc/%d" % int(pid)
    if not stat.S_ISREG(row.st_mode) or os.stat(proc).st_uid != row.st_uid:
        return None
    with open(proc + "/cmdline", "rb") as file:
        return text.split("\n")[0] if b"nightdeck-lease" in file.read() else None
def told(kind):
    rows = []
    for path in sorted(glob.glob(glob.escape(lock) + "." + kind + ".*")):
        try:
            rows.append(real(path))
        except (OSError, ValueError):
            continue
    return [r for r in rows if r is not None]
def gone(*_):
    say(*("taken " + w for w in told("t")[:1]))
    leave()
signal.signal(signal.SIGTERM, gone)
signal.signal(signal.SIGINT, leave)
signal.signal(signal.SIGHUP, leave)
asks, held, heard = None, who, time.monotonic()
buffer = b""
say("beat")
while True:
    ready = select.select([0], [], [], 1.0)[0]
    beat = False
    if ready:
        data = os.read(0, 65536)
        if not data:
            leave()
        heard, buffer = time.monotonic(), (buffer + data)[-65536:]
        *lines, buffer = buffer.split(b"\n")
        beat = bool(lines)
        if lines and lines[-1] and lines[-1].decode("utf-8", "replace") != held:
            held = lines[-1].decode("utf-8", "replace")
            new = "%s.%s" % (mine, os.urandom(8).hex())
            try:
                with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w") as file:
                    file.write("%d %s\n" % (os.getpid(), held))
                os.replace(new, mine)
            except OSError:
                pass
    if told("t"):
        gone()
    if time.monotonic() - heard > expire:
        say("expired")
        leave()
    now = told("a")
    if beat or now != asks:
        asks = now
        say("asks", *("ask " + w for w in asks), "beat")
"""

# A start that holds for one hold of the controls: $1 is the pid of its holder on this node, $2 its token. While it runs
# it keeps `.run`, and the engine's own children do not inherit that. Exit status 92: the controls are another's now.
FENCE: Final = """p=$1; t=$2; shift 2
if read -r n </proc/sys/kernel/hostname && command -v flock >/dev/null 2>&1; then
  r=${TMPDIR:-/tmp}/nightdeck-lease-$n.run
  if [ -f "$r" ] && [ -r "$r" ]; then exec 8<"$r"; flock -s -w 30 8; fi
  ours() {
    while read -r c || [ -n "$c" ]; do case $c in *"$t"*) return 0;; esac; done 2>/dev/null <"/proc/$p/cmdline"
    return 1
  }
  ours || { sleep 0.2; ours; } || { echo "the controls are not this console's any more" >&2; exit 92; }
fi
"$@" 8<&-
"""
FENCED: Final = 92
