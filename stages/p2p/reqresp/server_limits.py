"""What the server of payload_by_number accepts: rates, peers in turn, valid numbers [SYN6, SYN7]."""

from collections import OrderedDict, deque
from dataclasses import dataclass

from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.reqresp.payload_by_number import ResultCode
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.pacing import KeyedTokenBuckets, TokenBucket

MAX_WAIT = 20.0
"""Seconds that a request waits for its turn at most [SYN7]."""
GLOBAL_RATE, GLOBAL_BURST = 20.0, 40.0
PEER_RATE, PEER_BURST = 4.0, 15.0
MAX_PEERS = 1000


@dataclass(eq=False)
class WaitingRequest:
    """A request that waits for its turn. Its peer's own limit admits it from `due` on; at `deadline` it is refused."""

    peer: PeerId
    due: float
    deadline: float


class RequestTurns:
    """The requests that wait, by peer, as many as its limit admits in MAX_WAIT; the peer whose turn it is is first."""

    def __init__(self) -> None:
        self._all_peers = TokenBucket(GLOBAL_RATE, GLOBAL_BURST)
        self._each_peer: KeyedTokenBuckets[PeerId] = KeyedTokenBuckets(PEER_RATE, PEER_BURST, MAX_PEERS)
        self._waiting: OrderedDict[PeerId, deque[WaitingRequest]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, peer: PeerId, now: float) -> WaitingRequest | None:
        """Add a peer's request; None when it is refused, as it would wait too long for the peer's own limit."""
        bucket = self._each_peer[peer]
        delay = bucket.delay(now)
        if delay > MAX_WAIT:
            return None
        bucket.consume(now)
        request = WaitingRequest(peer, now + delay, now + MAX_WAIT)
        self._waiting.setdefault(peer, deque()).append(request)
        return request

    def take_admitted(self, now: float) -> list[WaitingRequest]:
        """Remove and return the requests to serve now, one of each peer in turn."""
        admitted: list[WaitingRequest] = []
        while (peer := self._next_peer(now)) is not None and self._all_peers.allow(now):
            admitted.append(self._pop(peer))
        return admitted

    def take_expired(self, now: float) -> list[WaitingRequest]:
        """Remove and return the requests that have waited too long."""
        expired: list[WaitingRequest] = []
        for peer in [peer for peer, requests in self._waiting.items() if requests[0].deadline <= now]:
            while peer in self._waiting and self._waiting[peer][0].deadline <= now:
                expired.append(self._pop(peer))
        return expired

    def remove_peer(self, peer: PeerId) -> list[WaitingRequest]:
        return list(self._waiting.pop(peer, ()))

    def delay(self, now: float) -> float | None:
        """Seconds until a request may be admitted or expires; None when none waits."""
        if not self._waiting:
            return None
        first = [requests[0] for requests in self._waiting.values()]
        admitted = max(min(request.due for request in first), now + self._all_peers.delay(now))
        return max(0.0, min(admitted, *(request.deadline for request in first)) - now)

    def _next_peer(self, now: float) -> PeerId | None:
        return next((peer for peer, requests in self._waiting.items() if requests[0].due <= now), None)

    def _pop(self, peer: PeerId) -> WaitingRequest:
        requests = self._waiting[peer]
        request = requests.popleft()
        if requests:
            self._waiting.move_to_end(peer)
        else:
            del self._waiting[peer]
        return request


def check_number(config: RollupConfig, number: int | None, unix_time: float) -> ResultCode:
    """OK if a block of that number can exist at that Unix time, else INVALID_REQUEST [SYN6]."""
    genesis = config.genesis
    if number is None or number < genesis.l2.number or unix_time < genesis.l2_time:
        return ResultCode.INVALID_REQUEST
    newest = config.block_number_at(int(unix_time))
    return ResultCode.OK if number <= newest else ResultCode.INVALID_REQUEST
