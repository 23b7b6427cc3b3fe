"""Runs on a node: gathers what a plan must know of it and prints one JSON object; Python 3.8, standard library only.

Called as `python3 -I -S - REQUEST` with the program's text on standard input. REQUEST is JSON:
{"cli": "docker", "images": [...], "paths": [...], "limit_s": 4.0, "only": [...]}. `only` names the facts that are
wanted; without it all are gathered. Every fact comes as {"v": value} or {"why": reason}. What can hang (a dead daemon,
a dead mount) is asked in child processes with a limit, all at once: a hung mount is an answer with a reason, not a
wait. HOST_PROC and HOST_SYS stand for /proc and /sys, as in containers that look at a host.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from console.probe.facts_engine import free, gather_container, gather_images
from console.probe.facts_fabric import gather_hcas, gather_interfaces
from console.probe.facts_ground import Facts, Missing, one_line
from console.probe.facts_host import gather_basics, gather_gpu
from console.probe.facts_limits import gather_limits
from console.probe.facts_looks import Looker

if TYPE_CHECKING:
    from typing import Any

MARK = "nightdeck-facts-1 "


def gather_disks(facts: Facts) -> None:
    looks = [(path, facts.looker.ask("free", os.path.expanduser(path))) for path in facts.paths]
    for path, look in looks:
        free(facts, path, look)


GATHERERS = (
    (gather_basics, ("user", "uid", "home", "hostname", "kernel", "architecture", "boot_id", "uptime_s",
                     "mem_total_bytes", "mem_available_bytes", "control_address", "infiniband", "listening_ports")),
    (gather_container, ("container_cli", "container_version", "container_runtimes", "storage_driver",
                        "nvidia_runtime")),
    (gather_images, ("image_ids",)),
    (gather_gpu, ("gpu_names", "gpu_driver")),
    (gather_interfaces, ("interfaces",)),
    (gather_hcas, ("hcas",)),
    (gather_limits, ("nofile_limit", "memlock_unlimited")),
    (gather_disks, ("disk_free_bytes",)),
)  # fmt: skip


def main(argv: list[str] | None = None, more: tuple[Any, ...] = ()) -> None:
    """more: further gatherers with the names of their facts."""
    began = time.time()
    looker = Looker()  # before any thread: it forks
    argv = sys.argv if argv is None else argv
    facts = Facts(json.loads(argv[1]) if len(argv) > 1 else {}, looker)
    only = set(facts.request.get("only") or ())
    gatherers = [(g, names) for g, names in GATHERERS + more if not only or only.intersection(names)]
    done: queue.Queue[object] = queue.Queue()

    def work(gather: Callable[[Facts], None], names: Iterable[str]) -> None:
        try:
            gather(facts)
            facts.lack(names, "the node does not say")
        except Missing as error:
            facts.lack(names, str(error))
        except Exception as error:  # noqa: BLE001  one gatherer's surprise must not cost the other facts
            facts.lack(names, f"{type(error).__name__}: {one_line(str(error))}")
        done.put(gather)

    for gather, names in gatherers:
        threading.Thread(target=work, args=(gather, names), daemon=True).start()
    end = time.monotonic() + 2 * facts.limit_s + 1
    for _ in gatherers:
        try:
            done.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
    for _, names in gatherers:
        facts.lack(names, "no answer in %g s" % (2 * facts.limit_s + 1))
    with facts.lock:
        report = {"facts": facts.values, "missing": facts.missing, "began": began, "ended": time.time()}
        text = MARK + json.dumps(report) + "\n"
    sys.stdout.write(text)
    sys.stdout.flush()
    os._exit(0)  # threads that hang must not hold the answer back
