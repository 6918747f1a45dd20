"""What a process is made of: activities that the runtime drives, one step at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass
class PeriodicTask:
    """A loop without its loop: `step` does one bounded piece of work and says how many seconds may pass before the
    next one; setting `wake` ends the pause early. The runtime repeats steps, backs off after temporary errors,
    and is the only one who catches severities."""

    name: str
    step: Callable[[], Awaitable[float]]
    wake: asyncio.Event = field(default_factory=asyncio.Event)


EXIT_REPORTED = 2
"""The code of a one-shot stage that could not do its work and has told the user why."""


class ExitRequested(Exception):
    """Raised by a step of a one-shot stage: all its work is done, and the process ends in order with exit `code`."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code


class Stage(Protocol):
    """What a stage's `process.build(config, bus, metrics)` returns."""

    activities: Sequence[PeriodicTask]

    async def start(self) -> None:
        """Opens clients; runs before the first step. Must not wait for an endpoint."""

    async def close(self) -> None:
        """Closes clients; at most 2 seconds."""

    def reset(self, error: Exception) -> None:
        """Called by the runtime when a step ended in a ResetError."""

    def report(self, problems: tuple[str, ...]) -> None:
        """Takes what the runtime knows to be wrong now (one line each, empty when all is well) for `/readyz`."""
