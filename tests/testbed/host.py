"""One host of the bed: what runs on it, and what can be done to it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.testbed import processes
from tests.testbed.net import BedError, Link, run
from tests.testbed.unixhttp import request

HERE = Path(__file__).parent
HF_CACHE = "/srv/hf-cache"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SSHD_CONFIG = """Port 22
HostKey /etc/ssh/hk
AuthorizedKeysFile /etc/ssh/ak
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PrintMotd no
PrintLastLog no
UseDNS no
MaxSessions {sessions}
MaxStartups 100:30:200
SetEnv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
Subsystem sftp internal-sftp
"""
DOCKERD = """#!/bin/bash
exec setsid dockerd --iptables=false --ip6tables=false --bridge=none --ip-forward=false \
  --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent=/{cgroup} --log-level warn --shutdown-timeout 2
"""


@dataclass(frozen=True, slots=True)
class Options:
    """What every host of a bed gets. mem and disk as the kernel writes sizes ("2500M", "512m").

    docker: a container engine of its own. gpu: stub nvidia-smi and container hook. infiniband: two RoCE ports to
    look at and /dev/infiniband. binds: (folder of this machine, where the host
    sees it, read-only).
    max_sessions: channels per SSH connection. nofile: hard limit of open files for all that runs on the host.
    """

    docker: bool = True
    gpu: bool = True
    infiniband: bool = False
    mem: str | None = None
    disk: str = "512m"
    binds: tuple[tuple[Path, Path], ...] = ()
    max_sessions: int = 64
    nofile: int | None = None


@dataclass(slots=True)
class Host:
    """One host. `index` counts from 1; `name` is its ssh alias; `init` is its first process, seen from here."""

    index: int
    name: str
    folder: Path
    link: Link
    options: Options
    token: str
    init: int = 0
    outer: int = 0
    outer_start: int = 0
    _filled: list[str] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return self.link.address

    @property
    def cgroup(self) -> str:
        return f"nd{self.token}s{self.index}"

    @property
    def root(self) -> Path:
        """The host's file system as seen from this machine, while the host is on."""
        return Path(f"/proc/{self.init}/root")

    @property
    def hf_cache(self) -> Path:
        """The host's model cache, as seen from this machine."""
        return self.root / HF_CACHE.lstrip("/")

    @property
    def on(self) -> bool:
        return self.outer != 0 and processes.alive(self.outer, self.outer_start)

    # ---- power

    def prepare(self, *, authorized: str, hosts: str) -> None:
        """Write what the host's first process reads. Keeps the host key of an earlier power-on."""
        for part in ("rw", "root", "docker", "files/usr/bin", "files/usr/sbin"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        if not (self.folder / "hk").exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(self.folder / "hk"))
        (self.folder / "ak").write_text(authorized)
        (self.folder / "hosts").write_text(hosts)
        (self.folder / "binds").write_text("".join(f"{here}\t{there}\n" for here, there in self.options.binds))
        (self.folder / "sshd_config").write_text(SSHD_CONFIG.format(sessions=self.options.max_sessions))
        if self.options.docker:
            self._program("usr/sbin/start-dockerd", DOCKERD.format(cgroup=self.cgroup))
        if self.options.gpu:
            self._program("usr/bin/nvidia-smi", (HERE / "stub" / "nvidia-smi").read_text())
            self._program("usr/bin/nvidia-container-runtime-hook", "#!/bin/sh\nexit 0\n")

    def _program(self, path: str, text: str) -> None:
        target = self.folder / "files" / path
        target.write_text(text)
        target.chmod(0o755)

    def power_on(self) -> None:
        """Start the host; returns at once (see `wait_ssh`, `wait_docker`)."""
        env = {
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "HOST": self.name,
            "ADDRESS": self.address,
            "HOME_DIR": str(self.folder),
            "DISK": self.options.disk,
            "INFINIBAND": "1" if self.options.infiniband else "",
            "CGROUP_MEMORY": self._memory_group(),
        }
        argv = ["nsenter", f"--net=/run/netns/{self.link.netns}"]
        if self.options.nofile:
            argv += ["prlimit", f"--nofile={self.options.nofile}:{self.options.nofile}"]
        argv += [
            "unshare",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
            "bash",
            str(HERE / "boot.sh"),
        ]
        with (self.folder / "boot.log").open("ab") as log:
            self._process = subprocess.Popen(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )
        self.outer = self._process.pid
        self.outer_start = processes.started(self.outer) or 0
        processes.until(lambda: bool(processes.children(self.outer)), 5, f"{self.name}: first process")
        self.init = processes.children(self.outer)[0]

    def _memory_group(self) -> str:
        if not self.options.mem:
            return ""
        group = Path("/sys/fs/cgroup/memory") / self.cgroup
        if not group.parent.is_dir():
            raise BedError("a memory limit needs cgroup v1's memory controller at /sys/fs/cgroup/memory")
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(self.options.mem)
        return str(group)

    def power_off(self) -> None:
        """Kill everything on the host at once, as a pulled plug does."""
        processes.end(self.outer, self.outer_start)
        processes.until(lambda: processes.started(self.init) is None, 10, f"{self.name}: power off")
        if self._process:
            self._process.wait(10)

    def clean(self) -> None:
        """Take away what a host leaves in the kernel: link, namespace, control groups."""
        self.link.down()
        for group in sorted(Path("/sys/fs/cgroup").glob(f"*/{self.cgroup}"), reverse=True):
            for folder, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    continue
        shutil.rmtree(self.folder / "docker", ignore_errors=True)

    # ---- waiting

    def wait_ssh(self, seconds: float = 10) -> None:
        """Until sshd listens."""
        processes.until(self._listens, seconds, f"{self.name}: sshd ({self.folder / 'boot.log'})")

    def _listens(self) -> bool:
        if not self.on:
            raise BedError(f"{self.name} died while booting: {(self.folder / 'boot.log').read_text()[-600:]}")
        table = Path(f"/proc/{self.init}/net/tcp")
        return any(
            line.split()[1].endswith(":0016") and line.split()[3] == "0A" for line in table.open() if ":" in line
        )

    def wait_docker(self, seconds: float = 30) -> None:
        """Until the container engine answers a ping."""
        processes.until(self._pings, seconds, f"{self.name}: dockerd ({self.folder / 'dockerd.log'})")

    def _pings(self) -> bool:
        try:
            return self.docker_api("GET", "/_ping")[0] == 200
        except OSError:
            return False

    # ---- work

    def exec(
        self, *argv: str, check: bool = True, text: str | None = None, seconds: float = 60, user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the host, without SSH. BedError names the command when `check` and it fails."""
        command = []
        if self.options.mem:  # as all that runs on the host, this counts against its memory
            join = f'echo $$ >/sys/fs/cgroup/memory/{self.cgroup}/cgroup.procs; exec "$@"'
            command = ["sh", "-c", join, "sh"]
        command += ["nsenter", "-t", str(self.init), "-m", "-n", "-u", "-i", "-p", "-r", "-w"]
        command += ["env", "-i", f"PATH={PATH}", "HOME=/root", "LANG=C.UTF-8"]
        if user:
            command += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        done = subprocess.run(
            [*command, *argv], input=text or "", capture_output=True, text=True, timeout=seconds, check=False
        )
        if check and done.returncode != 0:
            raise BedError(f"{self.name}: {shlex.join(argv)}: rc {done.returncode}: {done.stderr.strip()[-600:]}")
        return done

    def docker(self, *argv: str, check: bool = True, seconds: float = 60) -> subprocess.CompletedProcess[str]:
        """Run the container command line on the host."""
        return self.exec("docker", *argv, check=check, seconds=seconds)

    def docker_api(self, method: str, path: str, body: bytes | Path = b"", seconds: float = 60) -> tuple[int, bytes]:
        """Ask the host's container engine through its socket, from here."""
        kind = "application/x-tar" if isinstance(body, Path) else "application/json"
        return request(self.root / "run/docker.sock", method, path, body, content_type=kind, seconds=seconds)

    def load_image(self, archive: Path) -> None:
        """Load an image archive (as `docker load`)."""
        status, answer = self.docker_api("POST", "/images/load?quiet=1", archive)
        if status != 200 or b"errorDetail" in answer:
            raise BedError(f"{self.name}: image load: {status} {answer[-400:].decode(errors='replace')}")

    def containers(self) -> list[str]:
        """Names of all containers, running or not."""
        return self.docker("ps", "-a", "--format", "{{.Names}}").stdout.split()

    def stub(self, **settings: Any) -> None:
        """Tell the stub engines of this host how to behave (STUB_ is added; see stub/engine.c); none: as usual."""
        lines = [f"STUB_{key}={value}\n" for key, value in settings.items()]
        target = self.hf_cache / "stub.env"
        fresh = self.hf_cache / ".stub.env.new"
        fresh.write_text("".join(lines))
        fresh.rename(target)

    def put_model(self, hub_id: str, files: Mapping[str, bytes] | None = None) -> str:
        """Give the host a model in its hub cache, and return the snapshot's path on the host."""
        revision = "5f0a1c3e9b7d2468ace013579bdf02468ace0135"
        folder = f"hub/models--{hub_id.replace('/', '--')}"
        snapshot = self.hf_cache / folder / "snapshots" / revision
        snapshot.mkdir(parents=True, exist_ok=True)
        (self.hf_cache / folder / "refs").mkdir(exist_ok=True)
        (self.hf_cache / folder / "refs" / "main").write_text(revision)
        shard = "model-00001-of-00001.safetensors"
        content = files or {
            "config.json": b'{"architectures": ["DeepseekV41ForCausalLM"], "num_attention_heads": 64}\n',
            "model.safetensors.index.json": b'{"metadata": {"total_size": 8}, "weight_map": {"w": "%s"}}\n'
            % shard.encode(),
            shard: b"\x02\x00\x00\x00\x00\x00\x00\x00{}",
        }
        for name, data in content.items():
            (snapshot / name).write_bytes(data)
        return f"{HF_CACHE}/{folder}/snapshots/{revision}"

    # ---- faults

    def pids(self, name: str) -> list[int]:
        """Processes of the host with this short name, as pids of this machine."""
        return [pid for pid in [self.init, *processes.descendants(self.init)] if processes.command(pid) == name]

    def signal(self, name: str, signum: int) -> int:
        """Signal all processes of that name; how many there were."""
        pids = self.pids(name)
        for pid in pids:
            os.kill(pid, signum)
        return len(pids)

    def cut(self) -> None:
        self.link.cut()

    def loss(self, percent: int) -> None:
        self.link.loss(percent)

    def rate(self, kbit: int | None) -> None:
        self.link.rate(kbit)

    def heal(self) -> None:
        """End cut, loss and rate."""
        self.link.heal()
        self.link.loss(0)
        self.link.rate(None)

    def stop_sshd(self, *, sessions: bool = False) -> None:
        """Freeze sshd: new logins hang after the connect; with `sessions` those that are open hang too."""
        pids = self.pids("sshd")
        for pid in pids if sessions else pids[:1]:
            os.kill(pid, signal.SIGSTOP)

    def continue_sshd(self) -> None:
        for pid in self.pids("sshd"):
            os.kill(pid, signal.SIGCONT)

    def freeze(self) -> None:
        """Stop every process: the kernel still answers, nothing else does (a machine that thrashes)."""
        for pid in processes.descendants(self.init):
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in processes.descendants(self.init):
            os.kill(pid, signal.SIGCONT)

    def kill_docker(self) -> None:
        """Kill the container engine alone: containers live on under their shims."""
        for name in ("dockerd", "containerd"):
            self.signal(name, signal.SIGKILL)
        processes.until(lambda: not self.pids("dockerd"), 5, f"{self.name}: dockerd gone")

    def start_docker(self) -> None:
        """Start the container engine (again) and wait for it."""
        self.exec(
            "sh",
            "-c",
            "rm -f /run/docker.pid /run/docker/containerd/*.pid; "
            "/usr/sbin/start-dockerd >>/var/log/dockerd.log 2>&1 </dev/null &",
        )
        self.wait_docker()

    def swap_host_key(self) -> None:
        """The host answers with another host key from now on, as after a re-install."""
        for part in ("hk", "hk.pub"):
            (self.folder / part).unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "swapped", "-f", str(self.folder / "hk"))
        self.install_host_key(self.folder / "hk")

    def install_host_key(self, key: Path) -> None:
        """Make sshd use this key (and its .pub) from now on."""
        self.exec("sh", "-c", "cat >/etc/ssh/hk", text=key.read_text())
        self.exec("sh", "-c", "cat >/etc/ssh/hk.pub", text=Path(f"{key}.pub").read_text())
        os.kill(self.pids("sshd")[0], signal.SIGHUP)
        self.wait_ssh()

    def fill(self, path: str, size: str = "4m", *, free: int = 0) -> None:
        """Put a small file system over `path` and fill it but for `free` bytes (rounded to 4 KiB)."""
        self.exec("mkdir", "-p", path)
        self.exec("mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "full", path)
        self._filled.append(path)
        where = f"{path}/.filler"
        self.exec("dd", "if=/dev/zero", f"of={where}", "bs=64k", check=False)
        if free:
            size_now = int(self.exec("stat", "-c", "%s", where).stdout)
            self.exec("truncate", "-s", str(max(0, size_now - free)), where)

    def unfill(self, path: str) -> None:
        self.exec("umount", "-l", path)
        self._filled.remove(path)

    def calm(self) -> None:
        """End every fault that can be ended, between two tests; the power is not one of them."""
        self.heal()
        self.thaw()
        self.continue_sshd()
        for path in list(self._filled):
            self.unfill(path)
        self.stub()
        if self.options.docker:
            if not self.pids("dockerd"):
                self.start_docker()
            if names := self.containers():
                self.docker("rm", "-f", *names)
