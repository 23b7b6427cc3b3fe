"""Two frames make rates; resets, reboots, old groups and lost frames make absences with a reason."""

from __future__ import annotations

import copy
from typing import Any

from console.base.absent import Absent
from console.telemetry.frames import Frame
from console.telemetry.sample import Sample
from console.telemetry.sampler import Sampler

PORT = {
    "state": "4: ACTIVE",
    "rate": "200 Gb/sec (2X NDR)",
    "port_rcv_data": "1000",
    "port_xmit_data": "18446744073709551000",
    "hw_counters/out_of_sequence": "7",
}
CONTAINER = {
    "id": "f" * 64,
    "name": "nd-r0",
    "image": "vllm:local",
    "labels": {"nightdeck.rank": "0"},
    "state": "running",
    "exit_code": 0,
    "oom": False,
    "pid": 4242,
    "started": "2026-09-26T02:58:03Z",
    "finished": "0001-01-01T00:00:00Z",
    "cpu_s": 100.0,
    "io": 1000,
}


def frame(seq: int, t: float, **changes: Any) -> Frame:
    """A frame of one node; `host__net="..."` replaces one entry of a group."""
    data: dict[str, Any] = {
        "part": "all",
        "t": t,
        "w": 1000.0 + t,
        "dropped": 0,
        "host": {
            "t": t,
            "page": 4096,
            "why": {},
            "meminfo": "MemTotal:  127600812 kB\nMemAvailable:   24672112 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB",
            "vmstat": "pswpin 100\npswpout 200",
            "cores": 20,
            "stat": "cpu  1000 0 500 8000 500 0 0 0 0 0",
            "loadavg": "3.10 2.00 1.00 2/900 4242",
            "boot_id": "a-b\n",
            "uptime": "5000.1 1\n",
            "net": "enp1: 1000 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0",
            "disks": " 259 0 nvme0n1 1 0 100 0 1 0 200 0 0 50 0",
        },
        "fabric": {
            "t": t,
            "why": "",
            "ports": {"mlx5_0:1": dict(PORT)},
            "link": {"enp1": {"speed": "-1", "mtu": "9000"}},
        },
        "gpu": {"t": t, "why": "", "fields": ["index", "name"], "rows": ["0, NVIDIA GB10"]},
        "procs": {"t": t, "why": "", "rows": [[1, "init", "S", 4096, None]]},
        "containers": {"t": t, "why": "", "how": "socket", "rows": [dict(CONTAINER)], "events": []},
        "self": {"pid": 9, "cpu_s": 0.1},
    }
    for path, value in changes.items():
        *groups, key = path.split("__")
        inner = data
        for group in groups:
            inner = inner[group]
        inner[key] = value
    return Frame(seq, copy.deepcopy(data))


def run(*frames: Frame) -> Sample:
    sampler = Sampler("dgx1")
    for i, one in enumerate(frames):
        sample = sampler.step(one, received_at=float(i), wall=1000.0)
    return sample


def test_first_frame_has_values_but_no_rates() -> None:
    sample = run(frame(1, 10.0))
    assert sample.memory.available_bytes == 24672112 * 1024
    assert sample.clock_offset_s == 10.0
    assert isinstance(sample.net, tuple) and isinstance(sample.net[0].rx_bytes_s, Absent)
    assert isinstance(sample.cpu.percent, Absent) and isinstance(sample.memory.swap_in_bytes_s, Absent)


def test_rates_between_two_frames() -> None:
    moved = dict(PORT, port_rcv_data="501000", **{"hw_counters/out_of_sequence": "9"})
    sample = run(
        frame(1, 10.0),
        frame(
            2,
            12.0,
            host__net="enp1: 5000 1 3 4 0 0 0 0 700 1 0 0 0 0 0 0",
            host__stat="cpu  1100 0 550 8030 520 0 0 0 0 0",
            host__vmstat="pswpin 110\npswpout 200",
            host__disks=" 259 0 nvme0n1 1 0 4100 0 1 0 200 0 0 1050 0",
            fabric__ports={"mlx5_0:1": moved},
        ),
    )
    (net,), (rdma,), (disk,) = sample.net, sample.rdma, sample.disks  # type: ignore[misc]
    assert (net.rx_bytes_s, net.tx_bytes_s, net.errors, net.drops) == (2000.0, 100.0, 3, 4)
    assert isinstance(net.speed_mbit, Absent) and net.mtu == 9000
    assert (rdma.rx_bytes_s, rdma.tx_bytes_s, rdma.errors) == (1_000_000.0, 0.0, {"out_of_sequence": 2})
    assert (disk.read_bytes_s, disk.write_bytes_s, disk.busy_percent) == (4000 * 512 / 2, 0.0, 50.0)
    assert sample.cpu.percent == 75.0 and sample.cpu.iowait_percent == 10.0
    assert sample.memory.swap_in_bytes_s == 5 * 4096 and sample.memory.swap_out_bytes_s == 0.0


def test_a_counter_that_went_back_gives_no_rate() -> None:
    wrapped = dict(PORT, port_xmit_data="10")
    sample = run(
        frame(1, 10.0),
        frame(2, 11.0, host__net="enp1: 10 1 0 0 0 0 0 0 600 1 0 0 0 0 0 0", fabric__ports={"mlx5_0:1": wrapped}),
    )
    assert sample.net[0].rx_bytes_s == Absent("the counter went back") and sample.net[0].tx_bytes_s == 100.0  # type: ignore[index]
    assert sample.rdma[0].tx_bytes_s == Absent("the counter went back")  # type: ignore[index]


def test_a_reboot_is_told_once_and_starts_rates_again() -> None:
    sampler = Sampler("dgx1")
    sampler.step(frame(9, 500.0), received_at=0, wall=0)
    after = sampler.step(frame(1, 3.0, host__boot_id="c-d\n", self__pid=77), received_at=1, wall=0)
    assert after.rebooted and after.missed == 0 and isinstance(after.net[0].rx_bytes_s, Absent)  # type: ignore[index]
    again = sampler.step(frame(2, 4.0, host__boot_id="c-d\n", self__pid=77), received_at=2, wall=0)
    assert not again.rebooted and again.net[0].rx_bytes_s == 0.0  # type: ignore[index]


def test_a_new_probe_on_the_same_boot_is_no_reboot() -> None:
    sample = run(frame(50, 10.0), frame(1, 11.0, self__pid=10))
    assert not sample.rebooted and sample.missed == 0


def test_lost_frames_are_counted() -> None:
    assert run(frame(1, 10.0), frame(4, 13.0)).missed == 2
    assert run(frame(1, 10.0), frame(2, 13.0, dropped=5)).missed == 5


def test_a_group_that_stands_still_is_not_of_now() -> None:
    sample = run(frame(1, 10.0), frame(2, 30.0, gpu__t=11.0, fabric__t=11.0, procs__t=1.0))
    assert sample.gpus == Absent("nvidia-smi has been silent for 19 s")
    assert isinstance(sample.rdma, Absent) and isinstance(sample.procs, Absent)


def test_the_same_reading_twice_keeps_its_rates() -> None:
    moved = dict(PORT, port_rcv_data="2000")
    sample = run(
        frame(1, 10.0),
        frame(2, 11.0, fabric__ports={"mlx5_0:1": moved}, containers__rows=[dict(CONTAINER, cpu_s=100.5, io=3000)]),
        frame(
            3,
            11.2,
            fabric__t=11.0,
            fabric__ports={"mlx5_0:1": moved},
            containers__t=11.0,
            containers__rows=[dict(CONTAINER, cpu_s=100.5, io=3000)],
        ),
    )
    assert sample.rdma[0].rx_bytes_s == 4000.0  # type: ignore[index]
    assert not isinstance(sample.containers, Absent)
    one = sample.containers.rows[0]
    assert one.cpu_percent == 50.0 and one.io_bytes_s == 2000.0
    assert isinstance(one.exit_code, Absent) and isinstance(one.finished_at, Absent)


def test_a_death_told_between_frames_keeps_all_else() -> None:
    sampler = Sampler("dgx1")
    before = sampler.step(frame(1, 10.0), received_at=0, wall=0)
    dead = dict(CONTAINER, state="exited", exit_code=137, oom=True, pid=0, finished="2026-09-26T03:10:00Z")
    told = Frame(
        2,
        {
            "part": "containers",
            "t": 10.3,
            "w": 1010.3,
            "containers": {
                "t": 10.3,
                "why": "",
                "how": "socket",
                "rows": [dead],
                "events": [{"n": 1, "action": "die", "id": "f", "exit_code": "137"}],
            },
        },
    )
    sample = sampler.step(told, received_at=0.3, wall=0)
    assert sample.part == "containers" and sample.memory == before.memory and sample.gpus == before.gpus
    assert not isinstance(sample.containers, Absent)
    one = sample.containers.rows[0]
    assert (one.running, one.exit_code, one.oom_killed) == (False, 137, True) and isinstance(one.pid, Absent)
    assert sample.containers.events[0].exit_code == 137 and sample.missed == 0


def test_an_engine_that_stopped_answering_keeps_its_rows_with_their_age() -> None:
    sample = run(frame(1, 10.0), frame(2, 20.0, containers__t=11.0, containers__why="docker: no answer for 9 s"))
    assert not isinstance(sample.containers, Absent)
    assert (
        sample.containers.age_s == 9.0
        and sample.containers.why == "docker: no answer for 9 s"
        and sample.containers.rows
    )


def test_unreadable_files_are_reasons() -> None:
    one = frame(1, 10.0, host__why={"meminfo": "Permission denied", "psi_io": "No such file or directory"})
    del one.data["host"]["meminfo"]  # type: ignore[attr-defined]
    sample = run(one)
    assert sample.memory.available_bytes == Absent("Permission denied")
    assert sample.memory.used_bytes == Absent("Permission denied")
    assert isinstance(sample.psi_io, Absent) and "No such file" in sample.psi_io.reason
