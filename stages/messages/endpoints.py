"""The endpoints that a process calls, and how they answer (`status.l1`, `status.blobs`)."""

import msgspec

from rollup_node.stages.messages.base import Message

MAX_ERROR = 200
"""Characters of an error that are published."""


class EndpointCounts(msgspec.Struct, frozen=True, array_like=True):
    """One endpoint since its process began; `kind` is the metric label `rpc`. `in_use` is that which is called first.
    `requests` counts each JSON-RPC call of a batch, `throttled` those that were refused for their number. `latency_ms`
    is the mean of the latest answers, None before the first. `error` is the text of the last failure; it and the last
    throttled request were at `error_at` and `throttled_at`, in Unix seconds, 0 for never. `failing` when the last
    request failed. `verdict` says why it is set aside [LHD26], empty while it is not."""

    kind: str
    name: str
    in_use: bool
    requests: int
    errors: int
    throttled: int
    latency_ms: float | None
    failing: bool
    error: str
    error_at: int
    throttled_at: int
    verdict: str = ""


class Endpoints(Message, frozen=True, tag="Endpoints"):
    """All endpoints of a process, in the order in which they are configured."""

    endpoints: tuple[EndpointCounts, ...]
