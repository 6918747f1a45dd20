"""Client of `derivation.drops`: reads everything that derivation drops, in order and without gaps."""

import time
from collections.abc import Callable

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.messages.derivation import Drop, DropsRequest, DropsResponse

REPEAT_SECONDS = 0.2


class DropsClient:
    """Requests page after page of drops; `wake` is called when a page with drops has arrived. `lost` counts drops that
    derivation discarded from its buffer before they were requested."""

    def __init__(self, bus: Bus, wake: Callable[[], None]) -> None:
        self.lost = 0
        self._wake = wake
        self._next = 0
        self._received: list[Drop] = []
        self._request_id = 0
        self._requested_at = 0.0
        self._answered_id = 0
        self._total = 0
        self._client = bus.connect("derivation.drops", self._receive)

    def request(self) -> int:
        """Requests the drops after those received. Returns the id of the request."""
        self._request_id += 1
        self._requested_at = time.monotonic()
        self._client.send(DropsRequest(self._request_id, self._next))
        return self._request_id

    def request_if_due(self) -> None:
        """Requests the next page if the last request was sent more than REPEAT_SECONDS ago."""
        if time.monotonic() - self._requested_at > REPEAT_SECONDS:
            self.request()

    def take(self) -> list[Drop]:
        """Removes and returns the received drops, oldest first."""
        drops, self._received = self._received, []
        return drops

    def is_complete(self, request_id: int) -> bool:
        """Whether every drop from before the response to this request has been received."""
        return self._answered_id >= request_id and self._next >= self._total

    def _receive(self, response: DropsResponse) -> None:
        if response.first > self._next:
            self.lost += response.first - self._next
            self._next = response.first
        new = response.drops[self._next - response.first :]
        self._received += new
        self._next += len(new)
        if response.id > self._answered_id:
            self._answered_id, self._total = response.id, response.total
        if new:
            self.request()
            self._wake()
