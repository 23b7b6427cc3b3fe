"""How the probe is started on a node: a bootstrap on the command line, the program and its orders on standard input."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

# One line without a newline, so that it survives every login shell; it reads no byte beyond the program.
BOOTSTRAP: Final = (
    "import os,sys;n=int(sys.argv[1]);b=bytearray();"
    "[b.extend(c) for c in iter(lambda:os.read(0,n-len(b)),b'')];"
    "len(b)==n or sys.exit('the program was cut off on its way');"
    "sys.argv=['nightdeck-probe']+sys.argv[2:];"
    "exec(compile(bytes(b),'nightdeck-probe','exec'),{'__name__':'__main__'})"
)


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """What a probe watches. Times in seconds.

    interval_s: from frame to frame, 0.1 to 60. label: containers that carry it are watched. container_cli: `docker`,
    `podman`, `nerdctl`; "" watches none. paths: whose free space is shown (`~` is the user's home on the node); network
    mounts are added by the probe. gpu: False starts no nvidia-smi. top: processes by memory and as many by CPU."""

    interval_s: float = 1.0
    label: str = "nightdeck.deployment"
    container_cli: str = "docker"
    paths: tuple[str, ...] = ("/",)
    gpu: bool = True
    top: int = 8
    procs_every_s: float = 5.0


def probe_argv(program: bytes, options: ProbeOptions) -> tuple[list[str], bytes]:
    """The command to run on a node and the bytes to send first; standard input then stays open: its end ends it."""
    words = ["python3", "-u", "-c", BOOTSTRAP, str(len(program)), json.dumps(asdict(options), separators=(",", ":"))]
    return words, program


def order_interval(seconds: float) -> bytes:
    """Standard input for a running probe: frames `seconds` apart from now on, one at once."""
    return _order(do="interval", seconds=seconds)


def order_frame() -> bytes:
    """Standard input for a running probe: a frame now."""
    return _order(do="ask")


def order_census(number: int, label: str = "") -> bytes:
    """Standard input for a running probe: what carries a deployment's label (or this one), asked of the engine now. The
    answer is a frame of its own, `part` `census`, with this number as `n`."""
    return _order(do="census", n=number, **({"label": label} if label else {}))


def _order(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"
