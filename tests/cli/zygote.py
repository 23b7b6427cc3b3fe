"""Consoles that start in milliseconds: a process that has imported everything forks one for each line that it reads.

A line is JSON: argv, and the file for the output. Its answer is the pid, or `{"status": …}` where a pid's end is asked.
"""

from __future__ import annotations

import json
import os
import sys

import console.cli.cmd_launch
import console.cli.cmd_status
import console.transport.ssh_dial  # noqa: F401
from console.assemble import main


def child(argv: list[str], output: str) -> int:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    return main(argv)


def serve() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            _, status = os.waitpid(asked["wait"], 0)
            print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = child(asked["argv"], asked["output"])
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            finally:
                sys.stdout.flush()
                os._exit(code)
        print(json.dumps({"pid": pid}), flush=True)


if __name__ == "__main__":
    serve()
