"""One rank's passage through the stages of its boot, as its own log bears it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from console.base.absent import Absent
from console.enginelog import phrases as say
from console.enginelog.listener import MOST_WRITERS, Listener
from console.enginelog.progress import Bar, parse_bar
from console.enginelog.records import Record
from console.enginelog.stages_model import Stage
from console.enginelog.stats import EngineStats, parse_stats

NO_STATS: Final = Absent("no statistics line yet")
# Request logging prints what users wrote, and a user may write anything.
_QUOTES_A_USER: Final = "Received request"
_MOST_PASSES: Final = 8


class StageTracker(Listener):
    """Feeds on one rank's records in the order of the log, which for docker is not quite the order of time: stdout and
    stderr pass each other. SMOKE and SERVING are never set here: the console's own requests decide them.

    rank None is a rank not known, taken as the head. stats: the latest statistics line. ready: the engine has said
    "Application startup complete". stopping: it was asked to stop, so what follows is no crash. failed_line: index of
    the line by which the engine itself gave up; it names a victim as often as a cause.
    """

    def __init__(self, rank: int | None = None, world_size: int | None = None, is_head: bool | None = None) -> None:
        super().__init__(is_head if is_head is not None else rank in (0, None), world_size)
        self.rank = rank
        self.stats: EngineStats | Absent = NO_STATS
        self.ready = False
        self.stopping = False
        self.failed_line: int | None = None
        self.records = 0
        self._waiting: set[int] = set()
        self._joined: set[int] = set()
        self._passes: dict[int | None, list[float]] = {}
        self._most_passes = 0
        self._engram: dict[int | None, float] = {}
        self._engram_most = 0.0
        self._loaded: set[int | None] = set()
        self._captured: set[int | None] = set()
        self._bar_since_pass = False
        self._handlers: dict[str, Callable[[str, Record], None]] = {
            name: getattr(self, f"_on_{name}") for name in say.PHRASES
        }
        self._index = say.Index()
        self._network_known = False

    def feed(self, records: Iterable[Record]) -> None:
        handlers = self._handlers
        label, states = "", list[Record]()
        for record in records:
            self.records += 1
            text, kind, hints = record.text, record.kind, record.hints
            if kind == "progress":
                if label and text.startswith(label):
                    states.append(record)
                    continue
                self._on_states(states)
                label = say.label(text) if self._on_bar(text, record) else ""
                continue
            if label and text:
                self._on_states(states)
                label = ""
            if kind == "uvicorn" and (self.ready or (Stage.HTTP in self._closed and "startup" not in text)):
                continue
            if kind == "nccl" and self._network_known and "NET/Socket" not in text:
                continue
            if hints is not None:
                names = hints.phrases
                if not names:
                    if self._opened and kind != "raw":
                        continue
                elif hints.ask and not all(say.EACH[name].search(text) for name in hints.ask):
                    names = self._index.names(text)
            else:
                names = self._index.names(text)
            if not names:
                if kind == "raw" and ": error: " in text:
                    self._on_fatal(text, record)
                elif not self._opened and kind == "engine":
                    self._open(Stage.ARGUMENTS, record)
                continue
            if _QUOTES_A_USER in text:
                continue
            if Stage.ARGUMENTS not in self._opened:
                self._open(Stage.ARGUMENTS, record)
            for name in names:
                handlers[name](text, record)
        self._on_states(states)

    def watch(self, partial: str) -> None:
        """A progress bar whose line has not ended yet (`Decoder.partial`): moves `progress`, opens no stage."""
        bar = parse_bar(partial)
        if bar is not None and self._wants(bar):
            self.progress = bar

    @property
    def joined(self) -> frozenset[int]:
        """Ranks that this stream says have been placed in the world."""
        return frozenset(self._joined)

    @property
    def waiting(self) -> frozenset[int]:
        """Ranks that this stream says have begun to wait for the world."""
        return frozenset(self._waiting)

    @property
    def weights_pass(self) -> int | Absent:
        """1 while the main model's weights load, 2 while the draft's do; the last one once they are loaded."""
        if Stage.WEIGHTS not in self._opened:
            return Absent("weights are not loading yet")
        done = self._most_passes
        if done == 0:
            return 1
        more = self._bar_since_pass or done < self.passes_expected
        return done + 1 if more and self._floor <= Stage.WEIGHTS else done

    def _on_states(self, states: list[Record]) -> None:
        """Of a bar's many states after the first the last one counts."""
        while states:
            record = states.pop()
            if self._on_bar(record.text, record):
                states.clear()

    def _on_bar(self, text: str, record: Record) -> bool:
        """False: it is none, whatever it looks like."""
        bar = parse_bar(text)
        if bar is None:
            return False
        if bar.is_shards:
            if not self.reached(Stage.LOADED):
                self._open(Stage.WEIGHTS, record)
                self._bar_since_pass = True
                self.progress = bar
                self._details[Stage.WEIGHTS] = self._weights_detail(bar)
        elif bar.is_graphs:
            self._capture(record, f"{bar.done}/{bar.total}")
            if self._wants(bar):
                self.progress = bar
        elif "warmup" in bar.label.lower():
            self._on_warmup(text, record)
        return True

    def _wants(self, bar: Bar) -> bool:
        if bar.is_shards:
            return not self.reached(Stage.LOADED)
        return bar.is_graphs and self._floor <= Stage.GRAPHS

    def _weights_detail(self, bar: Bar) -> str:
        left = ""
        if not isinstance(bar.remaining_s, Absent):
            left = f" {int(bar.remaining_s) // 60}:{int(bar.remaining_s) % 60:02d}"
        which = f" pass {self.weights_pass}" if self.passes_expected > 1 else ""
        return f"{int(bar.fraction * 100)}%{left}{which}"

    def _capture(self, record: Record, detail: str) -> None:
        """Graphs are captured twice: to size them before the KV cache is cut, and for good after it."""
        self._open(Stage.GRAPHS if self.reached(Stage.KV_CACHE) else Stage.PROFILE, record, detail)

    def _on_engram(self, text: str, record: Record) -> None:
        self._open(Stage.MODEL, record)
        mode = "pinned host" if "pinned host" in text else "disk" if "DISK" in text or "node-local" in text else None
        if mode is not None:
            self._know("engram_mode", mode)
            self._details[Stage.MODEL] = f"Engram {mode}"
        if " GiB " in text and (found := say.GIB_PER_RANK.search(text)):
            pid = record.pid
            if pid not in self._engram and len(self._engram) >= MOST_WRITERS:
                return
            self._engram[pid] = size = self._engram.get(pid, 0.0) + say.number(found[1])
            self._engram_most = max(self._engram_most, size)
            self._know("engram_gib", round(self._engram_most, 3))

    def _on_world(self, text: str, record: Record) -> None:
        found = say.WORLD.search(text)
        if found is None:
            return
        size, rank = int(found[1]), int(found[2])
        if len(self._waiting) < MOST_WRITERS:
            self._waiting.add(rank)
        self._know("world_size", size)
        self._know("log_rank", rank, once=True)
        address, self.backend = found[3], found[4]
        self._know("backend", self.backend)
        if address.startswith("tcp://"):
            self._know("master", address[6:], once=True)
        if self.backend == "gloo":
            self._skipped.add(Stage.NCCL)
        self._open(Stage.RENDEZVOUS, record, "waiting" if self._floor <= Stage.RENDEZVOUS else "")

    def _on_joined(self, text: str, record: Record) -> None:
        found = say.JOINED.search(text)
        if found is None:
            return
        if len(self._joined) >= MOST_WRITERS:
            return
        rank = int(found[1])
        self._know("world_size", int(found[2]))
        self._know("log_rank", rank, once=True)
        if rank not in self._joined:
            self._joined.add(rank)
            self._know("joined", tuple(sorted(self._joined)))
        if self._waiting <= self._joined:
            self._details[Stage.RENDEZVOUS] = "joined"
            if Stage.NCCL not in self._opened:
                self._close(Stage.RENDEZVOUS, record)
            self._close(Stage.NCCL, record)
            self._open(Stage.MODEL, record)

    def _on_clients(self, text: str, record: Record) -> None:
        if found := say.CLIENTS.search(text):
            self._know("joined_of", (int(found[1]), int(found[2])))
            self._details[Stage.RENDEZVOUS] = f"{found[1]}/{found[2]}"

    def _on_nccl(self, text: str, record: Record) -> None:
        # Inferred: a communicator is only made once the store has every rank, so the rendezvous is over.
        self._open(Stage.NCCL, record)

    def _on_nccl_version(self, text: str, record: Record) -> None:
        if "nccl_version" not in self._known and (found := say.NCCL_VERSION.search(text)):
            self._know("nccl_version", found[1] or found[2])
        self._on_nccl(text, record)

    def _on_network(self, text: str, record: Record) -> None:
        found = say.NETWORK.search(text)
        if found is None:
            return
        hcas = say.HCA.findall(text)
        if hcas:
            self._know("hcas", tuple(name for name, _ in hcas))
        word = found[1] or found[2] or found[3]
        if word == "IB":
            roce = any(kind == "RoCE" for _, kind in hcas) or self._known.get("transport") == "RoCE"
            word = "RoCE" if roce else "IB"
        self._network_known = self._network_known or found[3] is None
        # What a communicator uses outweighs what a plugin found.
        if found[1] or found[2] or "transport" not in self._known:
            self._know("transport", word)
            self._details[Stage.NCCL] = "TCP fallback" if word == "Socket" else word
        self._on_nccl(text, record)

    def _on_model(self, text: str, record: Record) -> None:
        self._open(Stage.MODEL, record)

    def _on_filesystem(self, text: str, record: Record) -> None:
        self._first("checkpoint_fs", say.FILESYSTEM, text)
        self._take("checkpoint_gib", say.CHECKPOINT, text)
        self._take("checkpoint_ram_gib", say.RAM, text)
        self._open(Stage.WEIGHTS, record)

    def _on_weights(self, text: str, record: Record) -> None:
        self._open(Stage.WEIGHTS, record)
        self._bar_since_pass = False
        found = say.WEIGHTS_TOOK.search(text)
        if found is None or (record.pid not in self._passes and len(self._passes) >= MOST_WRITERS):
            return
        passes = self._passes.setdefault(record.pid, [])
        if len(passes) < _MOST_PASSES:
            passes.append(say.number(found[1]))
        if len(passes) >= self._most_passes:
            self._most_passes = len(passes)
            self._know("weights_s", next(tuple(p) for p in self._passes.values() if len(p) == self._most_passes))
        self._details[Stage.WEIGHTS] = " + ".join(f"{s:.0f} s" for s in passes)

    def _on_loaded(self, text: str, record: Record) -> None:
        found = say.LOADED.search(text)
        if found is None:
            return
        if len(self._loaded) < MOST_WRITERS:
            self._loaded.add(record.pid)
        self._know("model_gib", max(say.number(found[1]), self._known.get("model_gib", 0.0)))
        self._know("load_s", max(say.number(found[2]), self._known.get("load_s", 0.0)))
        if len(self._loaded) >= len(self._waiting):
            self._open(Stage.LOADED, record, f"{self._known['model_gib']:.2f} GiB")

    def _on_profile(self, text: str, record: Record) -> None:
        if not self.reached(Stage.KV_CACHE):
            self._open(Stage.PROFILE, record)

    def _on_capturing(self, text: str, record: Record) -> None:
        self._capture(record, "")

    def _on_captured(self, text: str, record: Record) -> None:
        found = say.CAPTURED.search(text)
        if found is None:
            return
        took = (say.number(found[1]), say.number(found[2]))
        final = self.reached(Stage.KV_CACHE)
        self._know("graphs" if final else "sizing_graphs", took)
        self._capture(record, f"{took[0]:.0f} s {took[1]:.2f} GiB")
        if final:
            if len(self._captured) < MOST_WRITERS:
                self._captured.add(record.pid)
            if len(self._captured) >= len(self._waiting):
                self._close(Stage.GRAPHS, record)

    def _on_kv_memory(self, text: str, record: Record) -> None:
        size = self._take("kv_gib", say.KV_MEMORY, text, once=False)
        if size is None:
            size = self._take("kv_gib", say.KV_FIXED, text, once=False)
            if size is not None and Stage.PROFILE not in self._opened:
                # Memory given by the operator leaves nothing to measure.
                self._skipped.add(Stage.PROFILE)
        if size is not None:
            self._open(Stage.KV_CACHE, record, f"{size:.2f} GiB")

    def _on_kv_size(self, text: str, record: Record) -> None:
        if found := say.KV_SIZE.search(text):
            self._know("kv_tokens", int(say.number(found[1])))
            self._open(Stage.KV_CACHE, record, f"{found[1]} tok")
        if found := say.CONCURRENCY.search(text):
            self._know("max_context", int(say.number(found[1])))
            self._know("concurrency", say.number(found[2]))

    def _on_warmup(self, text: str, record: Record) -> None:
        self._take("warmup_s", say.WARMUP_TOOK, text)
        if self.reached(Stage.KV_CACHE):
            self._open(Stage.WARMUP, record)
        elif self.reached(Stage.LOADED):
            self._open(Stage.PROFILE, record)

    def _on_settled(self, text: str, record: Record) -> None:
        if self.reached(Stage.KV_CACHE):
            self._close(Stage.GRAPHS, record)

    def _on_init(self, text: str, record: Record) -> None:
        self._take("init_s", say.INIT_TOOK, text)
        self._close(Stage.GRAPHS, record)

    def _on_http(self, text: str, record: Record) -> None:
        self._first("api_url", say.URL, text)
        self._open(Stage.HTTP, record, "starting" if not self.ready else "")

    def _on_ready(self, text: str, record: Record) -> None:
        if record.level in ("ERROR", "CRITICAL") or record.continuation:
            return
        self.ready = True
        self._open(Stage.HTTP, record, "up")
        self._close(Stage.HTTP, record)

    def _on_served(self, text: str, record: Record) -> None:
        # Uvicorn answers nothing before its start-up is complete: a tail that begins later still shows that it was.
        if record.kind == "uvicorn" and self.is_head and say.SERVED.search(text):
            self._open(Stage.HTTP, record, "up")
            self._close(Stage.HTTP, record, inferred=True)

    def _on_stats(self, text: str, record: Record) -> None:
        before = None if isinstance(self.stats, Absent) else self.stats
        after = parse_stats(record, before)
        if after is not None:
            self.stats = after

    def _on_stopping(self, text: str, record: Record) -> None:
        # The teardown after a failure uses the same words: a failed rank is not one that was asked to stop.
        self.stopping = self.stopping or not self._failed

    def _on_fatal(self, text: str, record: Record) -> None:
        if self.stopping or self._failed or say.FATAL.search(text) is None:
            return
        if Stage.ARGUMENTS not in self._opened:
            self._open(Stage.ARGUMENTS, record)
        self.failed_line = record.index
        self.fail(record.docker_at)

    # SGLang. Inferred from its public source; no captured log bears it out yet.

    def _on_sgl_arguments(self, text: str, record: Record) -> None:
        self._open(Stage.ARGUMENTS, record)

    def _on_sgl_rendezvous(self, text: str, record: Record) -> None:
        self._open(Stage.RENDEZVOUS, record, "waiting")

    def _on_sgl_joined(self, text: str, record: Record) -> None:
        self._open(Stage.MODEL, record)

    def _on_sgl_weights(self, text: str, record: Record) -> None:
        self._open(Stage.WEIGHTS, record)

    def _on_sgl_loaded(self, text: str, record: Record) -> None:
        size = self._take("model_gib", say.SGL_MEM, text)
        self._open(Stage.LOADED, record, "" if size is None else f"{size:.2f} GB")

    def _on_sgl_kv(self, text: str, record: Record) -> None:
        if found := say.SGL_TOKENS.search(text):
            self._know("kv_tokens", int(say.number(found[1])))
            self._open(Stage.KV_CACHE, record, f"{found[1]} tok")

    def _on_sgl_graphs(self, text: str, record: Record) -> None:
        self._open(Stage.GRAPHS, record)
        if "end" in text:
            self._close(Stage.GRAPHS, record)

    def _on_sgl_ready(self, text: str, record: Record) -> None:
        self._on_ready(text, record)
