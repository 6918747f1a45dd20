"""What the metrics say of the endpoints of one kind: which one is in use, and what was wrong with each [MET28]."""

from collections.abc import Sequence

from rollup_node.stages.io.metrics.meter import Meter


class EndpointMeter:
    """The metrics of the endpoints of the client `rpc`, by host and port; `faults` are all values of the label."""

    def __init__(self, meter: Meter, rpc: str, names: Sequence[str], faults: Sequence[str]) -> None:
        self._meter, self._rpc, self._names = meter, rpc, tuple(dict.fromkeys(names))
        self._used: str | None = None
        for name in self._names:
            for fault in faults:
                meter.count("endpoint_failures_total", 0, rpc=rpc, endpoint=name, fault=fault)
        if self._names:
            self.use(self._names[0])

    def use(self, name: str) -> None:
        """The endpoint of that name is asked first from now on."""
        if name == self._used:
            return
        self._used = name
        for each in self._names:
            self._meter.set("endpoint_in_use", int(each == name), rpc=self._rpc, endpoint=each)

    def set_usable(self, name: str, usable: bool) -> None:
        """An endpoint is set aside, or used again."""
        self._meter.set("endpoint_usable", int(usable), rpc=self._rpc, endpoint=name)

    def failed(self, name: str, fault: str) -> None:
        """Counts a failure."""
        self._meter.count("endpoint_failures_total", rpc=self._rpc, endpoint=name, fault=fault)
