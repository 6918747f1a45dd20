"""Rate limits of the sync protocol, the same for who serves and who asks: 20 a second over all and 4 for each peer."""

from collections import OrderedDict

from rollup_node.stages.p2p.identity.peer_id import PeerId

GLOBAL_RATE, GLOBAL_BURST = 20.0, 40.0
PEER_RATE, PEER_BURST = 4.0, 15.0
MAX_PEERS = 1000


class TokenBucket:
    """Tokens that come at a rate per second up to a burst. They may be taken ahead of time, at the price of waiting."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = float("-inf")

    def wait(self, now: float) -> float:
        """Seconds until a token can be had."""
        return max(0.0, (1.0 - self._now(now)) / self._rate)

    def take(self, now: float, tokens: float = 1.0) -> None:
        """Takes tokens, whether they are there or not."""
        self._tokens = self._now(now) - tokens
        self._at = max(now, self._at)

    def _now(self, now: float) -> float:
        return min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)


class RequestLimiter:
    """The limit over all, and one for each of the last thousand peers."""

    def __init__(self) -> None:
        self._all = TokenBucket(GLOBAL_RATE, GLOBAL_BURST)
        self._peers: OrderedDict[PeerId, TokenBucket] = OrderedDict()

    def delay(self, peer: PeerId, now: float) -> float:
        """Seconds until a request of (or to) the peer is within both limits."""
        return max(self._all.wait(now), self._bucket(peer).wait(now))

    def consume(self, peer: PeerId, now: float) -> None:
        """Counts a request against both limits."""
        self._all.take(now)
        self._bucket(peer).take(now)

    def charge(self, peer: PeerId, tokens: float, now: float) -> None:
        """Takes more from a peer's own limit."""
        self._bucket(peer).take(now, tokens)

    def _bucket(self, peer: PeerId) -> TokenBucket:
        bucket = self._peers.get(peer)
        if bucket is None:
            bucket = self._peers[peer] = TokenBucket(PEER_RATE, PEER_BURST)
            if len(self._peers) > MAX_PEERS:
                self._peers.popitem(last=False)
        self._peers.move_to_end(peer)
        return bucket
