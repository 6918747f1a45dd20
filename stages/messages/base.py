"""Base of all messages, and the state that every process publishes."""

import msgspec

from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import StageError


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages: the tag is the class name."""


class QueueLength(Message, frozen=True, tag="QueueLength"):
    """What waits in the publishing process; `tasks` are those that compute has not completed for it.

    For l1 the L1 blocks that it fetches, for blobs requests, for derivation L1 blocks to read, for engine unsafe
    blocks."""

    items: int
    tasks: int


class Problem(msgspec.Struct, frozen=True, array_like=True):
    """What is wrong: a code if there is one for it, what it is about (a task, a block), and a line of text.

    It stays a record from where it arises to where it is printed; a foreign text never decides the code."""

    code: Code | None
    subject: str
    text: str

    @classmethod
    def of(cls, error: StageError, subject: str = "") -> "Problem":
        return cls(error.code if isinstance(error.code, Code) else None, subject, str(error))

    def __str__(self) -> str:
        """Print it as log lines, health and `/readyz` show it."""
        code = "" if self.code is None else self.code.text
        return ": ".join(part for part in (code, self.subject, self.text) if part)


class Health(Message, frozen=True, tag="Health"):
    """What is wrong with the publishing process at present; empty when healthy."""

    problems: tuple[Problem, ...]


MAX_ERROR = 200
"""Characters of an error that are published."""


class EndpointCounts(msgspec.Struct, frozen=True, array_like=True):
    """One endpoint since its process began; `kind` is the metric label `rpc`.

    `in_use` is that which is called first. `requests` counts each JSON-RPC call of a batch, `throttled` those that
    were refused for their number. `latency_ms` is the mean of the latest answers, None before the first. `error` is
    the text of the last failure; it and the last throttled request were at `error_at` and `throttled_at`, in Unix
    seconds, 0 for never. `failing` when the last request failed. `verdict` says why it is set aside [LHD26], empty
    while it is not."""

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
