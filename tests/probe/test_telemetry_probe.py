"""The probe as a real process against a node made of files, a fake engine and a fake nvidia-smi."""

from __future__ import annotations

import ast
import fcntl
import os
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from console.base.absent import Absent
from console.probe import facts_program, guard_program, launch_facts_program, telemetry_program
from console.telemetry.launch import ProbeOptions, order_census, order_frame, order_interval, probe_argv
from console.telemetry.sample import MemKind
from console.telemetry.sampler import Sampler
from tests.probe.fakes import Console, FakeEngine, inspected, make_tree, program

F_SETPIPE_SZ = 1031  # <linux/fcntl.h>
IDENT = "f" * 64
GB10 = "0, GPU-7f1a, NVIDIA GB10, 96, 64, 41.20, 2405, 3003, [N/A], [N/A], 0x0000000000000000"
SMI = f"""
import sys, time
gpu = any(a.startswith("--query-gpu") for a in sys.argv)
print({GB10!r} if gpu else "4242, VLLM::Worker_TP5, 82739", flush=True)
while True:
    time.sleep(0.05)
    print({GB10!r} if gpu else "4242, VLLM::Worker_TP5, 82739", flush=True)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_tree(tmp_path)
    (tmp_path / "bin").mkdir()
    return tmp_path


@pytest.fixture
def engine(root: Path) -> Iterator[FakeEngine]:
    server = FakeEngine(root / "e.sock")
    yield server
    server.close()


@pytest.fixture
def start(root: Path) -> Iterator[object]:
    opened: list[Console] = []

    def begin(**options: object) -> Console:
        wanted = ProbeOptions(**{"interval_s": 0.2, "paths": ("/", str(root / "models"), "/nowhere"), **options})  # type: ignore[arg-type]
        opened.append(Console(root, wanted, DOCKER_HOST=f"unix://{root}/e.sock"))
        return opened[-1]

    yield begin
    for console in opened:
        console.close()


@pytest.mark.parametrize("program_text", [telemetry_program, facts_program, launch_facts_program, guard_program])
def test_runs_on_python_3_8_as_one_program(program_text: Callable[[], bytes]) -> None:
    source = program_text().decode()
    outer = ast.parse(source, feature_version=(3, 8))
    assign = outer.body[0]
    assert isinstance(assign, ast.Assign)
    for name, text in ast.literal_eval(assign.value):
        tree = ast.parse(text, name, feature_version=(3, 8))
        imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names} | {
            n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)
        }
        ours = {i for i in imported if i.startswith("console")}
        assert ours <= {f"console.probe.{n}" for n, _ in ast.literal_eval(assign.value)}


def test_a_frame_says_what_the_files_say(root: Path, start, engine: FakeEngine) -> None:
    program(root / "bin", "nvidia-smi", SMI)
    engine.containers[IDENT] = inspected(IDENT)
    console: Console = start()
    sampler = Sampler("dgx6")
    frame = console.until(
        lambda d: (
            d["part"] == "all"
            and d["gpu"]["rows"]
            and d["apps"]["rows"]
            and d["containers"].get("rows")
            and "ports" in d["fabric"]
            and "rows" in d["procs"]
            and all("t" in r or "No such" in r["why"] for r in d["fs"]["rows"].values())
        )
    )
    sample = sampler.step(frame, received_at=1.0, wall=2.0)
    assert sample.memory.total_bytes == 130_663_231_488
    assert sample.memory.available_bytes == 24672112 * 1024
    assert sample.memory.swap_used_bytes == (16777212 - 16252924) * 1024
    assert sample.memory.high_order_bytes == 5 * (os.sysconf("SC_PAGE_SIZE") << 9)
    assert sample.cpu.cores == 2 and sample.cpu.load1 == 3.1 and sample.cpu.blocked == 3
    assert isinstance(sample.cpu.percent, Absent)
    assert not isinstance(sample.psi_memory, Absent) and sample.psi_memory.full10 == 28.0
    assert isinstance(sample.psi_io, Absent) and "No such file" in sample.psi_io.reason
    assert sample.uptime_s == 5000.1 and sample.boot_id == "495474de-7f87-4191-905f-88b198618129"
    assert [n.name for n in sample.net] == ["enp1s0f0np0"] and sample.net[0].speed_mbit == 200000
    assert [d.name for d in sample.disks] == ["nvme0n1"]
    assert (
        sample.rdma[0].name == "rocep1s0f0:1" and sample.rdma[0].state == "ACTIVE" and sample.rdma[0].rate_gbit == 200
    )
    gpu = sample.gpus[0]
    assert gpu.mem_kind is MemKind.UNIFIED and isinstance(gpu.mem_total_bytes, Absent) and gpu.util_percent == 96
    assert sample.gpu_apps[0].used_bytes == 82739 << 20
    spaces = {f.path: f for f in sample.filesystems}
    assert spaces[str(root / "models")].kind == "nfs4" and spaces["/"].total_bytes > 0
    assert "No such file" in spaces["/nowhere"].total_bytes.reason
    assert {p.pid for p in sample.procs} == {4242, 4243}
    one = sample.containers.rows[0]
    assert (one.name, one.state, one.pid, one.labels) == (
        "nd-flash-r5",
        "running",
        4242,
        {"nightdeck.deployment": "flash-b11-x"},
    )
    # Without a cgroup of its own the tree of its processes is summed.
    assert one.cpu_s == 600 / os.sysconf("SC_CLK_TCK") and one.io_bytes == 2 * 5120
    assert sample.kernel == ()


def test_end_of_standard_input_ends_it_and_its_children(root: Path, start) -> None:
    program(
        root / "bin", "nvidia-smi", f"import os\nopen({str(root / 'pid')!r}, 'a').write(f'{{os.getpid()}}\\n')\n" + SMI
    )
    console: Console = start(container_cli="")
    console.until(lambda d: d["gpu"]["rows"] and d["apps"]["rows"])
    children = [int(p) for p in (root / "pid").read_text().split()]
    assert len(children) == 2
    console.stdin.close()
    assert console.child.wait(2) == 0
    end = time.monotonic() + 5
    while any(_alive(pid) for pid in children):
        assert time.monotonic() < end, "nvidia-smi outlives the probe"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_children_end_when_the_probe_is_killed(root: Path, start) -> None:
    program(
        root / "bin", "nvidia-smi", f"import os\nopen({str(root / 'pid')!r}, 'a').write(f'{{os.getpid()}}\\n')\n" + SMI
    )
    console: Console = start(container_cli="")
    console.until(lambda d: d["gpu"]["rows"] and d["apps"]["rows"])
    children = [int(p) for p in (root / "pid").read_text().split()]
    console.child.kill()
    end = time.monotonic() + 5
    while any(_alive(pid) for pid in children):
        assert time.monotonic() < end, "nvidia-smi outlives the probe"


def test_an_engine_that_hangs_delays_no_frame(start, engine: FakeEngine) -> None:
    engine.containers[IDENT] = inspected(IDENT)
    console: Console = start()
    console.until(lambda d: d["containers"].get("rows"))
    engine.hang.set()
    frame = console.until(lambda d: "no answer" in d.get("containers", {}).get("why", ""))
    assert frame.data["containers"]["rows"], "the last rows stay, with their age"
    times = [f.data["t"] for f in console.frames if f.data["part"] == "all"]
    assert max(b - a for a, b in pairwise(times)) < 2.0, "an answer that is waited for takes three seconds"
    sample = Sampler("n").step(frame, received_at=0, wall=0)
    assert sample.containers.age_s > 1 and "no answer" in sample.containers.why


def test_a_death_is_told_at_once(start, engine: FakeEngine) -> None:
    engine.containers[IDENT] = inspected(IDENT)
    console: Console = start(interval_s=60.0)
    engine.wait_listener()
    console.until(lambda d: d["containers"].get("rows"))
    took = []
    for code in (137, 1, 139, 143):  # the quickest of four: the machine may be busy
        engine.containers[IDENT] = inspected(
            IDENT, Status="exited", ExitCode=code, OOMKilled=True, Pid=0, FinishedAt="2026-09-26T03:10:00Z"
        )
        before = time.monotonic()
        engine.emit("die", IDENT, exitCode=str(code))
        frame = console.until(lambda d, c=code: any(r["exit_code"] == c for r in d["containers"].get("rows", ())))
        took.append(time.monotonic() - before)
    assert min(took) < 0.3
    assert frame.data["part"] == "containers"
    sample = Sampler("n").step(frame, received_at=0, wall=0)
    one = sample.containers.rows[0]
    assert (one.exit_code, one.oom_killed, one.finished_at) == (143, True, "2026-09-26T03:10:00Z")
    assert isinstance(one.pid, Absent)
    event = sample.containers.events[-1]
    assert (event.action, event.id, event.exit_code) == ("die", IDENT, 143)


def test_a_death_is_told_even_while_the_engine_answers_nothing_else(start, engine: FakeEngine) -> None:
    console: Console = start(interval_s=60.0)
    console.until(lambda d: d["part"] == "all")
    engine.wait_listener()
    engine.hang.set()
    engine.emit("die", IDENT, exitCode="137")
    frame = console.until(lambda d: d["containers"]["events"])
    assert frame.data["part"] == "containers" and frame.data["containers"]["events"][0]["exit_code"] == "137"


def test_an_engine_in_trouble_says_nothing_of_a_container(start, engine: FakeEngine) -> None:
    engine.containers[IDENT] = inspected(IDENT)
    engine.broken.add(IDENT)
    console: Console = start()
    frame = console.until(lambda d: "not read yet" not in d["containers"].get("why", ""))
    assert "500" in frame.data["containers"]["why"] and "cannot allocate memory" in frame.data["containers"]["why"]
    assert isinstance(Sampler("n").step(frame, received_at=0, wall=0).containers, Absent), "not gone: unknown"
    engine.broken.clear()
    console.until(lambda d: d["containers"].get("rows"))
    del engine.containers[IDENT]
    console.until(lambda d: d["containers"].get("rows") == [] and not d["containers"]["why"])


@pytest.mark.parametrize(("words", "gone"), [("Error: No such container: b", True), ("Error: context deadline", False)])
def test_the_command_lines_half_an_answer_is_whole_only_where_the_rest_was_removed(
    root: Path, start, words: str, gone: bool
) -> None:
    script = f"""import json, sys
if sys.argv[1] == 'ps':
    print({IDENT!r}, 'b' * 64)
else:
    print(json.dumps([{inspected(IDENT)!r}]))
    sys.exit({words!r})
"""
    program(root / "bin", "docker", script)
    console: Console = start()
    frame = console.until(lambda d: d["containers"].get("rows") or "context" in d["containers"].get("why", ""))
    assert bool(frame.data["containers"].get("rows")) is gone


def test_without_the_socket_the_command_line_is_asked(root: Path, start) -> None:
    answer = f"import json, sys\nprint({IDENT!r} if sys.argv[1] == 'ps' else json.dumps([{inspected(IDENT)!r}]))\n"
    program(root / "bin", "docker", answer)
    console: Console = start()
    frame = console.until(lambda d: d["containers"].get("rows"))
    group = frame.data["containers"]
    assert group["rows"][0]["name"] == "nd-flash-r5" and "docker command" in group["how"] and "e.sock" in group["how"]


def test_an_engine_that_refuses_is_a_reason(root: Path, start) -> None:
    program(root / "bin", "docker", "import sys\nsys.exit('permission denied while trying to connect to the daemon')\n")
    console: Console = start()
    frame = console.until(lambda d: "permission denied" in d["containers"].get("why", ""))
    sample = Sampler("n").step(frame, received_at=0, wall=0)
    assert isinstance(sample.containers, Absent) and "permission denied" in sample.containers.reason


def test_a_field_that_an_old_driver_lacks_is_dropped(root: Path, start) -> None:
    script = """
import sys, time
A100 = "0, GPU-1, NVIDIA A100, 5, 40, 60.5, 1410, 1410, 1024, 81920"
query = next(a for a in sys.argv if a.startswith("--query"))
if "clocks_event_reasons" in query:
    print('Field "clocks_event_reasons.active" is not a valid field to query.')
    sys.exit(2)
while True:
    print(A100 if "gpu" in query else "7, a, b, 12", flush=True)
    time.sleep(0.05)
"""
    program(root / "bin", "nvidia-smi", script)
    console: Console = start(container_cli="")
    frame = console.until(lambda d: d["gpu"]["rows"])
    sample = Sampler("n").step(frame, received_at=0, wall=0)
    assert sample.gpus[0].mem_total_bytes == 81920 << 20 and isinstance(sample.gpus[0].throttle, Absent)


def test_a_driver_that_fails_is_a_reason(root: Path, start) -> None:
    said = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
        "NVIDIA driver is installed and running."
    )
    program(root / "bin", "nvidia-smi", f"import sys\nprint({said!r})\nsys.exit(9)\n")
    console: Console = start(container_cli="")
    frame = console.until(lambda d: "failed" in d["gpu"]["why"])
    assert Sampler("n").step(frame, received_at=0, wall=0).gpus == Absent(said)


def test_an_nvidia_smi_that_dies_is_started_again(root: Path, start) -> None:
    program(root / "bin", "nvidia-smi", f"print({GB10!r})\nopen({str(root / 'starts')!r}, 'a').write('x')\n")
    console: Console = start(container_cli="")
    console.until(lambda d: "ended with 0" in d["gpu"]["why"])
    first = (root / "starts").stat().st_size
    console.until(lambda d: (root / "starts").stat().st_size > first + 1)


def test_a_gpu_without_processes_has_none_and_that_is_known(root: Path, start) -> None:
    program(root / "bin", "nvidia-smi", SMI.replace("4242, VLLM::Worker_TP5, 82739", ""))
    console: Console = start(container_cli="")
    frame = console.until(lambda d: d["apps"]["why"] == "" and "t" in d["apps"])
    assert Sampler("n").step(frame, received_at=0, wall=0).gpu_apps == ()


def test_an_error_of_a_running_nvidia_smi_is_the_reason(root: Path, start) -> None:
    said = "Unable to determine the device handle for GPU0: 000F:01:00.0: Unknown Error"
    program(root / "bin", "nvidia-smi", f"import time\nprint({said!r}, flush=True)\ntime.sleep(60)\n")
    console: Console = start(container_cli="")
    frame = console.until(lambda d: said in d["gpu"]["why"])
    assert Sampler("n").step(frame, received_at=0, wall=0).gpus == Absent(said)


def test_a_program_cut_off_on_its_way_says_so() -> None:
    argv, stdin = probe_argv(b"print('ran')", ProbeOptions())
    cut = subprocess.run([sys.executable, *argv[1:]], input=stdin[:-1], capture_output=True, timeout=90)
    assert cut.returncode == 1 and b"cut off" in cut.stderr and b"ran" not in cut.stdout
    assert not any("\n" in word for word in argv), "a newline does not survive every login shell"


def test_no_nvidia_smi_is_a_reason(start) -> None:
    console: Console = start(container_cli="")
    assert console.until(lambda d: True).data["gpu"]["why"] == "nvidia-smi is not in PATH"


def test_new_kernel_lines_are_told_and_old_ones_are_not(root: Path, start) -> None:
    console: Console = start(container_cli="", gpu=False)
    console.until(lambda d: True)
    with (root / "dev/kmsg").open("a") as log:
        log.write(
            "6,2,9,-;usb 1-1: new device\n3,77,5000000,-;NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.\n"
        )
    frame = console.until(lambda d: d["kernel"]["rows"])
    (line,) = Sampler("n").step(frame, received_at=0, wall=0).kernel
    assert "fallen off the bus" in line.text and line.uptime_s == 5.0


def test_orders_and_nonsense_on_standard_input(root: Path, start) -> None:
    console: Console = start(container_cli="", gpu=False, interval_s=60.0)
    console.until(lambda d: True)
    console.send(b'\xff\xfe nonsense\n[1]\n{"do":"interval","seconds":"x"}\n' + order_interval(0.1))
    console.until(lambda d: d["self"]["interval_s"] == 0.1)
    console.until(lambda d: d["seq"] > 5)


def test_a_census_is_the_engines_answer_to_this_question(root: Path, start, engine: FakeEngine) -> None:
    console: Console = start(gpu=False, interval_s=60.0)
    engine.wait_listener()
    engine.containers[IDENT] = inspected(IDENT)
    console.send(order_census(7))
    said = console.until(lambda d: d["part"] == "census").data
    assert said["n"] == 7 and said["census"]["why"] == ""
    (row,) = said["census"]["rows"]
    assert row["Id"] == IDENT and row["State"]["Status"] == "running"
    assert all(name.startswith("nightdeck.") for name in row["Config"]["Labels"])
    # An engine that cannot say is never an empty node.
    engine.broken.add(IDENT)
    console.send(order_census(8))
    said = console.until(lambda d: d["part"] == "census").data
    assert said["n"] == 8 and "cannot allocate memory" in said["census"]["why"] and "rows" not in said["census"]


def test_a_console_that_does_not_read_costs_frames_not_time(root: Path, start) -> None:
    console: Console = start(container_cli="", gpu=False, interval_s=60.0)
    fcntl.fcntl(console.stdout.fileno(), F_SETPIPE_SZ, 4096)  # not room for two frames
    first = console.until(lambda d: True)
    for _ in range(10):
        console.send(order_frame())
        end = time.monotonic() + 5
        while _unread(console.stdin.fileno()):  # it still takes orders: nothing blocks it
            assert time.monotonic() < end, "the probe waits for its reader"
    console.send(order_interval(0.1))
    frame = console.until(lambda d: d["dropped"] > 0)
    assert frame.seq > first.seq


def _unread(fd: int) -> int:
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0]
