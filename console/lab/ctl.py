"""`python -m console.lab.ctl DIR set NAME`: change a running lab."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from console.base.errors import ExitCode, NightdeckError
from console.lab.control import ask


def main(argv: list[str]) -> int:
    """DIR is the lab's folder; then `set NAME`, `kill NODE`, `freeze NODE`, `cut NODE`, `heal NODE` or `status`."""
    if len(argv) < 2:
        sys.stderr.write(
            "usage: python -m console.lab.ctl DIR set NAME | kill NODE | freeze NODE | cut NODE | heal NODE | status\n"
        )
        return ExitCode.USAGE
    try:
        state = json.loads((Path(argv[0]) / "lab.json").read_text())
        answer = asyncio.run(ask(Path(state["control"]), do=argv[1], name=argv[2] if len(argv) > 2 else ""))
    except NightdeckError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    except (OSError, ValueError, KeyError, TimeoutError) as e:
        sys.stderr.write(f"no lab answers in {argv[0]}: {e}\n")
        return ExitCode.FAILED
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
