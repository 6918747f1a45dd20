"""Which faults a request meets."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from rollup_node.tools.faults.scenario import Action, Fault, Role

LABELS = ("latest", "pending")


class Request(NamedTuple):
    """A request as the proxy sees it: of REST, or of JSON-RPC with its calls."""

    role: Role
    path: str
    calls: tuple[dict[str, Any], ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The methods of the calls, or the path."""
        return tuple(str(call.get("method", "")) for call in self.calls) or (self.path,)


class FaultPlan:
    """The faults that hold now, with how often each has been met; `chance` decides those that have a probability."""

    def __init__(self, faults: Sequence[Fault], chance: random.Random) -> None:
        self._faults, self.chance = tuple(faults), chance
        self._met = [0] * len(self._faults)
        self.applied = 0

    def of(self, request: Request) -> list[Fault]:
        """Return the faults of a request, in their order."""
        found = []
        for index, fault in enumerate(self._faults):
            wanted = fault.method.split()
            if fault.on is not request.role:
                continue
            if wanted and not any(word in name for word in wanted for name in request.words):
                continue
            if fault.param and not any(concerns(fault, call) for call in request.calls):
                continue
            self._met[index] += 1
            if self._met[index] % fault.every == 0 and self.chance.random() < fault.chance:
                found.append(fault)
        self.applied += bool(found)
        return found


def concerns(fault: Fault, call: dict[str, Any]) -> bool:
    """Whether a fault is one of this call."""
    method, params = str(call.get("method", "")), call.get("params")
    if fault.param and not (isinstance(params, list) and params and params[0] == fault.param):
        return False
    return not fault.method or any(word in method for word in fault.method.split())


def clipped_call(call: dict[str, Any], head: int) -> dict[str, Any] | None:
    """Return the call as it reads to a chain that ends at block `head`; None if that has no such block."""
    method, params = call.get("method"), call.get("params")
    if method not in ("eth_getBlockByNumber", "eth_getBlockReceipts") or not isinstance(params, list) or not params:
        return call
    label = params[0]
    if label in LABELS:
        return {**call, "params": [hex(head), *params[1:]]}
    if isinstance(label, str) and label.startswith("0x") and len(label) < 18 and int(label, 16) > head:
        return None
    return call


def is_clipping(fault: Fault) -> bool:
    """Whether the fault shows a chain that ends earlier."""
    return fault.do in (Action.LAG, Action.STUCK)
