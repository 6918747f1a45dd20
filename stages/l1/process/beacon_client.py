"""The light client routes of Beacon APIs: one endpoint is asked until it fails, lies or has nothing new [LCP12]."""

import time
from collections.abc import Sequence

from yarl import URL

from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.connection import is_success
from rollup_node.stages.io.http.endpoint_errors import EndpointError, endpoint_name, parsed_url
from rollup_node.stages.io.http.endpoint_record import EndpointRecord, RpcMeter
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import CheckpointConfig
from rollup_node.stages.l1.light_client.beacon_json import MAX_BODY
from rollup_node.stages.messages.base import EndpointCounts
from rollup_node.stages.protocol.foreign_json import shown_body

RPC = "checkpoint"


class LightClientEndpoint:
    """One Beacon API; `timeout` in seconds, `header` None for none."""

    def __init__(self, url: str, timeout: float, header: tuple[str, str] | None, meter: Meter | None = None) -> None:
        self.name = endpoint_name(url)
        self.record = EndpointRecord(RPC, self.name, meter=meter)
        self._base, self._timeout = parsed_url(url) or URL(), timeout
        headers = dict([header] if header else [])
        self._http = HttpClient(url, self.name, lambda: headers)
        self._meter = RpcMeter(meter, RPC)

    async def get(self, path: str, query: Sequence[tuple[str, str]] = (), label: str = "genesis") -> bytes:
        """Return the body of a success, counted under `label`. Raises EndpointError, with the status of a refusal."""
        url = self._base.with_path(f"{self._base.path.rstrip('/')}/{path}").with_query(
            [*self._base.query.items(), *query]
        )
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        try:
            with self._meter.timed(label) as began:
                answer = await self._http.get(url, headers, self._timeout, MAX_BODY)
                self._meter.exchanged(label, len(path), len(answer.body))
                if not is_success(answer.status):
                    words = f": {shown_body(answer.body)}" if answer.body else ""
                    raise EndpointError(self.name, f"HTTP status {answer.status} for /{path}{words}", answer.status)
        except EndpointError as error:
            self.record.failed(error)
            raise
        self.record.answered(time.monotonic() - began)
        return answer.body

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

    @property
    def in_use(self) -> LightClientEndpoint:
        return self.all[self._current]

    def next(self) -> None:
        """Has the next one asked from now on."""
        self._current = (self._current + 1) % len(self.all)

    def counts(self) -> list[EndpointCounts]:
        """How each of them answers."""
        return [endpoint.record.counts(endpoint is self.in_use) for endpoint in self.all]

    async def close(self) -> None:
        for endpoint in self.all:
            await endpoint.close()
