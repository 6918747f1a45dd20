"""Genesis and slot time of the beacon chain, as its endpoints state them; asked for again when they prove wrong."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from rollup_node.stages.blobs.beacon_api import BeaconResponseError, SlotClock, choose_clock
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.log.lasting_conditions import RepeatedWarnings
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import FieldValue

log = Logger("blobs")

COMPARE_SECONDS = 2.0
"""How long the other endpoints may take once one has stated both."""

RECHECK_SECONDS = 5.0
"""The shortest time between two rounds of questions."""


class StatesClock(Protocol):
    """An endpoint that is asked; it raises EndpointError and BeaconResponseError."""

    name: str

    async def genesis_time(self) -> int:
        """In Unix seconds."""

    async def slot_milliseconds(self) -> int:
        """Return the slot duration."""


class Statement(NamedTuple):
    """Genesis time and slot duration by one endpoint, None for what it does not answer, and the error then."""

    genesis_time: int | None
    slot_ms: int | None
    error: str

    @property
    def is_complete(self) -> bool:
        """Whether the endpoint has answered both."""
        return self.genesis_time is not None and self.slot_ms is not None


class BeaconClock:
    """Asks all endpoints, as a wrong clock only shows in missing blobs; `slot_seconds` replaces theirs."""

    def __init__(self, endpoints: Sequence[StatesClock], slot_seconds: int | None) -> None:
        self._endpoints, self._slot_ms = endpoints, 1000 * slot_seconds if slot_seconds else None
        self._clock: SlotClock | None = None
        self._asked_at = float("-inf")
        self._is_doubted = False
        self._asking = asyncio.Lock()
        self._warnings = RepeatedWarnings(log)

    def __str__(self) -> str:
        return "unknown genesis time" if self._clock is None else str(self._clock)

    async def slot_at(self, timestamp: int) -> int:
        """Return the slot of a time in seconds. Raises EndpointError until the clock is known, BeforeGenesisError."""
        async with self._asking:
            if self._clock is None or self._is_due():
                await self._ask(timestamp)
            assert self._clock is not None
            return self._clock.slot_at(timestamp)

    def doubt(self) -> None:
        """Has the endpoints asked again: no endpoint has the blobs of a slot [BCN16]."""
        self._is_doubted = True

    def _is_due(self) -> bool:
        return self._is_doubted and time.monotonic() - self._asked_at >= RECHECK_SECONDS

    async def _ask(self, timestamp: int) -> None:
        """Ask all endpoints; keeps the clock known before if none answers."""
        self._asked_at, self._is_doubted = time.monotonic(), False
        statements = await self._statements()
        genesis = [item.genesis_time for item in statements if item.genesis_time is not None]
        durations = [item.slot_ms for item in statements if item.slot_ms is not None]
        if not genesis or not durations:
            if self._clock is None:
                raise EndpointError("Beacon API", "; ".join(item.error for item in statements if item.error))
            return
        before, self._clock = self._clock, choose_clock(genesis, durations, timestamp)
        if len({*genesis}) > 1 or len({*durations}) > 1:
            text = "beacon endpoints contradict each other about genesis time or slot duration"
            stated = {"genesis": ", ".join(map(str, genesis)), "slot_ms": ", ".join(map(str, durations))}
            self._warn("contradiction", text, chosen=str(self._clock), **stated)
        if before is not None and self._clock != before:
            self._warn("change", "beacon endpoints corrected themselves", before=str(before), now=str(self._clock))
        if not self._clock.starts_slot(timestamp):
            text = "no slot starts at the time of an L1 block: the beacon endpoint may belong to another chain"
            self._warn("other chain", text, time=timestamp, clock=str(self._clock))

    def _warn(self, name: str, text: str, **fields: FieldValue) -> None:
        self._warnings.warn(name, text, code=Code.BEACON_CHAIN.text, **fields)

    async def _statements(self) -> list[Statement]:
        """Return what the endpoints state, in their order."""
        tasks = [asyncio.create_task(self._statement(endpoint)) for endpoint in self._endpoints]
        try:
            done, pending = set[asyncio.Task[Statement]](), set(tasks)
            while pending and not any(task.result().is_complete for task in done):
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if pending:
                await asyncio.wait(pending, timeout=COMPARE_SECONDS)
        finally:
            await cancel_all(tasks)
        return [task.result() for task in tasks if not task.cancelled()]

    async def _statement(self, endpoint: StatesClock) -> Statement:
        genesis, error = await _answer(endpoint, endpoint.genesis_time)
        if self._slot_ms is not None:
            return Statement(genesis, self._slot_ms, error)
        slot_ms, other = await _answer(endpoint, endpoint.slot_milliseconds)
        return Statement(genesis, slot_ms, error or other)


async def _answer(endpoint: StatesClock, ask: Callable[[], Awaitable[int]]) -> tuple[int | None, str]:
    try:
        return await ask(), ""
    except EndpointError as error:
        return None, str(error)
    except BeaconResponseError as error:
        return None, f"{endpoint.name}: {error}"
