"""Secrets never reach a screen, a log, a journal or an error in clear."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

MASK: Final = "***"
# A name is secret by its words, not by a substring: HF_TOKEN is, TOKENIZERS_PARALLELISM and MAX_TOKENS are not.
_SECRET_NAME: Final = re.compile(
    r"(?:^|[_\-.])(?:token|secret|password|passwd|passphrase|credentials?|apikey|auth|bearer|cookie)$"
    r"|(?:^|[_\-.])(?:api|access|secret|private|auth|encryption|signing|license)[_\-.]?keys?(?:[_\-.]?id)?$"
    r"|(?:^|[_\-.])(?:token|secret|password)[_\-.](?:value|file_content|id)$"
    r"|^(?:key|pat|pwd)$|[_\-.](?:pat|pwd|jwt)$|(?:password|passwd)$|^(?:jwt|sshpass)$"
    # A pass is a password only of something that has one: there are compiler passes, and passes over data.
    r"|(?:^|[_\-.])(?:db|database|pg|postgres|mysql|mongo|redis|registry|docker|proxy|http|smtp|mail|ftp|ssh|ldap|user"
    r"|admin|root|login|s3|git)[_\-.]?pass$"
    # And a key is a secret of a service that sells access by it: caches, sorting and NCCL have keys too.
    r"|(?:^|[_\-.])(?:openai|anthropic|wandb|hf|huggingface|ngc|nvidia|azure|aws|google|gemini|cohere|mistral|groq"
    r"|together|replicate|deepseek|openrouter|langsmith|pinecone|datadog|comet|neptune|minio|github|gitlab|stripe"
    r"|tavily|serper|account|storage|subscription)[_\-.]keys?$"
    r"|(?:connection|conn)[_\-.]?str(?:ing)?$",
    re.IGNORECASE,
)
# Values that are secret wherever they stand, each looked for only where its hint is. None goes back over what it has
# read: a token of JSON starts only where its run of characters does.
_SECRET_VALUES: Final = tuple(
    (hint, re.compile(shape))
    for hint, shape in (
        ("hf_", r"\bhf_[A-Za-z0-9]{16,}"),
        ("sk-", r"\bsk-[A-Za-z0-9_\-]{16,}"),
        ("gh", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
        ("glpat-", r"\bglpat-[A-Za-z0-9_\-]{16,}"),
        ("nvapi-", r"\bnvapi-[A-Za-z0-9_\-]{16,}"),
        ("xox", r"\bxox[abprs]-[A-Za-z0-9\-]{10,}"),
        ("AKIA", r"\bAKIA[0-9A-Z]{16}"),
        ("eyJ", r"(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{10,}+\.[A-Za-z0-9_\-]{10,}+\.[A-Za-z0-9_\-]{5,}"),
        ("@", r"(?<=://)(?:[^\s/@:]+:[^\s/@]+|[^\s/@:]{16,})(?=@)"),
        # The path of a webhook is its secret: Slack, Discord, Telegram, Teams.
        ("hooks.slack.com/", r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9_\-/]+"),
        ("/api/webhooks/", r"(?<=/api/webhooks/)[0-9]+/[A-Za-z0-9_\-]+"),
        ("api.telegram.org/", r"(?<=api\.telegram\.org/bot)[0-9]+:[A-Za-z0-9_\-]+"),
        ("webhook.office.com/", r"(?<=webhook\.office\.com/)[A-Za-z0-9@_\-/]+"),
    )
)
_NAMES: Final = ("token=", "key=", "secret=", "passw", "credentials=", "signature=", "sig=", "auth=")
_BEARER: Final = re.compile(r"(?i:(?<=bearer )[A-Za-z0-9._\-]{8,})")
# Values that are secret by the name before them: in a URL's query, and in an environment as it is printed.
_NAMED: Final = re.compile(
    r"([?&](?i:[a-z0-9_\-]*(?:token|key|secret|password|passwd|signature|sig|auth))=)[^&\s\"'<>]{4,}"
    r"|(\b(?:[A-Z0-9]+_)*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|CREDENTIALS)"
    r"=[\"']?)[^\s\"']{4,}"
)


def is_secret_name(name: str) -> bool:
    """True when an environment name or a flag's name says that its value is a secret."""
    return _SECRET_NAME.search(name.lstrip("-")) is not None


def mask_text(text: str, values: Iterable[str] = ()) -> str:
    """Text with known secret values and secret-looking words masked."""
    for value in values:
        if len(value) >= 4:
            text = text.replace(value, MASK)
    low = text.lower()
    if "=" in text and any(word in low for word in _NAMES):
        text = _NAMED.sub(_named, text)
    for hint, shape in _SECRET_VALUES:
        if hint in text:
            text = shape.sub(MASK, text)
    return _BEARER.sub(MASK, text) if "bearer " in low else text


def _named(found: re.Match[str]) -> str:
    return f"{found[1] or found[2]}{MASK}"


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """Environment with the values of secret names masked; an empty value stays empty."""
    return {k: (MASK if v and is_secret_name(k) else mask_text(v)) for k, v in env.items()}


def mask_argv(argv: Sequence[str]) -> list[str]:
    """A command with secrets masked: `--api-key X` or `=X`, `-e NAME=X`, `--env=NAME=X`, secret-looking words."""
    out: list[str] = []
    hide_next = False
    for word in argv:
        if hide_next and not word.startswith("--"):
            out.append(MASK)
            continue  # several values may follow one flag
        hide_next = False
        parts = word.split("=")
        if word.startswith("-") and is_secret_name(parts[0]):
            if len(parts) == 1:
                hide_next = True
                out.append(word)
            else:
                out.append(f"{parts[0]}={MASK}")
            continue
        if len(parts) > 1 and any(is_secret_name(p) for p in parts[:-1]):
            at = next(i for i, p in enumerate(parts[:-1]) if is_secret_name(p))
            out.append("=".join(parts[: at + 1]) + "=" + (MASK if "=".join(parts[at + 1 :]) else ""))
            continue
        out.append(mask_text(word))
    return out


def secret_values(env: Mapping[str, str], argv: Sequence[str] = ()) -> frozenset[str]:
    """The secret values of an environment and a command, to be masked wherever they are echoed."""
    found = {v for k, v in env.items() if v and is_secret_name(k)}
    taking = False
    for word in argv:
        if taking and not word.startswith("--"):
            found.add(word)  # several values may follow one flag
            continue
        name, given, value = word.partition("=")
        taking = word.startswith("-") and is_secret_name(name) and not given
        if word.startswith("-") and given and is_secret_name(name):
            found.add(value)
    return frozenset(found)
