"""The bed keeps its word: hosts, the stub engine as seen from outside, faults, and no trace afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed import image, processes
from tests.testbed.bed import REGISTRY, Bed, clear_stale
from tests.testbed.host import HF_CACHE, Host
from tests.testbed.net import BedError

pytestmark = [pytest.mark.bed, pytest.mark.xdist_group("bed")]
PORT = 8000


def serve(bed: Bed, ranks: int, *docker: str, env: dict[str, str] | None = None) -> None:
    """`docker run` of the stub on the first hosts, workers first, as an operator would by hand."""
    for rank in reversed(range(ranks)):
        flags = ["--network", "host", "--ipc", "host", "--gpus", "all", "-v", f"{HF_CACHE}:/root/.cache/huggingface"]
        for name, value in (env or {}).items():
            flags += ["-e", f"{name}={value}"]
        engine = ["org/model", "--served-model-name", "night", "--port", str(PORT), "--nnodes", str(ranks)]
        engine += ["--node-rank", str(rank), "--master-addr", bed[1].address, "--tensor-parallel-size", str(ranks)]
        engine += ["--headless"] if rank else []
        host = bed[rank + 1]
        host.docker("run", "-d", "--pull", "never", "--name", f"rank{rank}", *flags, *docker, image.REFERENCE, *engine)


def curl(host: Host, path: str, body: object = None, seconds: float = 5) -> tuple[int, str]:
    """Status and body as the host itself sees its engine; status 0 where nothing answers."""
    argv = ["curl", "-s", "-m", str(seconds), "-w", "\n%{http_code}", f"http://127.0.0.1:{PORT}{path}"]
    if body is not None:
        argv += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    text, _, status = host.exec(*argv, check=False).stdout.rpartition("\n")
    return int(status or 0), text


def ready(host: Host) -> bool:
    return curl(host, "/health")[0] == 200


def state(host: Host, container: str) -> tuple[str, int]:
    said = json.loads(host.docker("inspect", container).stdout)[0]["State"]
    return said["Status"], said["ExitCode"]


def ask(host: Host, **more: object) -> tuple[int, str]:
    message = {"role": "user", "content": "What is the capital of France?"}
    return curl(host, "/v1/chat/completions", {"model": "night", "messages": [message], **more})


def ssh(bed: Bed, index: int, *command: str, seconds: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(bed.ssh(index, *command), capture_output=True, text=True, timeout=seconds, check=False)


def test_one_worker_runs_all_of_the_bed(request: pytest.FixtureRequest) -> None:
    """pytest-xdist groups by this suffix; where it goes missing, every worker brings up a bed of its own."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        assert request.node.nodeid.endswith("@bed"), (
            "run with --dist loadgroup, and with the versions of constraints.txt"
        )
    assert request.node.get_closest_marker("xdist_group").args == ("bed",)


def test_every_host_answers_ssh_with_its_own_name(bed: Bed) -> None:
    said = bed.each(lambda host: ssh(bed, host.index, "hostname").stdout.strip())
    assert said == [f"spark{i}" for i in range(1, 9)]


def test_every_host_has_its_own_engine_and_the_same_image_id(bed: Bed) -> None:
    ids = bed.each(lambda host: host.docker("image", "inspect", "-f", "{{.Id}}", image.REFERENCE).stdout.strip())
    assert set(ids) == {bed.image_id}
    bed[2].docker("run", "-d", "--pull", "never", "--name", "only-here", "--network", "host", image.REFERENCE, "m")
    assert bed.each(lambda host: host.containers()) == [[], ["only-here"], [], [], [], [], [], []]


def test_another_variant_of_the_image_has_another_id(bed: Bed) -> None:
    other = image.archive(variant="other")
    assert other.image_id != bed.image_id
    with pytest.raises(BedError, match="no-such"):
        bed[1].docker("image", "inspect", "no-such")


def test_the_cluster_file_names_every_host_and_its_address(bed: Bed, cluster_file: Path) -> None:
    said = tomllib.loads(cluster_file.read_text())
    assert said["ssh_config"] == str(bed.ssh_config)
    assert [node["host"] for node in said["nodes"]] == [host.name for host in bed.hosts]
    assert [node["fabric_address"] for node in said["nodes"]] == [host.address for host in bed.hosts]


def test_eight_stub_ranks_join_and_serve(bed: Bed) -> None:
    serve(bed, 8)
    processes.until(lambda: ready(bed[1]), 20, "eight ranks ready")
    assert json.loads(curl(bed[1], "/v1/models")[1])["data"][0]["id"] == "night"
    answer = json.loads(ask(bed[1])[1])
    assert answer["choices"][0]["message"]["content"] == "The capital of France is Paris."
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert curl(bed[1], "/v1/completions", {"model": "other", "prompt": "1 + 1"})[0] == 404
    assert (
        json.loads(curl(bed[1], "/v1/completions", {"model": "night", "prompt": "17 + 25 ="})[1])["choices"][0]["text"]
        == "42"
    )
    stream = ask(bed[1], stream=True)[1]
    assert stream.count("data: {") > 3
    assert stream.rstrip().endswith("data: [DONE]")
    assert 'vllm:generation_tokens_total{engine="0",model_name="night"}' in curl(bed[1], "/metrics")[1]
    head, worker = (bed[i].docker("logs", f"rank{i - 1}").stdout for i in (1, 4))
    assert "Application startup complete" in head
    assert "Loading safetensors checkpoint shards: 100% Completed | 48/48" in head
    assert "headless multiproc executor, with head node address" in worker
    assert "APIServer" not in worker


def test_a_boot_waits_for_its_last_rank(bed: Bed) -> None:
    serve(bed, 2)
    bed[2].docker("rm", "-f", "rank1")
    serve_head_only = ["org/model", "--nnodes", "2", "--node-rank", "0", "--master-addr", bed[3].address]
    bed[3].docker(
        "run", "-d", "--pull", "never", "--name", "alone", "--network", "host", image.REFERENCE, *serve_head_only
    )
    assert state(bed[3], "alone")[0] == "running"
    assert not ready(bed[3])


@pytest.mark.parametrize(
    ("settings", "code", "text"),
    [
        ({"FAIL": "kv"}, 1, "No common block size for 64, 128."),
        ({"FAIL": "config", "EXIT": "3"}, 3, "couldn't find them in the cached files"),
        ({"KILL": "weights"}, 1, "connection closed by peer"),
        ({"KILL": "kv"}, 1, "died unexpectedly (exit code: -9)"),
    ],
)
def test_a_rank_dies_where_it_is_told_to(bed: Bed, settings: dict[str, str], code: int, text: str) -> None:
    victim = bed[2] if settings.get("KILL") == "weights" else bed[1]
    victim.stub(**settings)
    serve(bed, 2)
    processes.until(lambda: state(bed[1], "rank0")[0] == "exited", 10, "the head's end")
    logs = bed[1].docker("logs", "rank0")
    assert state(bed[1], "rank0")[1] == code
    assert text.lower() in (logs.stdout + logs.stderr).lower()


def test_a_silent_rank_can_be_released(bed: Bed) -> None:
    bed[1].stub(HANG="weights")
    serve(bed, 1)
    processes.until(lambda: "23/48" in bed[1].docker("logs", "rank0").stdout, 5, "half of the weights")
    assert not ready(bed[1])
    bed[1].stub()
    processes.until(lambda: ready(bed[1]), 10, "ready after the release")


def test_a_lost_worker_is_silent_until_the_next_request(bed: Bed) -> None:
    serve(bed, 2)
    processes.until(lambda: ready(bed[1]), 10, "ready")
    bed[2].docker("kill", "rank1")
    processes.until(lambda: state(bed[2], "rank1")[0] == "exited", 5, "the worker's end")
    assert curl(bed[1], "/health")[0] == 200
    assert ask(bed[1])[0] == 500
    processes.until(lambda: state(bed[1], "rank0") == ("exited", 1), 5, "the head's end")


def test_workers_leave_with_zero_when_the_head_dies(bed: Bed) -> None:
    serve(bed, 3)
    processes.until(lambda: ready(bed[1]), 10, "ready")
    bed[1].docker("kill", "rank0")
    processes.until(lambda: state(bed[3], "rank2") == ("exited", 0), 5, "the worker's end")


@pytest.mark.parametrize("flags", [(), ("--init",)])
def test_sigterm_ends_the_stub_within_a_second_unless_told_otherwise(bed: Bed, flags: tuple[str, ...]) -> None:
    serve(bed, 1, *flags)
    processes.until(lambda: ready(bed[1]), 10, "ready")
    bed[1].docker("kill", "--signal", "TERM", "rank0")
    processes.until(lambda: state(bed[1], "rank0") == ("exited", 0), 1.5, "a graceful end")
    bed[1].docker("rm", "rank0")
    serve(bed, 1, *flags, env={"STUB_IGNORE_TERM": "1"})
    processes.until(lambda: ready(bed[1]), 10, "ready")
    bed[1].docker("stop", "-t", "1", "rank0")
    assert state(bed[1], "rank0") == ("exited", 137)


@pytest.mark.parametrize(
    ("answer", "content", "status"), [("empty", "", 200), ("repeat", "carecare", 200), ("error", None, 500)]
)
def test_the_stub_answers_badly_when_told_to(bed: Bed, answer: str, content: str | None, status: int) -> None:
    serve(bed, 1, env={"STUB_ANSWER": answer})
    processes.until(lambda: ready(bed[1]), 10, "ready")
    code, text = ask(bed[1])
    assert code == status
    if content is not None:
        said = json.loads(text)["choices"][0]["message"]["content"]
        assert said == content if not content else said.startswith(content)


def test_the_stub_floods_and_writes_garbage(bed: Bed) -> None:
    serve(bed, 1, env={"STUB_FLOOD": "2000", "STUB_GARBAGE": "1"})

    def lines() -> int:
        return int(bed[1].exec("sh", "-c", "docker logs rank0 2>&1 | grep -c 'quick brown'", check=False).stdout or 0)

    processes.until(lambda: lines() > 1000, 10, "a thousand lines")
    longest = (
        bed[1].exec("sh", "-c", "docker logs rank0 2>&1 | head -c 12000000 | tr -d '\\n' | tr -cd x | wc -c").stdout
    )
    assert int(longest) >= 10_000_000


def test_a_port_in_use_and_a_wrong_flag_say_what_the_engine_says(bed: Bed) -> None:
    serve(bed, 1)
    processes.until(lambda: ready(bed[1]), 10, "ready")
    second = bed[1].docker("run", "--pull", "never", "--network", "host", image.REFERENCE, "m", check=False)
    assert second.returncode == 1
    assert "OSError: [Errno 98] Address already in use" in second.stdout
    third = bed[1].docker(
        "run", "--pull", "never", "--network", "host", image.REFERENCE, "m", "--no-such-flag", "1", check=False
    )
    assert third.returncode == 2
    assert "unrecognized arguments: --no-such-flag" in third.stderr


def test_a_cut_link_is_silent_and_heals(bed: Bed) -> None:
    bed[3].cut()
    failed = ssh(bed, 3, "-o", "ConnectTimeout=1", "true")
    assert failed.returncode == 255
    bed[3].heal()
    processes.until(lambda: ssh(bed, 3, "true").returncode == 0, 10, "spark3 back")


def test_loss_and_rate_are_felt(bed: Bed) -> None:
    bed[4].loss(100)
    assert ssh(bed, 4, "-o", "ConnectTimeout=1", "true").returncode == 255
    bed[4].loss(0)
    bed[4].rate(8_000)
    said = bed[4].exec("tc", "qdisc", "show", "dev", "eth0").stdout
    assert "rate 8Mbit" in said
    bed[4].rate(None)


def test_a_killed_host_is_gone_and_comes_back(bed: Bed) -> None:
    bed[5].docker("run", "-d", "--pull", "never", "--name", "was-here", "--network", "host", image.REFERENCE, "m")
    bed.kill(5)
    assert ssh(bed, 5, "-o", "ConnectTimeout=1", "true").returncode == 255
    bed.power_on(5)
    assert ssh(bed, 5, "hostname").stdout.strip() == "spark5"
    assert bed[5].docker("image", "inspect", "-f", "{{.Id}}", image.REFERENCE).stdout.strip() == bed.image_id
    assert state(bed[5], "was-here")[0] == "exited"


def test_a_killed_container_engine_leaves_ssh_and_comes_back(bed: Bed) -> None:
    bed[6].kill_docker()
    failed = ssh(bed, 6, "docker", "ps")
    assert failed.returncode == 1
    assert "Cannot connect to the Docker daemon" in failed.stderr
    bed[6].start_docker()
    assert ssh(bed, 6, "docker", "ps").returncode == 0


def test_a_stopped_sshd_hangs_and_continues(bed: Bed) -> None:
    bed[7].stop_sshd()
    with pytest.raises(subprocess.TimeoutExpired):
        ssh(bed, 7, "-o", "ConnectTimeout=30", "true", seconds=1)
    bed[7].continue_sshd()
    assert ssh(bed, 7, "true").returncode == 0


def test_a_swapped_host_key_is_refused(bed: Bed) -> None:
    bed[8].swap_host_key()
    failed = ssh(bed, 8, "true")
    assert failed.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in failed.stderr
    bed.calm()
    assert ssh(bed, 8, "true").returncode == 0


def test_a_full_disk_is_full_and_then_not(bed: Bed) -> None:
    bed[1].fill("/var/tmp/full")
    assert bed[1].exec("sh", "-c", "echo x >/var/tmp/full/y", check=False).returncode != 0
    bed[1].unfill("/var/tmp/full")
    assert bed[1].exec("sh", "-c", "echo x >/var/tmp/full/y", check=False).returncode == 0


def test_nvidia_smi_answers_as_a_gb10(bed: Bed) -> None:
    query = "--query-gpu=name,memory.used,memory.total,utilization.gpu,temperature.gpu,power.draw"
    said = ssh(bed, 1, "nvidia-smi", query, "--format=csv,noheader,nounits").stdout
    assert said == "NVIDIA GB10, [N/A], [N/A], 96, 64, 41.27\n"


def test_a_model_in_the_cache_is_seen_on_the_host(bed: Bed) -> None:
    snapshot = bed[1].put_model("deepseek-ai/DeepSeek-V4.1-Flash")
    assert bed[1].exec("test", "-f", f"{snapshot}/config.json").returncode == 0


@pytest.fixture
def small_bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    with Bed.up(1, **request.param) as bed:
        yield bed


@pytest.mark.parametrize("small_bed", [{"infiniband": True, "user": "operator", "gpu": False}], indirect=True)
def test_options_operator_user_and_infiniband(shared_bed: Bed, small_bed: Bed) -> None:
    """Two beds at once, too: the shared one stays up meanwhile."""
    assert small_bed.address != shared_bed.address
    assert ssh(small_bed, 1, "id", "-un").stdout.strip() == "operator"
    assert ssh(small_bed, 1, "docker", "ps", "-q").returncode == 0
    assert ssh(small_bed, 1, "cat", "/sys/class/infiniband/rocep1s0f0/ports/1/state").stdout == "4: ACTIVE\n"
    assert ssh(small_bed, 1, "ls", "/sys/class/net").stdout.split() == ["eth0", "lo"]
    flags = ["--rm", "--pull", "never", "--network", "host", "--device", "/dev/infiniband", "--entrypoint", "ls"]
    said = small_bed[1].docker("run", *flags, image.REFERENCE, "/dev/infiniband").stdout.split()
    assert said == ["rdma_cm", "uverbs0", "uverbs1"]
    refused = small_bed[1].docker(
        "run", "--rm", "--pull", "never", "--gpus", "all", "--network", "host", image.REFERENCE, "m", check=False
    )
    assert "could not select device driver" in refused.stderr
    assert ssh(shared_bed, 1, "true").returncode == 0


@pytest.mark.skipif(not Path("/sys/fs/cgroup/memory").is_dir(), reason="a memory limit needs cgroup v1")
@pytest.mark.parametrize("small_bed", [{"mem": "700M"}], indirect=True)
def test_a_memory_limit_kills_what_is_too_large(small_bed: Bed) -> None:
    eat = "b = bytearray(2 << 30)\nfor i in range(0, len(b), 4096): b[i] = 1"
    done = small_bed[1].exec("python3", "-c", eat, check=False)
    assert done.returncode in (-signal.SIGKILL, 137)
    if Path("/var/lib/lxcfs/proc/meminfo").exists():
        total = small_bed[1].exec("grep", "MemTotal", "/proc/meminfo").stdout.split()[1]
        assert int(total) == 700 * 1024


def test_a_bed_whose_owner_died_is_cleared(shared_bed: Bed) -> None:
    up = "b = Bed.up(2, docker=False); print(b.token, flush=True)"
    program = f"import os; from tests.testbed.bed import Bed; {up}; os._exit(9)"
    root = Path(__file__).parents[2]
    said = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    token = said.stdout.strip()
    entry = json.loads((REGISTRY / f"{token}.json").read_text())
    assert all(processes.alive(outer, start) for outer, start, _ in entry["hosts"])
    assert clear_stale() == [token]
    assert not any(processes.alive(outer, start) for outer, start, _ in entry["hosts"])
    assert not Path(entry["folder"]).exists()
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    assert f"nd{token}" not in links
    assert os.path.exists(shared_bed.folder)
