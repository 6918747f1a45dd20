"""Serving `payload_by_number`: who may ask how often, and which numbers make sense (node-behaviour 13.6).

The shell asks `admit` when a stream opens and waits that long, reads the number within the read time, asks `check`,
looks the block up, and writes `payload_by_number.encode_block` or `encode_error` (without waiting where `admit` said no).
"""

from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.reqresp.payload_by_number import ResultCode
from rollup_node.stages.p2p.reqresp.rate_limits import RequestLimiter
from rollup_node.stages.protocol.config import RollupConfig

MAX_WAIT = 20.0


class ServerLimits:
    """The limits of one server."""

    def __init__(self, config: RollupConfig) -> None:
        self._config = config
        self._buckets = RequestLimiter()

    def admit(self, peer: PeerId, now: float) -> float | None:
        """Seconds to wait before a peer's request is served; None if that is too long and UNKNOWN_ERROR the answer."""
        wait = self._buckets.delay(peer, now)
        if wait > MAX_WAIT:
            return None
        self._buckets.consume(peer, now)
        return wait

    def check_number(self, number: int | None, unix_time: float) -> ResultCode:
        """OK if there can be a block of that number at that time of day."""
        genesis = self._config.genesis
        if number is None or number < genesis.l2.number or unix_time < genesis.l2_time:
            return ResultCode.INVALID_REQUEST
        newest = self._config.block_number_at(int(unix_time))
        return ResultCode.OK if number <= newest else ResultCode.INVALID_REQUEST
