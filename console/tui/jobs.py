"""Tasks that the face started: each has an owner, a name, and an end when the console closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Jobs:
    """Named tasks. A screen that closes does not end them; `close` does, and waits for their clean-up."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], str] = {}

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A fault of the console itself, not of an action: the loop's handler shows it.
            task.get_loop().call_exception_handler({"message": f"job {task.get_name()}", "exception": error})

    def running(self, word: str) -> bool:
        """True while a job whose name begins with `word` runs."""
        return any(name.startswith(word) for name in self._tasks.values())

    def cancel(self, word: str) -> None:
        for task, name in list(self._tasks.items()):
            if name.startswith(word):
                task.cancel()

    async def close(self) -> None:
        """Cancel all and wait until each has cleaned up."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def idle(self) -> None:
        """Wait until nothing runs: for tests."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))
