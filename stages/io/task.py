"""What the runtime drives in a process: a stage and its periodic tasks, which publish their counts [RPC94]."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rollup_node.stages.messages.base import Message, Problem

PUBLISH_SECONDS = 1.0
LATE_SECONDS = 2.0
EXIT_REPORTED = 2
"""Exit code of a one-shot stage that failed and printed the reason."""


@dataclass
class PeriodicTask:
    """Work that is repeated; the runtime backs off after a TemporaryError.

    `step` does one bounded piece and returns the seconds until the next; setting `wake` ends that pause early. With
    `is_aligned` a pause ends at a multiple of its length, so that the process wakes up once for all. `late` is the
    problem while a step takes longer than LATE_SECONDS."""

    name: str
    step: Callable[[], Awaitable[float]]
    is_aligned: bool = field(default=False, kw_only=True)
    late: Problem | None = field(default=None, kw_only=True)
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class ExitRequested(Exception):
    """Raised by a step of a one-shot stage when its work is done: the process shuts down and exits with `code`."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code


class Stage:
    """What `build(config, bus, meter)` of a stage's module returns; without methods of its own it does nothing.

    The runtime runs the `periodic_tasks`, the same for the life of the stage."""

    periodic_tasks: Sequence[PeriodicTask] = ()
    runtime_problems: tuple[Problem, ...] = ()

    async def start(self) -> None:
        """Open clients; runs before the first step. Must not wait for an endpoint."""

    async def close(self) -> None:
        """Close clients, within 2 seconds."""

    def reset(self, error: Exception) -> None:
        """Act on the ResetError that a step raised."""

    def report(self, problems: tuple[Problem, ...]) -> None:
        """Take the present problems of this process for `/readyz`, one line each; empty when there are none."""
        self.runtime_problems = problems
        self.publish_health()

    def publish_health(self) -> None:
        """Publish the problems of the runtime with the stage's own."""


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait until all have ended."""
    tasks = tuple(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class ProcessEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One process in processes.json; the kernel's `start_ticks` tell it from a later one with its pid.

    `chain` is the L2 chain id of a process that works for one of several chains."""

    role: str
    copy: int
    pid: int
    incarnation: int
    started: float
    start_ticks: int
    chain: str = ""


class ChainAside(msgspec.Struct, frozen=True):
    """A chain of several whose processes are stopped until a time, in aside.json; times are Unix seconds [LIF34].

    `code` is the text of that of the cause."""

    chain: str
    code: str
    reason: str
    since: float
    until: float


class ReloadResult(msgspec.Struct, frozen=True):
    """What a reload of the options did, which began at a time of the monotonic clock.

    Options that are taken over, roles whose processes are restarted for them, and options that are not taken over
    before a restart; or the error for which nothing is changed."""

    began: float
    changed: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    need_restart: tuple[str, ...] = ()
    error: str = ""


class PacedPublisher:
    """Publishes what is made of counts when it is due. `clock` is monotonic."""

    def __init__(self, publish: Callable[[Message], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._publish, self._clock = publish, clock
        self._due = float("-inf")

    def step(self, *states: Callable[[], Message | None]) -> None:
        """Publish the states if the last time was PUBLISH_SECONDS ago; none for None."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + PUBLISH_SECONDS
        for state in states:
            if (message := state()) is not None:
                self._publish(message)
