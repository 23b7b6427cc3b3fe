"""The launch's part of the facts program, run as on a node over made trees."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from console.base.absent import Absent
from console.cluster.facts import NodeFacts
from console.cluster.facts_parse import parse_facts
from console.cluster.launch_facts import LaunchFacts, ModelFact
from console.probe import launch_facts_program
from console.probe.launch_engines import state_of

MEMINFO = (
    "MemTotal: 100 kB\nMemAvailable: 50 kB\nBuffers: 5 kB\nCached: 30 kB\nShmem: 10 kB\n"
    "SwapTotal: 16 kB\nSwapFree: 9 kB\nCmaTotal: 8 kB\nCmaFree: 9 kB\n"
)
BOX = "b" * 64


def ask(request: dict[str, Any], **env: str) -> LaunchFacts:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-", json.dumps({"limit_s": 4.0, "mounts": [], "models": [], **request})],
        input=launch_facts_program(),
        stdout=subprocess.PIPE,
        env={**os.environ, "DOCKER_HOST": "tcp://127.0.0.1:1", **env},
        check=True,
    )
    facts = parse_facts(done.stdout, "n1", 1.0, 0.0, 1.0)
    assert isinstance(facts, NodeFacts) and isinstance(facts.launch, LaunchFacts)
    return facts.launch


def shard(path: Path, *, tensors: int = 100, cut: int = 0) -> None:
    head = json.dumps({"__metadata__": {}, "w": {"dtype": "U8", "shape": [tensors], "data_offsets": [0, tensors]}})
    data = struct.pack("<Q", len(head)) + head.encode() + bytes(tensors)
    path.write_bytes(data[: len(data) - cut])


def hub(folder: Path, shards: int = 3) -> Path:
    base = folder / "models--a--b"
    snapshot = base / "snapshots" / "r1"
    snapshot.mkdir(parents=True)
    (base / "refs").mkdir()
    (base / "refs" / "main").write_text("r1\n")
    names = [f"model-{i:05}-of-{shards:05}.safetensors" for i in range(1, shards + 1)]
    for name in names:
        shard(snapshot / name)
    index = {"weight_map": {f"w{i}": name for i, name in enumerate(names)}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    (snapshot / "config.json").write_text("{}")
    return base


def model(folder: Path, **more: Any) -> ModelFact:
    found = ask({"models": [{"name": "a/b", "folder": str(folder), "hub": True, "revision": "main", **more}]}).models
    assert not isinstance(found, Absent)
    return found[0]


def test_a_whole_model_and_the_size_of_its_tensors(tmp_path: Path) -> None:
    found = model(hub(tmp_path))
    assert (found.state, found.revision, found.files, found.tensor_bytes) == ("whole", "r1", 5, 300)
    assert not found.missing and not found.damaged


@pytest.mark.parametrize(
    ("cut", "part"), [(1, "is cut off: "), (100, "is cut off: "), (150, "in its header"), (190, "first bytes")]
)
def test_a_truncated_shard_is_named(tmp_path: Path, cut: int, part: str) -> None:
    base = hub(tmp_path)
    shard(base / "snapshots/r1/model-00002-of-00003.safetensors", cut=cut)
    found = model(base)
    assert found.state == "incomplete" and len(found.damaged) == 1 and isinstance(found.tensor_bytes, Absent)
    assert found.damaged[0].startswith("model-00002-of-00003.safetensors is cut off") and part in found.damaged[0]


def test_missing_shards_broken_links_and_no_snapshot(tmp_path: Path) -> None:
    base = hub(tmp_path)
    snapshot = base / "snapshots" / "r1"
    (snapshot / "model-00003-of-00003.safetensors").unlink()
    (snapshot / "model-00002-of-00003.safetensors").unlink()
    (snapshot / "model-00002-of-00003.safetensors").symlink_to("../../blobs/gone")
    found = model(base)
    assert found.state == "incomplete" and len(found.missing) == 2
    assert model(base, revision="other").state == "missing"
    assert model(tmp_path / "nothing").state == "missing"


def test_a_folder_without_weights_or_with_strange_files(tmp_path: Path) -> None:
    plain = {"hub": False}
    assert "*.safetensors" in model(tmp_path, **plain).missing
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    assert model(tmp_path, **plain).state == "whole"
    (tmp_path / "model.safetensors.index.json").write_text("{broken")
    assert model(tmp_path, **plain).state == "error"


def test_paths_of_every_kind_and_a_mount_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    paths = {"dir": tmp_path, "file": tmp_path / "file", "other": tmp_path / "pipe", "missing": tmp_path / "no" / "x"}
    found = ask({"mounts": [str(p) for p in paths.values()]}).mounts
    assert not isinstance(found, Absent)
    assert {kind: found[str(path)].kind for kind, path in paths.items()} == {k: k for k in paths}
    assert found[str(paths["missing"])].writable


def test_what_does_not_answer_is_hung_and_costs_no_other_fact(tmp_path: Path) -> None:
    """A shard that is a pipe nobody writes to stands for a mount whose server is gone: opening it never returns."""
    base = hub(tmp_path)
    one = base / "snapshots/r1/model-00001-of-00003.safetensors"
    one.unlink()
    os.mkfifo(one)
    request = {
        "limit_s": 3.0,  # the child that looks takes its time to start where all cores are busy
        "mounts": [str(tmp_path)],
        "models": [{"name": "a/b", "folder": str(base), "hub": True, "revision": "main"}],
    }
    facts = ask(request)
    assert not isinstance(facts.models, Absent) and facts.models[0].state == "hung"
    assert not isinstance(facts.mounts, Absent) and facts.mounts[str(tmp_path)].kind == "dir"


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def process(pid: int, line: str, *, box: str = "", comm: str = "", state: str = "S") -> dict[str, str]:
    fields = [state, "1", *["0"] * 17, "500000", "0", "10"]
    return {
        f"{pid}/comm": (comm or line.split("\0")[0].rsplit("/", 1)[-1])[:15] + "\n",
        f"{pid}/cmdline": line,
        f"{pid}/stat": f"{pid} (x y) {' '.join(fields)}\n",
        f"{pid}/cgroup": f"0::/system.slice/docker-{box}.scope\n" if box else "0::/user.slice\n",
    }


def test_the_host_of_a_made_tree(tmp_path: Path) -> None:
    engine = "python3\0/usr/local/bin/vllm\0serve\0org/model\0"
    proc = put(
        tmp_path / "proc",
        {
            "meminfo": MEMINFO,
            "uptime": "7000.0 1.0\n",
            **process(11, engine, box=BOX),
            **process(12, "VLLM::Worker_TP0"),
            **process(13, "docker\0run\0--entrypoint\0/x/vllm\0serve\0", comm="docker"),
            **process(14, "vllm\0serve\0z\0", state="Z"),
            **process(15, "/usr/bin/earlyoom\0-r\0"),
            **process(16, "nightdeck-probe\0", comm="python3"),
        },
    )
    root = put(tmp_path / "root", {"etc/systemd/logind.conf": "[Login]\n#RemoveIPC=no\n", "run/systemd/users/1000": ""})
    dev = put(tmp_path / "dev", {"shm/psm_abc": "x" * 5000, "shm/other": "x", "shm/sem.mp-1": "y"})
    env = {"HOST_PROC": str(proc), "HOST_ROOT": str(root), "HOST_DEV": str(dev), "SSH_CONNECTION": "a 1 b 2"}
    facts = ask({"user": "operator"}, **env)
    assert not isinstance(facts.engines, Absent)
    assert {(e.pid, e.container) for e in facts.engines} == {(11, BOX), (12, "")}
    assert facts.engines[0].age_s == 7000.0 - 500000 / os.sysconf("SC_CLK_TCK")
    assert facts.watchdogs == ("earlyoom",) and facts.consoles == 1
    assert (facts.remove_ipc, facts.linger) == (True, False)
    assert facts.cma_free_bytes == 9 * 1024 and facts.cma_total_bytes == 8 * 1024
    assert facts.page_cache_bytes == 25 * 1024 and facts.swap_total_bytes == 16 * 1024
    assert not isinstance(facts.shm_leftovers, Absent) and set(facts.shm_leftovers) == {"psm_abc", "sem.mp-1"}
    put(root, {"etc/systemd/logind.conf.d/9.conf": "RemoveIPC = no\n", "var/lib/systemd/linger/operator": ""})
    facts = ask({"user": "operator"}, **env)
    assert (facts.remove_ipc, facts.linger) == (False, True)


def test_containers_images_and_routes_of_stub_commands(tmp_path: Path) -> None:
    image = {"Id": "sha256:1", "RootFS": {"Layers": ["sha256:2"]}, "Size": 9, "Config": {"User": "app"}}
    commands = {
        "docker": f'case "$*" in "ps -a --no-trunc --format"*) printf "{BOX}\\tnd-x-b1-r0\\timg:1\\tUp 2 hours\\n";; '
        f'"ps -aq"*) echo {BOX};; *inspect*) echo \'{json.dumps([image])}\';; *) echo "{{}}";; esac',
        "ip": 'echo "$4 dev eth7 src 10.0.0.1 uid 0"',
        "ping": 'for a; do last=$a; done; [ "$last" = 10.0.0.2 ] && exit 0; '
        'case "$*" in *"-s 56"*) exit 0;; esac; exit 1',
        "nvidia-smi": 'case "$*" in *compute-apps*) echo "77, 512, python3";; *event_reasons*) exit 2;; '
        '*) echo "507, 14.2, 97, 0x0000000000000008";; esac',
    }
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    sys_ = put(tmp_path / "sys", {"class/net/eth7/mtu": "9000\n"})
    facts = ask(
        {"images": ["img:1"], "peers": ["10.0.0.2", "10.0.0.3", "$(reboot)"]},
        PATH=f"{folder}:{os.environ['PATH']}",
        HOST_SYS=str(sys_),
    )
    assert not isinstance(facts.containers, Absent) and facts.containers[0].ours and facts.containers[0].alive
    assert not isinstance(facts.images, Absent) and facts.images["img:1"].user == "app"
    assert facts.images["img:1"].layers == ("sha256:2",) and facts.images["img:1"].settings
    assert not isinstance(facts.gpu_clocks, Absent) and facts.gpu_clocks[0].reasons == 8
    assert not isinstance(facts.gpu_holders, Absent) and facts.gpu_holders[0].size_bytes == 512 << 20
    assert not isinstance(facts.routes, Absent)
    by = {r.peer: r for r in facts.routes}
    assert (by["10.0.0.2"].interface, by["10.0.0.2"].large) == ("eth7", True)
    assert (by["10.0.0.3"].small, by["10.0.0.3"].large) == (True, False)
    assert "not an IPv4 address" in by["$(reboot)"].why


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("Up 2 hours", "running"),
        ("Up 5 minutes (healthy)", "running"),
        ("Up 5 minutes (Paused)", "paused"),
        ("Exited (137) 3 days ago", "exited"),
        ("Created", "created"),
        ("Restarting (1) 2 seconds ago", "restarting"),
        ("Removal In Progress", "removing"),
        ("Running", "running"),
        ("", ""),
    ],
)
def test_the_engines_words_for_a_state(status: str, state: str) -> None:
    """podman before 5 gives these words under .State too; an ended container must not look alive."""
    assert state_of(status) == state


def test_odd_words_of_nvidia_smi_move_no_column_and_end_no_report(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text(
        '#!/bin/sh\ncase "$*" in *compute-apps*) echo "77, ², a"; echo "²7, 5, b"; echo "78, 5, c, d";;\n'
        '*clocks.sm*) echo "208, 41,20, 96, 0x0"; echo "nan, [N/A], -5, 0x_1"; echo "208, 9";;\n'
        '*) echo "NVIDIA GB10, 580.95";; esac\n'
    )
    (folder / "nvidia-smi").chmod(0o755)
    facts = ask({}, PATH=f"{folder}:{os.environ['PATH']}")
    assert not isinstance(facts.gpu_clocks, Absent) and not isinstance(facts.gpu_holders, Absent)
    first, second = facts.gpu_clocks
    assert (first.sm_mhz, first.util, first.reasons) == (208.0, 96.0, 0) and isinstance(first.power_w, Absent)
    assert all(isinstance(v, Absent) for v in (second.sm_mhz, second.power_w, second.util, second.reasons))
    assert [(h.pid, h.name, h.size_bytes) for h in facts.gpu_holders] == [
        (77, "a", Absent("nvidia-smi does not say")),
        (78, "c, d", 5 << 20),
    ]
