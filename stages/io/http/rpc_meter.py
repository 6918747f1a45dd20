"""Counts the requests of one client under its label `rpc` [MET6, MET7]."""

from rollup_node.stages.io.metrics.meter import Meter

OK = "<nil>"
NO_ANSWER = "<unknown>"
"""Values of the label `error`, besides `rpc_<code>` and `http_<status>`."""


class RpcMeter:
    """The counters of a client; without a meter it counts nothing."""

    def __init__(self, meter: Meter | None, rpc: str) -> None:
        self._meter, self._rpc = meter, rpc

    def sent(self, method: str) -> None:
        """Counts a request."""
        if self._meter is not None:
            self._meter.count("rpc_client_requests_total", rpc=self._rpc, method=method)

    def ended(self, method: str, seconds: float, error: str = OK) -> None:
        """Counts what became of a request."""
        if self._meter is not None:
            self._meter.observe("rpc_client_request_duration_seconds", seconds, rpc=self._rpc, method=method)
            self._meter.count("rpc_client_responses_total", rpc=self._rpc, method=method, error=error)

    def exchanged(self, method: str, sent: int, received: int) -> None:
        """Counts the bytes of a request that was answered, and of its answer."""
        if self._meter is not None:
            self._meter.count("rpc_client_params_size_total", sent, rpc=self._rpc, method=method)
            self._meter.count("rpc_client_results_size_total", received, rpc=self._rpc, method=method)

    def notified(self, method: str) -> None:
        """Counts a notification."""
        if self._meter is not None:
            self._meter.count("rpc_client_notifications_received_total", rpc=self._rpc, method=method)
