"""The whole road on a real podman of this machine: its words, its formats and its manners are not docker's."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.testbed import image
from tests.testbed.net import BedError

ROOT = Path(__file__).parents[2]
RECIPE = """\
engine = "vllm"
name = "Stub on podman"
docker_image = "{image}"
model = "org/model"
required_nodes = 1
tensor_parallel_size = 1
gpus = "none"
shm_size = "1gb"
port = {port}
ready_timeout_s = 120
args = ["--served-model-name", "stub"]

[env]
STUB_ALONE = "1"

[smoke]
judge = "off"
"""
CLUSTER = """\
name = "here"
container_cli = "podman"
api_host = "127.0.0.1"

[[nodes]]
host = "local"
fabric_address = "127.0.0.1"
"""


# Other tests may run engines on this machine at the same time.
OVERRIDE = ("--override", "engine-running", "--override", "gpu-held")


@dataclass(frozen=True, slots=True)
class Podman:
    """podman with a store of its own, and `nightdeck` on this machine with it."""

    folder: Path
    env: dict[str, str]

    def __call__(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(
            [self.folder / "bin" / "podman", *argv],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 or not check, f"podman {argv}: {done.stderr}"
        return done.stdout

    def nightdeck(self, *argv: str) -> tuple[int, Any, str]:
        """Exit code, the last JSON object, what was said beside it."""
        words = ["--cluster", str(self.folder / "cluster.toml"), "--recipes", str(self.folder / "recipes"), "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "console", *words, *argv],
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        text = done.stdout.strip()
        try:
            return done.returncode, json.loads(text), done.stderr
        except ValueError:
            return done.returncode, json.loads(text.splitlines()[-1]) if text else None, done.stderr


def settings(folder: Path, runtime: str) -> None:
    """A store that no other podman knows; nothing of systemd, which a container or a test machine may lack."""
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    (folder / "containers.conf").write_text(
        f'[engine]\nruntime = "{runtime}"\nevents_logger = "file"\ncgroup_manager = "cgroupfs"\n'
        f'tmp_dir = "{folder}/tmp"\n[containers]\nlog_driver = "k8s-file"\n'
    )
    # podman wants more processes for a container than root of a small machine may have: what is enough is asked for.
    ask = "--ulimit nproc=1000:1000"
    shim = folder / "bin" / "podman"
    shim.parent.mkdir(exist_ok=True)
    shim.write_text(f'#!/bin/sh\nif [ "$1" = run ]; then shift; set -- run {ask} "$@"; fi\nexec {PODMAN} "$@"\n')
    shim.chmod(0o755)


PODMAN = shutil.which("podman")
pytestmark = [
    pytest.mark.skipif(PODMAN is None, reason="no podman on this machine"),
    pytest.mark.slow,
    pytest.mark.timeout(400),
]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    folder = tmp_path_factory.mktemp("podman")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NIGHTDECK_", "XDG_", "CONTAINER", "DOCKER"))}
    env |= {"HOME": str(folder), "PATH": f"{folder}/bin:{env.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
    env |= {"NIGHTDECK_STATE_DIR": f"{folder}/state", "NIGHTDECK_CONFIG_DIR": f"{folder}/config"}
    env |= {"CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf", "CONTAINERS_CONF": f"{folder}/containers.conf"}
    pod = Podman(folder, env)
    try:
        archive = image.archive()
    except BedError as reason:
        pytest.skip(f"no stub image: {reason}")
    said = "no runtime"
    try:
        for runtime in ("crun", "runc"):
            settings(folder, runtime)
            pod("load", "-i", str(archive.path), check=False)
            trial = ["run", "--rm", "--pull", "never", "--init", "--network", "host", "--entrypoint", "/bin/sh"]
            done = subprocess.run(
                [folder / "bin" / "podman", *trial, "--ulimit", f"nofile={nofile()}", image.REFERENCE, "-c", "true"],
                env=env, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                break
            said = done.stderr.strip()
        else:
            pytest.skip(f"podman can start no container here: {said[-200:]}")
        yield pod
    finally:
        pod("rm", "-fa", check=False)


def nofile() -> str:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return f"{most}:{most}"


@pytest.fixture
def recipe(podman: Podman) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    home = podman.folder / "recipes" / "stub"
    home.mkdir(parents=True, exist_ok=True)
    (home / "recipe.toml").write_text(RECIPE.format(image=image.REFERENCE, port=port))
    (podman.folder / "cluster.toml").write_text(CLUSTER)
    yield "stub"
    podman("rm", "-fa", check=False)


def codes(report: Any) -> dict[str, str]:
    return {f["code"]: f["severity"] for f in report["findings"]}


def test_from_launch_to_nothing_left(podman: Podman, recipe: str) -> None:
    code, said, err = podman.nightdeck("launch", recipe, *OVERRIDE)
    assert code == 0, f"{said} {err}"
    (boot,) = said["deployments"]
    assert boot["state"] == "ready" and boot["ranks"][0]["state"] == "running"
    name = boot["ranks"][0]["container"]
    (found,) = json.loads(podman("inspect", name))
    assert found["Config"]["Labels"]["nightdeck.rank"] == "0"
    assert Path(f"/proc/{found['State']['Pid']}/ns/ipc").readlink() == Path("/proc/self/ns/ipc").readlink()

    code, said, err = podman.nightdeck("launch", recipe, *OVERRIDE)
    assert code == 1 and "still lives" in err, "an earlier deployment is seen"

    # What ended keeps its log, is told as ended, and stands in nobody's way.
    podman("stop", "-t", "5", name)
    code, said, err = podman.nightdeck("preflight", recipe)
    assert "leftover-container" not in codes(said) and "facts-missing" not in codes(said), said
    code, said, err = podman.nightdeck("status")
    assert said["deployments"][0]["ranks"][0]["state"] == "exited", err
    assert said["deployments"][0]["ranks"][0]["lines"] > 3

    code, said, err = podman.nightdeck("stop")
    assert (code, said["result"]) == (0, "stopped"), err
    assert podman("ps", "-aq") == ""
    assert podman.nightdeck("stop")[1]["result"] == "nothing"


def test_facts_are_read_in_podmans_own_words(podman: Podman, recipe: str) -> None:
    code, said, err = podman.nightdeck("preflight", recipe)
    found = codes(said)
    assert code in (0, 1) and said["verdict"], err
    assert not {"unreachable", "image-missing", "container-version-differs"} & found.keys(), said["findings"]


def test_a_running_deployment_is_restarted(podman: Podman, recipe: str) -> None:
    code, first, err = podman.nightdeck("launch", recipe, "--detach", *OVERRIDE)
    assert code == 0, err
    code, second, err = podman.nightdeck("restart", "--detach", *OVERRIDE)
    assert code == 0, err
    assert second["deployments"][0]["boot"] != first["deployments"][0]["boot"]
    assert len(podman("ps", "-q").split()) == 1
    assert podman.nightdeck("stop")[1]["result"] == "stopped"
