"""Shares of the CPU time that the bytes of peers may take: decryption, yamux and the negotiation of streams.

Nobody is slowed down while all peers together stay within the total; beyond it those that took more than their share
are not read until their share has repaid it, so that a crowd which sends many small frames slows itself down alone."""

from rollup_node.stages.p2p.identity.peer_id import PeerId

TOTAL_SHARE = 0.4
"""The share of one core that the bytes of all peers together may take before anyone is slowed down."""
MAX_SAVED = 0.1
MAX_DELAY = 15.0
"""Seconds after which a peer in debt is read again at the latest, before a keepalive check takes it for dead."""


class WorkShares:
    """The balance of all peers together and of each, in seconds of work, negative in debt.

    Times are monotonic seconds. Connections in their handshake share one balance, under the empty peer id."""

    def __init__(self) -> None:
        self._total = (MAX_SAVED, float("-inf"))
        self._peers: dict[PeerId, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def charge(self, peer: PeerId, work: float, now: float) -> float:
        """Charges a peer with seconds of work; returns the seconds for which it must not be read."""
        total = _repaid(self._total, TOTAL_SHARE, now) - work
        self._total = (total, now)
        share = TOTAL_SHARE / max(1, len(self._peers))
        balance = _repaid(self._peers.get(peer, (MAX_SAVED, now)), share, now) - work
        self._peers[peer] = (balance, now)
        return 0.0 if total >= 0.0 or balance >= 0.0 else min(MAX_DELAY, -balance / share)

    def remove_peer(self, peer: PeerId) -> None:
        """Forgets a disconnected peer."""
        self._peers.pop(peer, None)


def _repaid(balance: tuple[float, float], rate: float, now: float) -> float:
    value, updated_at = balance
    return min(MAX_SAVED, value + max(0.0, now - updated_at) * rate)
