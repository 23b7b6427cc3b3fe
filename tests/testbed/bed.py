"""The bed: N hosts brought up together, and taken down without a trace, also after a crash."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tests.testbed import image, processes
from tests.testbed.host import HF_CACHE, Host, Options
from tests.testbed.needs import missing
from tests.testbed.net import INTERFACE, BedError, Link, free_network, run

T = TypeVar("T")
REGISTRY = Path("/run/nightdeck-beds")
MODEL = "deepseek-ai/DeepSeek-V4.1-Flash"  # in every host's hub cache, a few bytes large


class BedUnavailable(BedError):
    """This machine cannot carry a bed; the text says why."""


class Bed:
    """`with Bed.up(8) as bed: bed[1].docker("ps")`. Hosts are counted from 1 and called spark1, spark2, ...

    folder: keys, ssh_config, known_hosts, logs. address: this machine's own address on the bed's network.
    """

    def __init__(self, folder: Path, token: str, hosts: list[Host], address: str, user: str) -> None:
        self.folder = folder
        self.token = token
        self.hosts = hosts
        self.address = address
        self.user = user
        self.image_id = ""
        self._finalizer = weakref.finalize(self, _take_down, token, hosts, folder)

    @classmethod
    def up(
        cls,
        n: int = 8,
        *,
        docker: bool = True,
        gpu: bool = True,
        infiniband: bool = False,
        mem: str | None = None,
        base: Path | None = None,
        binds: tuple[tuple[Path, Path], ...] = (),
        user: str = "root",
        max_sessions: int = 64,
        nofile: int | None = None,
        load_image: bool = True,
    ) -> Bed:
        """Bring up `n` hosts and wait until every sshd listens and every container engine has the stub image.

        BedUnavailable: the machine lacks something, and which. user: root, or "operator" (in the docker group).
        """
        if reason := missing(docker=docker):
            raise BedUnavailable(reason)
        options = Options(docker, gpu, infiniband, mem, binds=binds, max_sessions=max_sessions, nofile=nofile)
        token = secrets.token_hex(2)
        folder = Path(tempfile.mkdtemp(prefix=f"nightdeck-bed-{token}-", dir=base))
        bridge = f"nd{token}br"
        with _alone():
            clear_stale()
            network = free_network()
            hosts = [
                Host(i, f"spark{i}", folder / f"n{i}", Link(token, i, str(network[10 + i]), bridge), options, token)
                for i in range(1, n + 1)
            ]
            bed = cls(folder, token, hosts, str(network[1]), user)
            bed._record()
            run("ip", "link", "add", bridge, "type", "bridge")
            run("ip", "addr", "add", f"{bed.address}/24", "dev", bridge)
            run("ip", "link", "set", bridge, "up")
        try:
            bed._start(image.archive() if docker and load_image else None)
        except BaseException:
            bed.down()
            raise
        return bed

    def _start(self, archive: image.Archive | None) -> None:
        names = "127.0.0.1 localhost\n" + "".join(f"{h.address} {h.name}\n" for h in self.hosts)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bed", "-f", str(self.folder / "id"))
        authorized = (self.folder / "id.pub").read_text()
        for host in self.hosts:  # one after another: the kernel takes one lock for all of this anyway
            host.link.up()
        self.each(lambda host: host.prepare(authorized=authorized, hosts=names))
        self._write_ssh_config()
        self.each(lambda host: host.power_on())
        self._record()
        self.each(lambda host: host.wait_ssh())
        if self.hosts[0].options.docker:
            self.each(lambda host: host.wait_docker())
        if archive:
            self.each(lambda host: host.load_image(archive.path))
            self.image_id = archive.image_id
        self.each(lambda host: host.put_model(MODEL))

    def _write_ssh_config(self) -> None:
        known, config = "", ""
        for host in self.hosts:
            kind, key = (host.folder / "hk.pub").read_text().split()[:2]
            known += f"{host.address} {kind} {key}\n"
            config += f"""Host {host.name}
  HostName {host.address}
  User {self.user}
  IdentityFile {self.folder}/id
  IdentitiesOnly yes
  UserKnownHostsFile {self.folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  ConnectTimeout 5
"""
        (self.folder / "known_hosts").write_text(known)
        self.ssh_config.write_text(config)

    def _record(self) -> None:
        """Write down what was started, so that a later bed can end it if this process dies."""
        entry = {
            "owner": [os.getpid(), processes.started(os.getpid())],
            "folder": str(self.folder),
            "links": [[h.index, h.address, h.link.bridge] for h in self.hosts],
            "hosts": [[h.outer, h.outer_start, h.init] for h in self.hosts],
        }
        target = REGISTRY / f"{self.token}.json"
        fresh = target.with_suffix(".new")
        fresh.write_text(json.dumps(entry))
        fresh.rename(target)

    # ---- for those who use it

    def __getitem__(self, index: int) -> Host:
        """Host by its number, from 1."""
        if index < 1:
            raise IndexError("hosts are counted from 1")
        return self.hosts[index - 1]

    def __len__(self) -> int:
        return len(self.hosts)

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh_config"

    def ssh(self, index: int, *command: str) -> list[str]:
        """The argv that runs a command on a host through OpenSSH, without any of the developer's own settings."""
        return ["ssh", "-n", "-F", str(self.ssh_config), "-o", "BatchMode=yes", f"spark{index}", *command]

    def each(self, work: Callable[[Host], T]) -> list[T]:
        """Do the same on all hosts at once; the first error is raised after all have ended."""
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            return [job.result() for job in [pool.submit(work, host) for host in self.hosts]]

    def cluster_toml(self, path: Path | None = None, *, nodes: int | None = None, api_host: str = "0.0.0.0") -> Path:
        """Write a cluster file for the first `nodes` hosts (all by default) and return its path."""
        text = f"""name = "bed{self.token}"
user = "{self.user}"
ssh_config = "{self.ssh_config}"
container_cli = "docker"
fabric_interface = "{INTERFACE}"
hf_cache = "{HF_CACHE}"
api_host = "{api_host}"
"""
        for host in self.hosts[:nodes]:
            text += f'\n[[nodes]]\nhost = "{host.name}"\nfabric_address = "{host.address}"\n'
        target = path or self.folder / "cluster.toml"
        target.write_text(text)
        return target

    def kill(self, index: int) -> None:
        """Power off one host."""
        self[index].power_off()

    def power_on(self, index: int) -> None:
        """Power one host on again: an empty disk but for its images, the same host key and address."""
        host = self[index]
        shutil.rmtree(host.folder / "class", ignore_errors=True)
        host.power_on()
        self._record()
        host.wait_ssh()
        if host.options.docker:
            host.wait_docker()
        host.put_model(MODEL)

    def calm(self) -> None:
        """Back to the state of a fresh bed, between two tests: faults ended, containers gone, all hosts on."""
        for host in self.hosts:
            if not host.on:
                self.power_on(host.index)
        self.each(lambda host: host.calm())
        known = (self.folder / "known_hosts").read_text()
        for host in self.hosts:
            if (host.folder / "hk.pub").read_text().split()[1] not in known:
                self._write_ssh_config()

    def down(self) -> None:
        """End all that this bed started; twice does no harm."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.down()


@contextmanager
def _alone() -> Iterator[None]:
    """One at a time on this machine: two beds that come up together must not choose the same network."""
    REGISTRY.mkdir(mode=0o700, exist_ok=True)
    with (REGISTRY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _take_down(token: str, hosts: list[Host], folder: Path) -> None:
    for host in hosts:
        if host.outer:
            host.power_off()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda host: host.clean(), hosts))
    if hosts:
        run("ip", "link", "del", hosts[0].link.bridge, check=False)
    shutil.rmtree(folder, ignore_errors=True)
    (REGISTRY / f"{token}.json").unlink(missing_ok=True)


def clear_stale() -> list[str]:
    """End beds whose owner is gone, by the pids and start times that they wrote down; returns their tokens."""
    cleared = []
    for entry in REGISTRY.glob("*.json") if REGISTRY.is_dir() else ():
        try:
            said = json.loads(entry.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            continue  # another process is writing or removing it at this moment
        if processes.alive(*said["owner"]):
            continue
        token, folder = entry.stem, Path(said["folder"])
        hosts = []
        for (index, address, bridge), (outer, start, init) in zip(said["links"], said["hosts"], strict=True):
            link = Link(token, index, address, bridge)
            hosts.append(Host(index, f"spark{index}", folder / f"n{index}", link, Options(), token, init, outer, start))
        _take_down(token, hosts, folder)
        cleared.append(token)
    return cleared
