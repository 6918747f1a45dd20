"""What a process remembers of the answers of an endpoint [RPC94]."""

import time
from collections.abc import Callable

from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.http.json_answers import RpcFailure
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.endpoints import MAX_ERROR, EndpointCounts
from rollup_node.stages.protocol.texts import one_line

TOO_MANY_REQUESTS = 429
LIMIT_EXCEEDED = (-32005, TOO_MANY_REQUESTS)
"""JSON-RPC codes of a provider's rate limit: that of EIP-1474, and the HTTP status in its place."""
NEWEST_PART = 1 / 16
"""The part of the newest answer in the mean latency."""


class EndpointRecord:
    """The requests to one endpoint and how they ended. `wall` returns Unix seconds; with `meter` they are metrics too
    [MET28]."""

    def __init__(
        self, kind: str, name: str, wall: Callable[[], float] = time.time, *, meter: Meter | None = None
    ) -> None:
        self._kind, self._name, self._wall, self._meter = kind, name, wall, meter
        self._requests = self._errors = self._throttled = 0
        self._latency: float | None = None
        self._error, self._error_at, self._throttled_at = "", 0, 0
        self._is_failing = False
        self._count(0)

    @property
    def latency(self) -> float | None:
        """The mean time of an answer in seconds; None before the first one."""
        return self._latency

    def answered(self, seconds: float, calls: int = 1) -> None:
        """A request of so many calls was answered after `seconds`."""
        self._requests += calls
        self._count(calls)
        self._is_failing = False
        before = seconds if self._latency is None else self._latency
        self._latency = before + (seconds - before) * NEWEST_PART

    def failed(self, error: Exception, calls: int = 1, throttled: bool | None = None) -> None:
        """A request of so many calls failed, `throttled` if there were too many before it; None where the error says
        so."""
        self._requests += calls
        self._errors += 1
        self._is_failing = True
        self._error, self._error_at = one_line(self._own_words(error))[:MAX_ERROR], int(self._wall())
        if throttled is None:
            throttled = is_throttled(error)
        if throttled:
            self._throttled += 1
            self._throttled_at = self._error_at
        self._count(calls, int(throttled))

    def counts(self, in_use: bool, verdict: str = "") -> EndpointCounts:
        """The record as it is published; `verdict` says why the endpoint is set aside."""
        return EndpointCounts(
            kind=self._kind,
            name=self._name,
            in_use=in_use,
            requests=self._requests,
            errors=self._errors,
            throttled=self._throttled,
            latency_ms=None if self._latency is None else round(self._latency * 1000, 1),
            failing=self._is_failing,
            error=self._error,
            error_at=self._error_at,
            throttled_at=self._throttled_at,
            verdict=one_line(verdict)[:MAX_ERROR],
        )

    def _count(self, calls: int, throttled: int = 0) -> None:
        if self._meter is not None:
            self._meter.count("endpoint_calls_total", calls, rpc=self._kind, endpoint=self._name)
            self._meter.count("endpoint_throttled_total", throttled, rpc=self._kind, endpoint=self._name)

    def _own_words(self, error: Exception) -> str:
        return str(error).removeprefix(f"{self._name}: ")


def is_throttled(error: Exception) -> bool:
    """Whether an endpoint refuses a request because there were too many before it."""
    if isinstance(error, EndpointError):
        return error.status == TOO_MANY_REQUESTS
    return isinstance(error, RpcFailure) and error.code in LIMIT_EXCEEDED
