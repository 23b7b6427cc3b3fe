"""What the bed needs of this machine, as one sentence when something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def tool(name: str) -> str | None:
    """The path of a program, also where only root's PATH finds it."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN)))


@cache
def missing(*, docker: bool = True) -> str | None:
    """Why no bed can come up here, or None. Tries a network namespace for real, since containers often forbid it."""
    if os.name != "posix" or not Path("/proc/self/ns/net").exists():
        return "the bed needs Linux namespaces"
    if os.geteuid() != 0:
        return "the bed needs root (network and mount namespaces)"
    wanted = ["ip", "nsenter", "unshare", "sshd", "ssh", "ssh-keygen"]
    if docker:
        wanted += ["dockerd", "containerd", "docker"]
    if absent := [name for name in wanted if tool(name) is None]:
        return f"the bed needs {', '.join(absent)} (see .ci/run for the packages)"
    trial = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True, check=False
    )
    if trial.returncode != 0:
        return f"the bed needs namespaces, and unshare says: {trial.stderr.strip() or trial.returncode}"
    trial = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "t0", "type", "veth", "peer", "name", "t1"],
        capture_output=True,
        text=True,
        check=False,
    )
    if trial.returncode != 0:
        return f"the bed needs veth links, and ip says: {trial.stderr.strip()}"
    return None
