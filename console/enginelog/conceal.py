"""Secrets that an engine prints in its own argument lines, masked before anything else reads them."""

from __future__ import annotations

import re
from typing import Final

from console.base.secrets import MASK, mask_text

# Substrings without which a line is taken to hold none: each costs a scan of every chunk, so these are what engines are
# known to print. Values that a recipe gives are masked by value, see `Decoder`.
SECRET_HINTS: Final = ("api_key", "hf_", "sk-", "Bearer ", "assword", "@")
# What is kept for years is looked through for everything that `mask_text` knows by its look.
_FILE_HINTS: Final = (
    *(hint.encode() for hint in SECRET_HINTS), b"bearer ", b"BEARER ", b"eyJ", b"AKIA", b"ghp_", b"gho_", b"ghu_",
    b"ghs_", b"ghr_", b"github_pat_", b"glpat-", b"nvapi-", b"xoxa-", b"xoxb-", b"xoxp-", b"xoxr-", b"xoxs-",
    b"hooks.slack", b"/webhooks/", b"api.telegram", b"webhook.office", b"TOKEN=", b"SECRET=", b"PASSWORD=", b"PASSWD=",
    b"KEY=", b"CREDENTIALS=", b"token=", b"key=", b"sig=", b"signature=", b"secret=", b"auth=",
)  # fmt: skip
_ARGUMENTS: Final = ("api_key", "api-key", "hf_token", "password", "secret", "token")
# Older versions print `'api_key': ['...']` in clear in "non-default args"; a Namespace prints `api_key='...'`.
_ARGUMENT: Final = re.compile(
    r"""((?:api[_-]key|hf_token|password|secret|token)['"]?\s{0,4}[:=]\s{0,4})(\[[^\]]{0,2000}\]?|'[^']{0,2000}'?|"[^"]{0,2000}"?)""",
    re.IGNORECASE,
)


def conceal_arguments(line: str) -> str:
    """The line with values of secret arguments and secret-looking words masked; an empty or None value stays."""
    # Written out: every line of an unknown shape comes by here.
    if (
        "@" not in line
        and "hf_" not in line
        and "sk-" not in line
        and "api_key" not in line
        and "assword" not in line
        and "Bearer " not in line
    ):
        return line
    low = line.lower()
    if any(word in low for word in _ARGUMENTS):
        line = _ARGUMENT.sub(_masked, line)
    return mask_text(line)


def conceal_bytes(data: bytes) -> bytes:
    """Whole lines as they go to a file, with all that `conceal_arguments` and `mask_text` know masked; every other
    byte stays, also one that is no text. A chunk without any hint costs some scans and no copy."""
    if not any(hint in data for hint in _FILE_HINTS):
        return data
    lines = data.split(b"\n")
    for at, line in enumerate(lines):
        if any(hint in line for hint in _FILE_HINTS):
            text = line.decode("utf-8", "surrogateescape")
            said = conceal_arguments(text)
            lines[at] = (said if said != text else mask_text(text)).encode("utf-8", "surrogateescape")
    return b"\n".join(lines)


def _masked(found: re.Match[str]) -> str:
    value = found[2]
    return found[0] if value in ("''", '""', "[]") else f"{found[1]}'{MASK}'"
