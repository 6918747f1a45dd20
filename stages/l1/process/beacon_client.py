"""The light client routes of Beacon APIs: one endpoint is asked until it fails, lies or has nothing new [LCP12]."""

import asyncio
import time
from collections.abc import Callable, Sequence

from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.connection import is_success
from rollup_node.stages.io.http.endpoint_errors import EndpointError, endpoint_name
from rollup_node.stages.io.http.endpoint_record import EndpointRecord, RpcMeter
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import CheckpointConfig
from rollup_node.stages.l1.light_client.beacon_json import MAX_BODY
from rollup_node.stages.messages.base import EndpointCounts
from rollup_node.stages.protocol.foreign_json import shown_body

log = Logger("l1")

RPC = "checkpoint"
EVENTS, TOPIC = "eth/v1/events", "light_client_optimistic_update"
LISTEN_SECONDS = 384.0
"""So long one stream of events is read at most."""

LISTEN_AGAIN_SECONDS = 60.0
"""So long after the beginning of one at the earliest the same endpoint is asked for the next."""


class LightClientEndpoint:
    """One Beacon API; `timeout` in seconds, `header` None for none. `verdict` says why it was left for another."""

    def __init__(self, url: str, timeout: float, header: tuple[str, str] | None, meter: Meter | None = None) -> None:
        self.name = endpoint_name(url)
        self.record, self.verdict = EndpointRecord(RPC, self.name, meter=meter), ""
        self._timeout = timeout
        headers = dict([header] if header else [])
        self._http = HttpClient(url, self.name, lambda: headers)
        self._meter = RpcMeter(meter, RPC)

    async def get(self, path: str, query: Sequence[tuple[str, str]] = (), label: str = "genesis") -> bytes:
        """Return the body of a success, counted under `label`. Raises EndpointError, with the status of a refusal."""
        url = self._http.below(path, query)
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        with self._meter.timed(label), self.record.timed():
            answer = await self._http.get(url, headers, self._timeout, MAX_BODY)
            self._meter.exchanged(label, len(path), len(answer.body))
            if not is_success(answer.status):
                words = f": {shown_body(answer.body)}" if answer.body else ""
                raise EndpointError(self.name, f"HTTP status {answer.status} for /{path}{words}", answer.status)
            return answer.body

    async def listen(self, on_update: Callable[[], None]) -> None:
        """Call `on_update` when the endpoint says that there is a new head, until its stream ends or is refused."""

        def take(piece: bytes) -> None:
            # One that is cut in two is found by the polls.
            if TOPIC.encode() in piece:
                self._meter.notified(TOPIC)
                on_update()

        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        try:
            await self._http.get(self._http.below(EVENTS, [("topics", TOPIC)]), headers, LISTEN_SECONDS, MAX_BODY, take)
        except EndpointError as error:
            log.debug("a stream of light client updates ends", endpoint=self.name, error=error)

    def masked(self, text: str) -> str:
        """Return what is to be shown of an answer without the credentials that this endpoint is sent."""
        return self._http.masked(text)

    async def close(self) -> None:
        await self._http.close()


class LightClientEndpoints:
    """The endpoints in a ring: the one that did well last is asked."""

    def __init__(self, config: CheckpointConfig, meter: Meter | None = None) -> None:
        headers = [config.header if index == 0 else None for index in range(len(config.beacons))]
        self.all = tuple(
            LightClientEndpoint(url, config.timeout, header, meter)
            for url, header in zip(config.beacons, headers, strict=True)
        )
        self._current = 0
        self._stream: asyncio.Task[None] | None = None
        self._heard: LightClientEndpoint | None = None
        self._listen_from = 0.0

    @property
    def in_use(self) -> LightClientEndpoint:
        return self.all[self._current]

    def next(self, reason: str = "") -> None:
        """Has the next one asked from now on; `reason` says why, if its record does not."""
        self.in_use.verdict = reason
        self._current = (self._current + 1) % len(self.all)

    def listen(self, on_update: Callable[[], None]) -> None:
        """Have `on_update` called when the one in use says that there is a new head; to be repeated [LCP10]."""
        endpoint, now = self.in_use, time.monotonic()
        if endpoint is self._heard and self._stream is not None:
            if not self._stream.done() or now < self._listen_from:
                return
        elif self._stream is not None:
            self._stream.cancel()
        self._heard, self._listen_from = endpoint, now + LISTEN_AGAIN_SECONDS
        self._stream = asyncio.create_task(endpoint.listen(on_update))

    def counts(self) -> list[EndpointCounts]:
        """How each of them answers."""
        return [endpoint.record.counts(endpoint is self.in_use, endpoint.verdict) for endpoint in self.all]

    async def close(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.wait([self._stream])
        for endpoint in self.all:
            await endpoint.close()
