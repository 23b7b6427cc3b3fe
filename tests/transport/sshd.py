"""A real OpenSSH sshd on a loopback port, as the current user, with a home of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SSHD = "/usr/sbin/sshd"
ABSENT = not (Path(SSHD).exists() and shutil.which("ssh-keygen"))
SKIP_REASON = f"{SSHD} or ssh-keygen is not installed"


def keygen(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", str(path)], check=True)
    return path


@dataclass
class Sshd:
    """`folder` holds everything: host keys, authorized_keys, the client's key, known_hosts and config."""

    folder: Path
    options: tuple[str, ...] = ()
    host_key_kinds: tuple[str, ...] = ("ed25519",)
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    host_keys: dict[str, Path] = field(default_factory=dict)

    @property
    def user(self) -> str:
        return getpass.getuser()

    @property
    def client_key(self) -> Path:
        return self.folder / "id_client"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def start(self) -> Sshd:
        self.folder.mkdir(parents=True, exist_ok=True)
        os.chmod(self.folder, 0o700)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd's own chroot; Debian makes it at boot
        for kind in self.host_key_kinds:
            self.host_keys[kind] = keygen(self.folder / f"host_{kind}", kind)
        keygen(self.client_key)
        shutil.copy(f"{self.client_key}.pub", self.folder / "authorized_keys")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            *(f"HostKey {path}" for path in self.host_keys.values()),
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            f"PidFile {self.folder}/pid",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "PermitRootLogin yes",
            "SetEnv SHLVL=5",  # bash then leaves the developer's .bashrc alone: it may print, or take its time
            *self.options,
        ]
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")
        self.process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")], stderr=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stderr is not None
        while line := self.process.stderr.readline():
            if b"Server listening" in line:
                break
        else:
            raise AssertionError(f"sshd did not start: {self.process.wait()}")
        self.known_hosts.write_text("".join(self.known_line(kind) for kind in self.host_keys))
        return self

    def known_line(self, kind: str = "ed25519", name: str | None = None) -> str:
        public = Path(f"{self.host_keys[kind]}.pub").read_text().split()
        return f"{name or f'[127.0.0.1]:{self.port}'} {public[0]} {public[1]}\n"

    def config(self, alias: str = "spark-1", *more: str, file: str = "ssh_config") -> Path:
        path = self.folder / file
        path.write_text(
            "\n".join(
                [
                    f"Host {alias}",
                    "  HostName 127.0.0.1",
                    f"  Port {self.port}",
                    f"  User {self.user}",
                    f"  IdentityFile {self.client_key}",
                    "  IdentitiesOnly yes",
                    f"  UserKnownHostsFile {self.known_hosts}",
                    "  GlobalKnownHostsFile none",
                    *(f"  {line}" for line in more),
                    "",
                ]
            )
        )
        return path

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()
            if self.process.stderr is not None:
                self.process.stderr.close()
