"""The facts program run as on a node, over made /proc and /sys trees and container commands of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from console.base.absent import Absent
from console.cluster.facts import Hca, NodeFacts
from console.cluster.facts_parse import parse_facts
from console.probe import facts_program

# The engine of the machine that runs the tests is not asked: the command line stands for it.
NO_SOCKET = {"DOCKER_HOST": "tcp://127.0.0.1:1"}
SPARK = "0000:0000:0000:0000:0000:ffff:0a00:0001"
INFO = {"ServerVersion": "28.3.3", "Driver": "overlay2", "Runtimes": {"nvidia": {}, "runc": {}}, "DockerRootDir": "/"}


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def stub(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def run(request: dict[str, Any], *, commands: Path | None = None, **env: str) -> NodeFacts:
    path = f"{commands}:{os.environ['PATH']}" if commands else os.environ["PATH"]
    sent = time.time()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-", json.dumps(request)],
        input=facts_program(),
        stdout=subprocess.PIPE,
        env={**os.environ, **NO_SOCKET, "PATH": path, **env},
        check=True,
    )
    received = time.time()
    facts = parse_facts(b"motd from a login shell\n" + done.stdout, "n1", received, sent, received)
    assert isinstance(facts, NodeFacts)
    return facts


@pytest.fixture
def spark(tmp_path: Path) -> dict[str, str]:
    """A DGX Spark's ConnectX port in its two PCIe domains: one with an address, the twin without."""
    ib = "class/infiniband"
    files = {
        f"{ib}/rocep1s0f0/ports/1/state": "4: ACTIVE\n",
        f"{ib}/rocep1s0f0/ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
        f"{ib}/rocep1s0f0/ports/1/gid_attrs/types/1": "RoCE v2\n",
        f"{ib}/rocep1s0f0/ports/1/gid_attrs/types/2": "IB/RoCE v1\n",
        f"{ib}/rocep1s0f0/ports/1/gid_attrs/types/3": "RoCE v2\n",
        f"{ib}/rocep1s0f0/ports/1/gid_attrs/ndevs/0": "enp1s0f0np0\n",
        f"{ib}/rocep1s0f0/ports/1/gids/0": "fe80:0000:0000:0000:0000:0000:0000:0001\n",
        f"{ib}/rocep1s0f0/ports/1/gids/1": "fe80:0000:0000:0000:0000:0000:0000:0001\n",
        f"{ib}/rocep1s0f0/ports/1/gids/2": f"{SPARK}\n",
        f"{ib}/rocep1s0f0/ports/1/gids/3": f"{SPARK}\n",
        f"{ib}/rocep1s0f1/ports/1/state": "1: DOWN\n",
        f"{ib}/rocep1s0f1/device/net/enp1s0f1np1/mtu": "1500\n",
        f"{ib}/roceP2p1s0f0/ports/1/state": "4: ACTIVE\n",
        f"{ib}/roceP2p1s0f0/ports/1/gid_attrs/types/1": "RoCE v2\n",
        f"{ib}/roceP2p1s0f0/ports/1/gid_attrs/ndevs/0": "enP2p1s0f0np0\n",
        f"{ib}/roceP2p1s0f0/ports/1/gids/1": "fe80:0000:0000:0000:0000:0000:0000:0002\n",
        "class/net/enp1s0f0np0/speed": "200000\n",
        "class/net/enp1s0f0np0/mtu": "9000\n",
        "class/net/enp1s0f0np0/operstate": "up\n",
        "class/net/eno1/speed": "-1\n",
        "class/net/eno1/operstate": "down\n",
    }
    return {"HOST_SYS": str(put(tmp_path / "sys", files))}


def test_rdma_ports_and_interfaces_of_a_spark(spark: dict[str, str], tmp_path: Path) -> None:
    stub(tmp_path / "bin", "ip", "exit 1")  # as where `ip` knows no -j: sysfs answers
    facts = run({"cli": "docker"}, commands=tmp_path / "bin", **spark)
    no_gid = Absent("no RoCE v2 GID with an IPv4 address")
    assert facts.hcas == (
        Hca("roceP2p1s0f0:1", "enP2p1s0f0np0", "ACTIVE", no_gid),
        Hca("rocep1s0f0:1", "enp1s0f0np0", "ACTIVE", 3),
        Hca("rocep1s0f1:1", "enp1s0f1np1", "DOWN", no_gid),
    )
    assert not isinstance(facts.interfaces, Absent)
    by_name = {i.name: i for i in facts.interfaces}
    assert (by_name["enp1s0f0np0"].speed_mbit, by_name["enp1s0f0np0"].mtu, by_name["enp1s0f0np0"].up) == (
        200_000,
        9000,
        True,
    )
    assert isinstance(by_name["eno1"].speed_mbit, Absent) and not by_name["eno1"].up


def test_proc_of_the_host(tmp_path: Path) -> None:
    proc = put(
        tmp_path / "proc",
        {
            "meminfo": "MemTotal:       127535244 kB\nMemFree: 1 kB\nMemAvailable:   120000000 kB\n",
            "uptime": "12345.67 99999.00\n",
            "sys/kernel/random/boot_id": "0b9c1a52-6f83-4d4f-93ac-0123456789ab\n",
            "sys/fs/nr_open": "1048576\n",
            "net/tcp": "  sl\n   0: 00000000:0016 00000000:0000 0A 0\n   1: 0100007F:1F40 0100007F:9999 01 0\n",
            "net/tcp6": "  sl\n   0: 00000000000000000000000000000000:1F90 0:0 0A 0\n",
        },
    )
    facts = run({}, HOST_PROC=str(proc), SSH_CONNECTION="10.0.0.9 5000 10.0.0.1 22")
    assert facts.mem_total_bytes == 127535244 * 1024
    assert facts.mem_available_bytes == 120000000 * 1024
    assert facts.uptime_s == 12345.67
    assert facts.boot_id == "0b9c1a52-6f83-4d4f-93ac-0123456789ab"
    assert facts.listening_ports == frozenset({22, 8080})
    assert facts.control_address == "10.0.0.1"
    assert facts.uid == os.getuid()
    assert isinstance(facts.clock_offset_s, float) and abs(facts.clock_offset_s) < 5


def test_container_engine_and_gpu(tmp_path: Path) -> None:
    commands = tmp_path / "bin"
    id_ = "sha256:" + "ab" * 32
    stub(
        commands,
        "docker",
        f"""case "$1 $2" in
"info --format") echo '{json.dumps(INFO)}';;
"image inspect") if [ "$4" = vllm-node:local ]; then echo '[{{"Id": "{id_}"}}]'
else echo "Error: No such image: $4" >&2; exit 1; fi;;
esac""",
    )
    stub(commands, "nvidia-smi", "echo 'NVIDIA GB10, 580.95.05'")
    facts = run(
        {"cli": "docker", "images": ["vllm-node:local", "gone:1"], "paths": ["/no/such/folder"]}, commands=commands
    )
    assert (facts.container_cli, facts.container_version, facts.storage_driver) == ("docker", "28.3.3", "overlay2")
    assert facts.container_runtimes == ("nvidia", "runc")
    assert facts.nvidia_runtime is True
    assert facts.image_ids == {"vllm-node:local": id_}
    assert (facts.gpu_names, facts.gpu_driver) == (("NVIDIA GB10",), "580.95.05")
    assert not isinstance(facts.disk_free_bytes, Absent)
    assert set(facts.disk_free_bytes) == {"/", "/no/such/folder"}


def test_podman_says_it_elsewhere(tmp_path: Path) -> None:
    info = {
        "host": {"ociRuntime": {"name": "crun"}},
        "store": {"graphDriverName": "overlay", "graphRoot": "/"},
        "version": {"Version": "5.4.0"},
    }
    stub(tmp_path / "bin", "podman", f"""echo '{json.dumps(info)}'""")
    facts = run({"cli": "podman"}, commands=tmp_path / "bin")
    assert (facts.container_version, facts.storage_driver, facts.container_runtimes) == ("5.4.0", "overlay", ("crun",))


def test_a_dead_daemon_is_an_answer_and_costs_no_other_fact(tmp_path: Path) -> None:
    commands = tmp_path / "bin"
    stub(commands, "docker", "exec sleep 600")
    stub(commands, "nvidia-smi", "echo 'NVIDIA GB10, [N/A]'")
    began = time.monotonic()
    facts = run({"cli": "docker", "images": ["x"], "limit_s": 0.5}, commands=commands)
    assert time.monotonic() - began < 5
    assert facts.container_cli == "docker"
    for silent in (facts.container_version, facts.image_ids):  # what else keeps this machine busy may stand behind it
        assert isinstance(silent, Absent) and silent.reason.startswith("docker gave no answer in 0.5 s")
    assert facts.gpu_names == ("NVIDIA GB10",)
    assert facts.gpu_driver == Absent("nvidia-smi says [N/A]")


def test_a_refused_socket_keeps_its_words(tmp_path: Path) -> None:
    words = "permission denied while trying to connect to the Docker daemon socket"
    stub(tmp_path / "bin", "docker", f"echo '{words}' >&2; exit 1")
    facts = run({"cli": "docker", "images": ["x"]}, commands=tmp_path / "bin")
    assert isinstance(facts.container_version, Absent) and words in facts.container_version.reason
    assert isinstance(facts.image_ids, Absent) and words in facts.image_ids.reason


def test_a_command_that_is_not_there() -> None:
    assert run({"cli": "no-such-engine"}).container_cli == Absent("no-such-engine is not installed")


def test_reference_text_is_no_option_and_no_code(tmp_path: Path) -> None:
    stub(tmp_path / "bin", "docker", 'printf "%s|" "$@" >> "$0.log"; exit 1')
    run({"cli": "docker", "images": ["--help; touch /tmp/x"]}, commands=tmp_path / "bin")
    assert "image|inspect|--|--help; touch /tmp/x|" in (tmp_path / "bin" / "docker.log").read_text()
