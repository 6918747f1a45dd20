"""What the L1 endpoints say of the same block, compared: those that contradict the majority are wrong [LHD27]."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash, L1BlockRef

STALE_SECONDS = 60
"""So much older than the newest head of its chain is that of an endpoint that is behind."""


class View(NamedTuple):
    """What an endpoint has: its latest block, and the hash of the block that all are asked for."""

    latest: L1BlockRef | None
    block: Hash | None


class EndpointFinding(NamedTuple):
    """What is wrong with an endpoint."""

    fault: EndpointFault
    reason: str


def compare(number: int, views: Mapping[int, View], wall_clock: float) -> tuple[dict[int, EndpointFinding], str | None]:
    """Return what is wrong with the endpoints that answered, by index, and a disagreement without a majority.

    `number` is that of the block that all were asked for; `wall_clock`, in Unix seconds, bounds the time of a head, so
    that no endpoint makes others seem behind."""
    votes = Counter(view.block for view in views.values() if view.block is not None)
    findings: dict[int, EndpointFinding] = {}
    if not votes:
        return findings, None
    (right, count), *others = votes.most_common()
    if others and count * 2 <= votes.total():
        said = ", ".join(f"{to_hex(block)} ({times})" for block, times in votes.most_common())
        return findings, f"the L1 endpoints disagree on block {number}, and there is no majority: {said}"
    heads = [view.latest for view in views.values() if view.latest is not None and view.block == right]
    newest = min(max((head.timestamp for head in heads), default=0), int(wall_clock))
    for index, view in views.items():
        if view.block is None:
            head = "none" if view.latest is None else str(view.latest.number)
            findings[index] = EndpointFinding(
                EndpointFault.BEHIND, f"it does not have block {number}; its head is {head}"
            )
        elif view.block != right:
            findings[index] = EndpointFinding(
                EndpointFault.FORKED,
                f"its block {number} is {to_hex(view.block)}, that of {count} others {to_hex(right)}",
            )
        elif view.latest is not None and newest - view.latest.timestamp > STALE_SECONDS:
            late = newest - view.latest.timestamp
            findings[index] = EndpointFinding(
                EndpointFault.BEHIND, f"its head {view.latest.number} is {late} s behind another one's"
            )
    return findings, None
