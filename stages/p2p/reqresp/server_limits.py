"""What the server of payload_by_number accepts: how often peers may request, and which numbers are valid [SYN6,
SYN7]."""

from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.reqresp.payload_by_number import ResultCode
from rollup_node.stages.p2p.reqresp.rate_limits import RequestLimiter
from rollup_node.stages.protocol.config import RollupConfig

MAX_WAIT = 20.0
"""Seconds that a request waits for its turn at most [SYN7]."""


class ServerLimits:
    """The limits of one server."""

    def __init__(self, config: RollupConfig) -> None:
        self._config = config
        self._limiter = RequestLimiter()

    def admit(self, peer: PeerId, now: float) -> float | None:
        """Counts a peer's request; returns the seconds to wait before serving it, None when that is too long and
        UNKNOWN_ERROR the response."""
        wait = self._limiter.delay(peer, now)
        if wait > MAX_WAIT:
            return None
        self._limiter.consume(peer, now)
        return wait

    def check_number(self, number: int | None, unix_time: float) -> ResultCode:
        """OK if a block of that number can exist at that Unix time, else INVALID_REQUEST."""
        genesis = self._config.genesis
        if number is None or number < genesis.l2.number or unix_time < genesis.l2_time:
            return ResultCode.INVALID_REQUEST
        newest = self._config.block_number_at(int(unix_time))
        return ResultCode.OK if number <= newest else ResultCode.INVALID_REQUEST
