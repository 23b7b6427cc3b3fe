"""Ways in which a host falls silent without being gone: an sshd that says nothing, a mount that never answers."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.testbed import processes
from tests.testbed.host import Host

NAS = "/srv/nas"
# Takes every connection, sends nothing, and prints a line for each.
MUTE = r"""
import socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", 22))
s.listen(64)
print("up", flush=True)
kept = []
while True:
    kept.append(s.accept()[0])
    print("taken", flush=True)
"""
# A file system by FUSE's own protocol (linux/fuse.h) that mounts well and answers no statfs until told to.
HUNG = r"""
import ctypes, os, struct, sys
os.makedirs(sys.argv[1], exist_ok=True)
fd = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % fd
if libc.mount(b"nas:/models", sys.argv[1].encode(), b"fuse.sshfs", 0, options):
    sys.exit(os.strerror(ctypes.get_errno()))
print("up", flush=True)
waiting = []
while True:
    data = os.read(fd, 1 << 18)
    _, code, unique = struct.unpack_from("<IIQ", data)
    body = None
    if code == 26:  # FUSE_INIT
        _, minor, ahead, _ = struct.unpack_from("<IIII", data, 40)
        body = struct.pack("<IIIIHHIIHH8I", 7, min(minor, 31), ahead, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8)
    elif code == 17:  # FUSE_STATFS
        waiting.append(unique)
        print("asked", flush=True)
    if body is not None:
        os.write(fd, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
"""


def _inside(host: Host, program: str, *words: str) -> subprocess.Popen[str]:
    enter = ["nsenter", "-t", str(host.init), "-m", "-n", "-p", "-r", "-w", "python3", "-I", "-c", program, *words]
    started = subprocess.Popen(enter, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert started.stdout is not None
    if started.stdout.readline() != "up\n":
        started.kill()
        raise RuntimeError(f"{host.name}: the fault could not be made (exit {started.wait()})")
    return started


def _end(process: subprocess.Popen[str]) -> str:
    """End it with what nsenter started; what it printed."""
    for pid in [*processes.descendants(process.pid), process.pid]:
        os.kill(pid, signal.SIGKILL)
    return process.communicate(timeout=10)[0]


class Mute:
    """connections: how many were taken, known once it is over."""

    connections = -1


@contextmanager
def mute_sshd(host: Host) -> Iterator[Mute]:
    """Every SSH session ends; port 22 takes connections and says nothing. Afterwards sshd is there again."""
    for pid in host.pids("sshd"):
        os.kill(pid, signal.SIGKILL)
    processes.until(lambda: not host.pids("sshd"), 5, f"{host.name}: sshd gone")
    found = Mute()
    listener = _inside(host, MUTE)
    try:
        yield found
    finally:
        found.connections = _end(listener).count("taken")
        host.exec("/usr/sbin/sshd", "-f", "/etc/ssh/sshd_config")
        host.wait_ssh()


@contextmanager
def hung_mount(host: Host) -> Iterator[str]:
    """A network mount whose statfs never returns; its end makes the mount fail at once. Gives its path."""
    server = _inside(host, HUNG, NAS)
    try:
        yield NAS
    finally:
        _end(server)
        host.exec("umount", "-l", NAS)
