"""An engine with other forks than this node refuses attributes by their fields, whatever blocks are in them."""

from rollup_node.stages.engine.calls.engine_api import INVALID_ATTRIBUTES, ErrorAnswer
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import ForkMismatchError
from rollup_node.stages.protocol.forks.attribute_fields import disputed_fork
from rollup_node.stages.protocol.jsonrpc_codes import INVALID_PARAMS
from rollup_node.stages.protocol.payloads import PayloadAttributes


def raise_for_fork_mismatch(rollup: RollupConfig, attributes: PayloadAttributes, number: int, answer: object) -> None:
    """Raises ForkMismatchError if an engine's answer to the attributes of block `number` says that it has other forks
    at their time [ENG13]."""
    if not isinstance(answer, ErrorAnswer) or answer.code not in (INVALID_ATTRIBUTES, INVALID_PARAMS):
        return
    time = attributes.timestamp
    fork = disputed_fork(answer.message, rollup.schedule().l2(time))
    if fork is None:
        return
    start = rollup.fork_times.get(fork)
    ours = "is never active" if start is None else f"is active since {start}" if start <= time else f"begins at {start}"
    raise ForkMismatchError(
        f"the execution engine and this node disagree on forks: for block {number} at time {time}, where {fork} {ours}"
        f" in this node, the engine answers {answer.message} ({answer.code}): compare {fork}_time in --rollup.config or"
        f" of --network with the engine's genesis, or set --override.{fork}"
    )
