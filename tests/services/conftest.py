"""A small bed for tests of services, and a file server on it that can fall silent."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed import needs, processes
from tests.testbed.bed import Bed, BedUnavailable

NAS = "/srv/nas"


class Nas:
    """A file system in user space on this machine; its server can be made to fall silent."""

    def __init__(self, folder: Path, daemon: subprocess.Popen[bytes]) -> None:
        self.folder, self.daemon = folder, daemon

    def fall_silent(self) -> None:
        self.daemon.send_signal(signal.SIGSTOP)

    def answer(self) -> None:
        self.daemon.send_signal(signal.SIGCONT)


@pytest.fixture(scope="session")
def nas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nas | None]:
    tool = needs.tool("lxcfs")
    if tool is None or not Path("/dev/fuse").exists() or os.geteuid() != 0:
        yield None
        return
    folder = tmp_path_factory.mktemp("nas")
    argv = [tool, "-f", "-p", f"{folder}.pid", str(folder)]
    daemon = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        processes.until(lambda: (folder / "proc").exists(), 10, "lxcfs")
        yield Nas(folder, daemon)
    finally:
        daemon.send_signal(signal.SIGCONT)
        daemon.terminate()
        daemon.wait(10)
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


@pytest.fixture(scope="session")
def hosts(nas: Nas | None) -> Iterator[Bed]:
    """Four hosts of an ordinary user in the docker group, for all tests of this folder; each makes them calm first."""
    binds = () if nas is None else ((nas.folder, Path(NAS)),)
    try:
        bed = Bed.up(4, user="operator", binds=binds, load_image=False)
    except BedUnavailable as reason:
        pytest.skip(str(reason))
    with bed:
        yield bed
