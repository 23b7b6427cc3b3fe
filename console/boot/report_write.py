"""The morning report as text: Markdown, and one HTML page that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from console.base.text import clean_line
from console.boot.figures import lowest_text, ready_text, speed_text
from console.boot.report import Duel, Report, ReportBoot, duels, headline, levels, next_steps
from console.boot.spread import Spread
from console.boot.svg import memory_chart, stage_chart

_HEADS: Final = ("boot", "started UTC", "what", "what changed", "verdict", "ready", "lowest free", "tokens/s")
_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#5b6570;--paper:#fff;--rule:#d8dee4;--low:#c2410c;--line:#9aa4af}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#9aa4af;--paper:#14171b;--rule:#2d333b;--low:#fb923c;
--line:#5b6570}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:920px;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .4rem;border-bottom:1px solid var(--rule)}
h3{font-size:1rem;margin:1.4rem 0 .2rem}p.lead{font-size:1.05rem}p.soft,small{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-size:13px}th{text-align:left;color:var(--soft);font-weight:600}
td,th{padding:.25rem .5rem;border-bottom:1px solid var(--rule);vertical-align:top}td.n,th.n{text-align:right;
white-space:nowrap}table.small{width:auto}td:nth-child(2){white-space:nowrap}
code,pre{font:12.5px/1.45 ui-monospace,monospace}pre{white-space:pre-wrap;word-break:break-word;border-left:3px solid
var(--rule);padding-left:.7rem;margin:.4rem 0}.bad{color:var(--low);font-weight:600}
svg{width:100%;height:auto;margin:.4rem 0}svg .grid{stroke:var(--rule)}svg .mark{stroke:var(--soft);stroke-dasharray:3}
svg text{font:11px system-ui,sans-serif;fill:var(--soft)}svg text.label{fill:var(--ink)}
svg .line{fill:none;stroke:var(--line);stroke-width:1}svg .low{fill:none;stroke:var(--low);stroke-width:2.2}
"""


def markdown(report: Report) -> str:
    out = [f"# {_md(report.title)}", "", f"{_span(report)}", "", headline(report), ""]
    out += ["## Boots", "", "| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS)]
    out += ["| " + " | ".join(_md(c) for c in _cells(b)) + " |" for b in report.boots]
    found = duels(report)
    if found:
        heads = ("lever", "at once", "baseline", "lever's", "verdict")
        out += ["", "## Speed against the baseline", "", _RULE_TEXT, "", "| " + " | ".join(heads) + " |"]
        out += ["|" + "---|" * len(heads)]
        out += ["| " + " | ".join(_md(c) for c in _duel(d)) + " |" for d in found]
    for boot in report.boots:
        out += ["", f"## {boot.name}: {_md(_named(boot))}, {_md(boot.shown_verdict)}", ""]
        out += [f"- changed: `{line.replace('`', chr(39))}`" for line in boot.changed]
        if boot.why:
            out.append(f"- why: {_md(boot.why)}")
        if boot.cause.get("evidence"):
            out += [
                "",
                "```",
                *(clean_line(str(line)).replace("```", "'''") for line in boot.cause["evidence"][:6]),
                "```",
                "",
            ]
        if stages := [f"{_md(k)} {v:.1f} s" for k, v in boot.stages.items() if v >= 0.05]:
            out.append(f"- stages: {', '.join(stages)}")
        out += [f"- {n} at once: {_words(s)} tokens/s" for n, s in levels(boot.record.measure).items()]
        if boot.text("smoke_text"):
            out += ["", f"> {_md(boot.text('smoke_text').strip())}"]
        if boot.text("note"):
            out += ["", f"Note: {_md(boot.text('note'))}"]
    steps = next_steps(report)
    out += ["", "## What to try next", "", *(f"- {_md(s)}" for s in steps or ["Nothing that was seen asks for it."])]
    return "\n".join(out) + "\n"


_RULE_TEXT: Final = (
    "Tokens a second in all: median (lowest-highest). The first round of each is dropped; where the spreads overlap "
    "no winner is called."
)


def html(report: Report) -> str:
    """Every text of a node or an engine is escaped; the page has no script and asks for nothing."""
    e = escape
    out = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{e(report.title)}</title><style>{_STYLE}</style></head><body>",
        f'<h1>{e(report.title)}</h1><p class="soft">{e(_span(report))}</p><p class="lead">{e(headline(report))}</p>',
        "<h2>What to try next</h2><ul>",
        *(f"<li>{e(s)}</li>" for s in next_steps(report) or ["Nothing that was seen asks for it."]),
        "</ul><h2>Boots</h2>",
        _table(
            _HEADS,
            [_cells(b) for b in report.boots],
            numbers=(5, 6, 7),
            bad=[b.bad for b in report.boots],
        ),
        _titled("Stage times", stage_chart([(b.name, b.stages) for b in report.boots])),
    ]
    found = duels(report)
    if found:
        rows = [_duel(d) for d in found]
        out += [
            "<h2>Speed against the baseline</h2>",
            f'<p class="soft">{e(_RULE_TEXT)}</p>',
            _table(("lever", "at once", "baseline", "lever's", "verdict"), rows, numbers=(1,)),
        ]
    for boot in report.boots:
        out += _boot_html(boot)
    return "\n".join(out) + "\n</body></html>\n"


def _boot_html(boot: ReportBoot) -> list[str]:
    e = escape
    bad = ' class="bad"' if boot.bad else ""
    out = [f"<h2>{e(boot.name)}: {e(_named(boot))}, <span{bad}>{e(boot.shown_verdict)}</span></h2>"]
    if boot.changed:
        out.append("<pre>" + e("\n".join(boot.changed)) + "</pre>")
    if boot.why:
        out.append(f'<p><span class="bad">why</span> {e(boot.why)}</p>')
    evidence = boot.cause.get("evidence")
    if isinstance(evidence, list) and evidence:
        out.append("<pre>" + e("\n".join(clean_line(str(line)) for line in evidence[:6])) + "</pre>")
    ready, ended = boot.number("ready_s"), boot.number("ended_at")
    marks = [(ready, "ready")] if ready is not None else []
    if boot.verdict == "failed" and ended is not None:
        marks.append((ended - boot.started_at, "failed"))
    chart = memory_chart(boot.memory, seconds=0.0, marks=marks)
    if chart:
        out += ["<h3>Memory available, the least of ten seconds</h3>", chart]
    rows = [(str(n), _words(s)) for n, s in levels(boot.record.measure).items()]
    if rows:
        out += ["<h3>Speed</h3>", _table(("at once", "tokens/s in all"), rows, numbers=(0,), small=True)]
    if boot.text("smoke_text"):
        out += ["<h3>It said</h3>", f"<pre>{e(boot.text('smoke_text').strip())}</pre>"]
    if boot.text("note"):
        out.append(f"<p>Note: {e(boot.text('note'))}</p>")
    return out


def _named(boot: ReportBoot) -> str:
    slug = boot.record.recipe_slug
    return f"{boot.label} ({slug})" if boot.label and boot.label != slug else slug


def _titled(title: str, chart: str) -> str:
    return f"<h2>{escape(title)}</h2>{chart}" if chart else ""


def _table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    bad: Sequence[bool] = (),
    small: bool = False,
) -> str:
    out = [
        f"<table{' class=small' if small else ''}><tr>",
        *(f"<th{' class=n' if i in numbers else ''}>{escape(h)}</th>" for i, h in enumerate(heads)),
        "</tr>",
    ]
    for n, row in enumerate(rows):
        cells = [f"<td{' class=n' if i in numbers else ''}>{escape(c)}</td>" for i, c in enumerate(row)]
        if n < len(bad) and bad[n]:
            cells[4] = f'<td class="bad">{escape(row[4])}</td>'
        out.append("<tr>" + "".join(cells) + "</tr>")
    return "".join(out) + "</table>"


def _cells(boot: ReportBoot) -> list[str]:
    ready, rate, low = boot.number("ready_s"), boot.number("tokens_per_s"), boot.lowest_bytes
    return [
        str(boot.record.number),
        datetime.fromtimestamp(boot.started_at, UTC).strftime("%m-%d %H:%M"),
        boot.label or boot.record.recipe_slug,
        "; ".join(boot.changed) or ("nothing" if boot.from_baseline is None else "the baseline's recipe"),
        boot.shown_verdict,
        ready_text(ready, boot.text("ready_by")),
        lowest_text(low) + (f" ({boot.unseen})" if boot.unseen and low is not None else ""),
        speed_text(rate),
    ]


def _duel(duel: Duel) -> list[str]:
    return [duel.label, str(duel.concurrency), _words(duel.baseline), _words(duel.lever), duel.verdict]


def _words(found: Spread) -> str:
    return f"{found.median:.1f} ({found.low:.1f}-{found.high:.1f}, {found.n} rounds)"


def _span(report: Report) -> str:
    a, b = (datetime.fromtimestamp(t, UTC) for t in (report.from_at, report.to_at))
    return f"{a:%Y-%m-%d %H:%M} to {b:%Y-%m-%d %H:%M} UTC"


def _md(text: str) -> str:
    """Text that a table or a heading of Markdown cannot take for its own marks."""
    out = clean_line(" ".join(text.split()))
    for mark in ("\\", "|", "<", "*", "_", "`", "[", "]"):
        out = out.replace(mark, "\\" + mark)
    return out
