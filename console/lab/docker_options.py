"""Flags of one docker subcommand."""

from __future__ import annotations

from console.lab.docker_run import BadFlag


class Options:
    """Flags of one subcommand, by the names that it takes; `values` take a word, `switches` do not."""

    def __init__(
        self, args: list[str], values: str = "", switches: str = "", short: dict[str, str] | None = None
    ) -> None:
        self.values: dict[str, list[str]] = {}
        self.on: set[str] = set()
        self.rest: list[str] = []
        words = list(args)
        with_value, without = set(values.split()), set(switches.split())
        while words:
            word = words.pop(0)
            if word == "--":
                self.rest += words
                break
            if not word.startswith("-") or word == "-":
                self.rest.append(word)
                continue
            name, sep, value = word.lstrip("-").partition("=")
            if not word.startswith("--"):
                bundle = [(short or {}).get(c, c) for c in name]
                if all(b in without for b in bundle):
                    self.on.update(bundle)
                    continue
                name, value, sep = bundle[0], name[1:] + sep + value, "=" if name[1:] else sep
            if name in with_value:
                if not sep and not words:
                    raise BadFlag(f"flag needs an argument: --{name}")
                self.values.setdefault(name, []).append(value if sep else words.pop(0))
            elif name in without:
                if value != "false":
                    self.on.add(name)
            else:
                raise BadFlag(
                    f"unknown flag: --{name}"
                    if word.startswith("--")
                    else f"unknown shorthand flag: '{name}' in {word}"
                )

    def last(self, name: str, default: str = "") -> str:
        return self.values.get(name, [default])[-1]

    def filters(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for text in self.values.get("filter", []):
            key, sep, value = text.partition("=")
            if not sep:
                raise BadFlag(f'invalid argument "{text}" for "-f, --filter" flag: invalid filter \'{text}\'')
            found.setdefault(key.lower(), []).append(value)
        return found
