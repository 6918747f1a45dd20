"""What a process remembers of the answers of an endpoint [RPC94], and counts of its requests [MET6, MET7, MET28]."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure, is_throttled
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import MAX_ERROR, EndpointCounts
from rollup_node.stages.protocol.texts import one_line

OK = "<nil>"
NO_ANSWER = "<unknown>"
"""Values of the label `error` of RpcMeter, besides `rpc_<code>` and `http_<status>`."""
NEWEST_PART = 1 / 16
"""The part of the newest answer in the mean latency."""


class EndpointRecord:
    """The requests to one endpoint, how they ended [MET28], the mean `latency` in s; `wall` returns Unix seconds."""

    def __init__(
        self, kind: str, name: str, wall: Callable[[], float] = time.time, *, meter: Meter | None = None
    ) -> None:
        self._kind, self._name, self._wall, self._meter = kind, name, wall, meter
        self._requests = self._errors = self._throttled = 0
        self.latency: float | None = None
        self._error, self._error_at, self._throttled_at = "", 0, 0
        self._is_failing = False
        self._count(0)

    @contextmanager
    def timed(self, calls: int = 1, is_answer: Callable[[Exception], bool] = lambda error: False) -> Iterator[None]:
        """Record a request of so many calls that is made in the block; `is_answer` says which errors answer it."""
        began = time.monotonic()
        try:
            yield
        except (RpcFailure, EndpointError) as error:
            if is_answer(error):
                self.answered(time.monotonic() - began, calls)
            else:
                self.failed(error, calls)
            raise
        self.answered(time.monotonic() - began, calls)

    def answered(self, seconds: float, calls: int = 1) -> None:
        """Record that a request of so many calls was answered after `seconds`."""
        self._requests += calls
        self._count(calls)
        self._is_failing = False
        before = seconds if self.latency is None else self.latency
        self.latency = before + (seconds - before) * NEWEST_PART

    def failed(self, error: Exception, calls: int = 1) -> None:
        """Record that a request of so many calls failed."""
        self._requests += calls
        self._errors += 1
        self._is_failing = True
        text = str(error).removeprefix(f"{self._name}: ")
        self._error, self._error_at = one_line(text)[:MAX_ERROR], int(self._wall())
        throttled = is_throttled(error)
        if throttled:
            self._throttled += 1
            self._throttled_at = self._error_at
        self._count(calls, int(throttled))

    def counts(self, in_use: bool, verdict: str = "") -> EndpointCounts:
        """Return the record as it is published; `verdict` says why the endpoint is set aside."""
        return EndpointCounts(
            kind=self._kind,
            name=self._name,
            in_use=in_use,
            requests=self._requests,
            errors=self._errors,
            throttled=self._throttled,
            latency_ms=None if self.latency is None else round(self.latency * 1000, 1),
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


class EndpointMeter:
    """The metrics of the endpoints of the client `rpc`, by host and port; `faults` are all values of the label."""

    def __init__(self, meter: Meter, rpc: str, names: Sequence[str], faults: Sequence[str]) -> None:
        self._meter, self._rpc, self._names = meter, rpc, names
        for name in names:
            for fault in faults:
                meter.count("endpoint_failures_total", 0, rpc=rpc, endpoint=name, fault=fault)
        if names:
            self.use(names[0])

    def use(self, name: str) -> None:
        """Record that the endpoint of that name is asked first from now on."""
        for endpoint in self._names:
            self._meter.set("endpoint_in_use", int(endpoint == name), rpc=self._rpc, endpoint=endpoint)

    def set_usable(self, name: str, usable: bool) -> None:
        """Record that an endpoint is set aside, or used again."""
        self._meter.set("endpoint_usable", int(usable), rpc=self._rpc, endpoint=name)

    def failed(self, name: str, fault: str) -> None:
        self._meter.count("endpoint_failures_total", rpc=self._rpc, endpoint=name, fault=fault)


class RpcMeter:
    """The counters of one client under its label `rpc`; without a meter it counts nothing."""

    def __init__(self, meter: Meter | None, rpc: str) -> None:
        self._meter, self._rpc = meter, rpc

    @contextmanager
    def timed(self, method: str) -> Iterator[None]:
        """Count a request and what becomes of it in the block."""
        began, outcome = time.monotonic(), NO_ANSWER
        if self._meter is not None:
            self._meter.count("rpc_client_requests_total", rpc=self._rpc, method=method)
        try:
            yield
            outcome = OK
        except RpcFailure as failure:
            outcome = f"rpc_{failure.code}"
            raise
        except EndpointError as error:
            outcome = f"http_{error.status}" if error.status else NO_ANSWER
            raise
        finally:
            if self._meter is not None:
                seconds = time.monotonic() - began
                self._meter.observe("rpc_client_request_duration_seconds", seconds, rpc=self._rpc, method=method)
                self._meter.count("rpc_client_responses_total", rpc=self._rpc, method=method, error=outcome)

    def exchanged(self, method: str, sent: int, received: int) -> None:
        """Count the bytes of a request that was answered, and of its answer."""
        if self._meter is not None:
            self._meter.count("rpc_client_params_size_total", sent, rpc=self._rpc, method=method)
            self._meter.count("rpc_client_results_size_total", received, rpc=self._rpc, method=method)

    def notified(self, method: str) -> None:
        if self._meter is not None:
            self._meter.count("rpc_client_notifications_received_total", rpc=self._rpc, method=method)
