"""What makes a machine go on with an interrupted night after its own reboot: shown, never installed unasked."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

UNIT = "nightdeck-night.service"
# What decides where the night is kept and how nodes are reached; a service is started with none of it.
KEPT = ("NIGHTDECK_STATE_DIR", "NIGHTDECK_CONFIG_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")


def command() -> list[str]:
    """How this nightdeck is started, whole, for a shell that knows no PATH of ours."""
    found = shutil.which("nightdeck")
    mine = Path(sys.executable).with_name("nightdeck")
    if mine.is_file():
        found = str(mine)
    return [found] if found else [sys.executable, "-P", "-m", "console"]


def unit_text(words: list[str], env: Mapping[str, str]) -> str:
    """A systemd user unit. words: how nightdeck is started. env: of the asking process."""
    kept = "".join(f"Environment={_quoted(f'{key}={env[key]}')}\n" for key in KEPT if env.get(key))
    start = " ".join(_quoted(word.replace("$", "$$")) for word in words)
    return f"""\
[Unit]
Description=nightdeck: go on with a night that was interrupted
StartLimitIntervalSec=3600
StartLimitBurst=5

[Service]
{kept}ExecStart={start} night resume --if-interrupted --foreground
Restart=on-failure
RestartSec=30

[Install]
WantedBy=default.target
"""


def _quoted(word: str) -> str:
    """A word of a unit file: systemd expands %, and reads backslashes and quotes."""
    safe = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{safe}"' if safe != word or " " in word else word


def cron_line(words: list[str], env: Mapping[str, str]) -> str:
    """The same for a crontab; a `%` is a newline to cron."""
    kept = [f"{key}={env[key]}" for key in KEPT if env.get(key)]
    line = shlex.join([*(["env", *kept] if kept else []), *words, "night", "resume", "--if-interrupted"])
    return "@reboot " + line.replace("%", "\\%")


def how_to(words: list[str], env: Mapping[str, str]) -> str:
    """What to do with the unit, in words."""
    return f"""\
This is a systemd user unit; nothing was installed. To have it:
  mkdir -p ~/.config/systemd/user
  nightdeck night resume --print-unit > ~/.config/systemd/user/{UNIT}
  systemctl --user daemon-reload
  systemctl --user enable {UNIT}
  loginctl enable-linger {env.get("USER") or '"$USER"'}      # so that it starts without a login
Or without systemd, in your crontab (crontab -e):
  {cron_line(words, env)}
No ssh agent runs then: the nodes must be reached with a key file that asks for no passphrase."""


def print_unit_of() -> tuple[str, str]:
    """The unit, and the words for whoever reads it."""
    words = command()
    return unit_text(words, os.environ), how_to(words, os.environ)
