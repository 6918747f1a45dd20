"""What the metrics say of the endpoints of one kind: which one is in use, and what was wrong with each [MET28]."""

from collections.abc import Sequence
from enum import StrEnum

from rollup_node.stages.io.metrics import Meter


class Verdict(StrEnum):
    """What an endpoint did instead of its work; the value is the metric label `verdict`."""

    NO_ANSWER = "no_answer"
    """No connection, no answer in time, or one that is not of its protocol."""
    OVERLOADED = "overloaded"
    """It refuses because of too many requests."""
    ERROR = "error"
    """It answers with an error."""
    HAS_NONE = "has_none"
    """It says that it does not have what others have."""
    INVALID = "invalid"
    """Its data fail their verification."""
    OTHER_CHAIN = "other_chain"


class EndpointMeter:
    """The metrics of the endpoints of the client `rpc`, by host and port."""

    def __init__(self, meter: Meter, rpc: str, names: Sequence[str]) -> None:
        self._meter, self._rpc, self._names = meter, rpc, tuple(dict.fromkeys(names))
        self._used: str | None = None
        for name in self._names:
            for verdict in Verdict:
                meter.count("endpoint_failures_total", 0, rpc=rpc, endpoint=name, verdict=verdict.value)
        if self._names:
            self.use(self._names[0])

    def use(self, name: str) -> None:
        """The endpoint of that name is asked first from now on."""
        if name == self._used:
            return
        self._used = name
        for each in self._names:
            self._meter.set("endpoint_in_use", int(each == name), rpc=self._rpc, endpoint=each)

    def failed(self, name: str, verdict: Verdict) -> None:
        """Counts a failure."""
        self._meter.count("endpoint_failures_total", rpc=self._rpc, endpoint=name, verdict=verdict.value)
