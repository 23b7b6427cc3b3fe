"""Everything that a node's last sample says, as lines to read; what is not known says why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from console.base.absent import Absent, known
from console.services.hub import NodeView
from console.telemetry.sample import Gpu, Pressure, Sample
from console.tui.figures import GIB, NA, age, clock_span, gib, hhmmss, number, one, rate, size, whole
from console.tui.glyphs import Glyphs, bar
from console.tui.guards import guard_words
from console.tui.spans import Line, Span, fit, line_width, safe, width_of, wrap_spans

LABEL = 14


def why_of(value: object) -> str:
    """`n/a (reason)`."""
    return f"{NA} ({safe(value.reason, limit=120)})" if isinstance(value, Absent) else NA


def _row(label: str, *spans: Span) -> Line:
    return ((f" {fit(label, LABEL)}", "head"), *spans)


def _rows(label: str, width: int, *spans: Span) -> list[Line]:
    """A row whose spans go on below, under the first of them, where the terminal is too narrow for all."""
    out: list[list[Span]] = [[(f" {fit(label, LABEL)}", "head")]]
    for text, role in spans:
        if line_width(out[-1]) + width_of(text.rstrip()) > width and len(out[-1]) > 1:
            out.append([(" " * (LABEL + 3), "head")])
            text = text.lstrip()
        out[-1].append((text, role))
    return [tuple(line) for line in out]


def _text(label: str, text: str, width: int, role: str = "text") -> list[Line]:
    return wrap_spans((f" {fit(label, LABEL)}", "head"), text, role, width, limit=4)


def _join(parts: Iterable[str]) -> str:
    return "   ".join(p for p in parts if p)


def node_lines(view: NodeView, width: int, glyphs: Glyphs, *, now: float) -> list[Line]:
    """The page below the charts."""
    out: list[Line] = []
    if view.trouble or view.state != "fresh":
        role = "bad" if view.state == "lost" else "warn"
        since = "never seen" if isinstance(view.age_s, Absent) else f"last seen {age(view.age_s)} ago"
        out += _text("state", f"{view.state} {safe(view.trouble)}: {safe(view.why)} ({since})", width, role)
        if view.remedy:
            out += _text("", safe(view.remedy), width, "ok")
    sample = view.sample
    if isinstance(sample, Absent):
        return [*out, _row("sample", (why_of(sample), "dim"))]
    for part in (_guards(sample, width, glyphs), _memory(sample, width, glyphs), _gpus(sample, width),
                 _pressure(sample, width), _fabric(view, sample, width, glyphs), _disks(sample, width),
                 _procs(sample, width), _containers(sample, width, glyphs), _host(view, sample, width, now),
                 _kernel(sample, width)):  # fmt: skip
        if part:
            out += [(), *part] if out else part
    return out


def _guards(sample: Sample, width: int, glyphs: Glyphs) -> list[Line]:
    if not known(sample.guards):
        return []
    out: list[Line] = []
    for guard in sample.guards:
        words, role = guard_words(guard)
        sign = {"ok": glyphs.fresh, "dim": glyphs.waiting}.get(role, glyphs.warn)
        safe_from_oom = guard.oom_score_adj == -1000 or isinstance(guard.oom_score_adj, Absent)
        more = ", killable itself" if guard.running and not safe_from_oom else ""
        out += _text("memory guard", f"{sign} rank {guard.rank}: {words}{more}", width, role)
    return out


def _memory(sample: Sample, width: int, glyphs: Glyphs) -> list[Line]:
    m = sample.memory
    total, used, shmem = number(m.total_bytes), number(m.used_bytes), number(m.shmem_bytes)
    kind = "one pool for CPU and GPU" if sample.unified else ""
    out: list[Line] = []
    if total and used is not None:
        room = max(10, min(60, width - LABEL - 50))
        full, empty = bar(glyphs, used / total, room)
        share = min(len(full), round((shmem or 0.0) / total * room))
        level = "bad" if used / total > 0.95 else "warn" if used / total > 0.9 else "memory"
        out.append(
            _row("memory", (full[: len(full) - share], level), (full[len(full) - share :], "shmem"), (empty, "grid"),
                 (f" {gib(used)} of {gib(total)} GiB used", "strong"), (f"  {kind}", "dim"))
        )  # fmt: skip
    else:
        out.append(_row("memory", (why_of(m.total_bytes), "dim")))
    parts = [
        f"available {gib(m.available_bytes)}", f"free {gib(m.free_bytes)}", f"page cache {gib(m.page_cache_bytes)}",
        f"buffers {gib(m.buffers_bytes)}", f"shmem {gib(m.shmem_bytes)}", f"dirty {size(m.dirty_bytes)}",
        f"writeback {size(m.writeback_bytes)}",
    ]  # fmt: skip
    out += _text("  GiB", _join(parts), width)
    swap = f"{gib(m.swap_used_bytes)} of {gib(m.swap_total_bytes)} GiB"
    flow = f"in {rate(m.swap_in_bytes_s)}  out {rate(m.swap_out_bytes_s)} B/s"
    order = NA if isinstance(m.largest_order, Absent) else f"{m.largest_order}"
    out += _text("  swap", f"{swap}   {flow}", width, "warn" if (number(m.swap_out_bytes_s) or 0) > 0 else "text")
    few = known(m.high_order_bytes) and m.high_order_bytes < GIB // 4
    words = _join([
        f"CMA free {size(m.cma_free_bytes)} of {size(m.cma_total_bytes)}",
        f"free in blocks of 2 MiB and more: {size(m.high_order_bytes)}", f"largest order {order}",
    ])  # fmt: skip
    return out + _text("  blocks", words, width, "warn" if few else "text")


def _gpus(sample: Sample, width: int) -> list[Line]:
    if isinstance(sample.gpus, Absent):
        return [_row("GPU", (why_of(sample.gpus), "dim"))]
    out: list[Line] = []
    for gpu in sample.gpus:
        out += _gpu(gpu, width)
    if isinstance(sample.gpu_apps, Absent):
        return [*out, _row("on the GPU", (why_of(sample.gpu_apps), "dim"))]
    for i, app in enumerate(sample.gpu_apps[:8]):
        held = f"{gib(app.used_bytes)} GiB" if known(app.used_bytes) else why_of(app.used_bytes)
        out.append(
            _row("on the GPU" if i == 0 else "", (f"{held:>10}  ", "strong"), (f"{app.pid:>7} ", "dim"),
                 (safe(app.name, limit=100), "text"))
        )  # fmt: skip
    return out if sample.gpu_apps else [*out, _row("on the GPU", ("no process", "dim"))]


def _gpu(gpu: Gpu, width: int) -> list[Line]:
    name = safe(gpu.name) if known(gpu.name) else why_of(gpu.name)
    kind = str(gpu.mem_kind) + " memory" if known(gpu.mem_kind) else ""
    own = f"{gib(gpu.mem_used_bytes)} of {gib(gpu.mem_total_bytes)} GiB" if known(gpu.mem_total_bytes) else ""
    words = _join([
        name, kind, own, f"{whole(gpu.util_percent, ' %')}", f"{whole(gpu.temp_c, ' °C')}",
        f"{one(gpu.power_w)} W", f"{whole(gpu.clock_mhz)} of {whole(gpu.clock_max_mhz)} MHz",
    ])  # fmt: skip
    out = _text(f"GPU {gpu.index}", words, width)
    if known(gpu.throttle) and gpu.throttle:
        out += _text("", f"slowed down by {safe(', '.join(gpu.throttle))}", width, "warn")
    if isinstance(gpu.util_percent, Absent):
        out += _text("", f"utilisation: {why_of(gpu.util_percent)}", width, "dim")
    return out


def _pressure(sample: Sample, width: int) -> list[Line]:
    cpu = sample.cpu
    load = " ".join(one(v) for v in (cpu.load1, cpu.load5, cpu.load15))
    parts = [f"{whole(cpu.percent, ' %')} of {whole(cpu.cores)} cores", f"iowait {whole(cpu.iowait_percent, ' %')}",
             f"load {load}", f"blocked {whole(cpu.blocked)}"]  # fmt: skip
    out = _text("CPU", _join(parts), width)

    def psi(word: str, value: Pressure | Absent) -> str:
        if isinstance(value, Absent):
            return f"{word} {why_of(value)}"
        return f"{word} some {one(value.some10)} full {one(value.full10)}"

    words = _join([psi("memory", sample.psi_memory), psi("io", sample.psi_io), psi("cpu", sample.psi_cpu)])
    return out + _text("stalls, %", words, width)


def _fabric(view: NodeView, sample: Sample, width: int, glyphs: Glyphs) -> list[Line]:
    out: list[Line] = []
    if isinstance(sample.rdma, Absent):
        out.append(_row("RDMA", (why_of(sample.rdma), "dim")))
    else:
        for i, port in enumerate(sample.rdma):
            errors = {k: v for k, v in port.errors.items() if v} if known(port.errors) else {}
            told = "" if errors or isinstance(port.errors, Absent) else "no errors"
            state = safe(port.state) if known(port.state) else why_of(port.state)
            head = f"{fit(safe(port.name), 22)} in {rate(port.rx_bytes_s):>5}  out {rate(port.tx_bytes_s):>5} B/s   "
            down = known(port.state) and "ACTIVE" not in port.state.upper()
            spans: list[Span] = [(head, "text"), (f"{state} ", "warn" if down else "text")]
            spans += [(f"{whole(port.rate_gbit)} Gbit/s  ", "text"), (told, "dim")]
            if errors:
                spans.append((glyphs.warn + " " + ", ".join(f"{safe(k)} +{v}" for k, v in errors.items()), "bad"))
            out += _rows("RDMA" if i == 0 else "", width, *spans)
        if not sample.rdma:
            out.append(_row("RDMA", ("no port", "dim")))
    if isinstance(sample.net, Absent):
        return [*out, _row("interfaces", (why_of(sample.net), "dim"))]
    for i, net in enumerate(sample.net):
        fabric = net.name == view.node.fabric_interface
        bad = (number(net.errors) or 0) + (number(net.drops) or 0)
        state = safe(net.operstate) if known(net.operstate) else NA
        mbit = number(net.speed_mbit)
        speed = NA if mbit is None else f"{mbit / 1000:g} Gbit/s"
        head = f"{fit(safe(net.name), 22)} in {rate(net.rx_bytes_s):>5}  out {rate(net.tx_bytes_s):>5} B/s   "
        out += _rows(
            "interfaces" if i == 0 else "", width, (head, "strong" if fabric else "text"),
            (f"{state}  {speed}  MTU {whole(net.mtu)}  ", "warn" if state == "down" and fabric else "text"),
            (f"errors {whole(net.errors)} drops {whole(net.drops)}", "bad" if bad else "dim"),
            ("  fabric" if fabric else "", "key"),
        )  # fmt: skip
    return out


def _disks(sample: Sample, width: int) -> list[Line]:
    out: list[Line] = []
    if isinstance(sample.disks, Absent):
        out.append(_row("disks", (why_of(sample.disks), "dim")))
    else:
        for i, disk in enumerate(sample.disks[:8]):
            words = (
                f"{fit(safe(disk.name), 22)} read {rate(disk.read_bytes_s):>5}  write {rate(disk.write_bytes_s):>5} B/s"
            )
            busy = f"   busy {whole(disk.busy_percent, ' %')}"
            out += _rows("disks" if i == 0 else "", width, (words, "text"), (busy, "dim"))
    if isinstance(sample.filesystems, Absent):
        return [*out, _row("mounts", (why_of(sample.filesystems), "dim"))]
    for i, fs in enumerate(sample.filesystems[:12]):
        label = "mounts" if i == 0 else ""
        lead = fit(safe(fs.path), max(22, min(44, width - LABEL - 40))) + " "
        if isinstance(fs.available_bytes, Absent):
            out.append(_row(label, (lead, "text"), (why_of(fs.available_bytes), "warn")))
            continue
        kind = safe(fs.kind) if known(fs.kind) else ""
        words = f"{size(fs.available_bytes)} free of {size(fs.total_bytes)}"
        out.append(_row(label, (lead, "text"), (words, "strong"), (f"  {kind}", "dim")))
    return out


def _procs(sample: Sample, width: int) -> list[Line]:
    del width
    if isinstance(sample.procs, Absent):
        return [_row("processes", (why_of(sample.procs), "dim"))]
    top = sorted(sample.procs, key=lambda p: -p.rss_bytes)[:8]
    return [
        _row("processes" if i == 0 else "", (f"{size(p.rss_bytes):>8} ", "strong"),
             (f"{whole(p.cpu_percent, ' %'):>6}  ", "text"), (f"{p.pid:>7} ", "dim"),
             (f"{safe(p.state, limit=4)} ", "warn" if p.state == "D" else "dim"), (safe(p.name, limit=100), "text"))
        for i, p in enumerate(top)
    ]  # fmt: skip


def _containers(sample: Sample, width: int, glyphs: Glyphs) -> list[Line]:
    answer = sample.containers
    if isinstance(answer, Absent):
        return [_row("containers", (why_of(answer), "dim"))]
    out: list[Line] = []
    if answer.why:
        out += _text(
            "containers", f"the engine does not answer: {safe(answer.why)}; {age(answer.age_s)} old", width, "warn"
        )
    for i, row in enumerate(answer.rows[:12]):
        sign, role = (glyphs.fresh, "ok") if row.running else (glyphs.waiting, "dim")
        left = "" if row.running or isinstance(row.exit_code, Absent) else f" exit {row.exit_code}"
        state = safe(row.state) if known(row.state) else why_of(row.state)
        label = "containers" if i == 0 and not answer.why else ""
        words = _join(
            [f"memory {size(row.mem_bytes)}", f"CPU {whole(row.cpu_percent, ' %')}", f"io {rate(row.io_bytes_s)}B/s"]
        )
        name = f"{safe(row.name, limit=80)}   "
        out += _rows(label, width, (f"{sign} {state}{left} ", role), (name, "strong"), (words, "dim"))
    return out


def _host(view: NodeView, sample: Sample, width: int, now: float) -> list[Line]:
    up = clock_span(sample.uptime_s) if known(sample.uptime_s) else why_of(sample.uptime_s)
    offset = number(sample.clock_offset_s)
    boot = safe(sample.boot_id, limit=40) if known(sample.boot_id) else why_of(sample.boot_id)
    out = _text("host", _join([safe(view.node.host), f"fabric {safe(view.node.fabric_address) or NA}",
                               f"up {up}", f"boot id {boot}"]), width)  # fmt: skip
    far = offset is not None and abs(offset) > 2.0
    drift = NA if offset is None else f"{offset:+.2f} s against this console"
    words = _join([f"clock {drift}", f"sample {age(view.age_s)} old", f"frames lost {whole(sample.dropped_frames)}",
                   f"the probe used {one(sample.probe_cpu_s)} s of CPU"])  # fmt: skip
    del now
    return out + _text("clock", words, width, "warn" if far else "text")


def _kernel(sample: Sample, width: int) -> list[Line]:
    if isinstance(sample.kernel, Absent):
        return _text("kernel log", why_of(sample.kernel), width, "dim")
    lines: Sequence[Line] = ()
    if not sample.kernel:
        return [_row("kernel log", ("nothing of note", "dim"))]
    heard_at, uptime = sample.heard_at, sample.uptime_s
    boot_at = heard_at - uptime if known(heard_at) and known(uptime) else None
    out = list(lines)
    for i, line in enumerate(sample.kernel[-12:]):
        at = ""
        if boot_at is not None and known(line.uptime_s):
            at = hhmmss(boot_at + line.uptime_s) + " "
        out += _text("kernel log" if i == 0 else "", at + safe(line.text, limit=400), width, "warn")
    return out
