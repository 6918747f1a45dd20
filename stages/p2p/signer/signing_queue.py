"""The blocks that wait for their signature: few, and the newest first [SGN8]."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rollup_node.stages.protocol.pacing import backoff
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

MAX_WAITING = 16
MIN_BACKOFF = 0.5
MAX_BACKOFF = 8.0

REPLACED = "another block took its height before it was signed"

Done = Callable[[str | None], None]
"""Called once with the error of a block, None when it is published."""


@dataclass
class WaitingBlock:
    """A block to sign and publish; `done` are called with its result."""

    payload: ExecutionPayload
    done: list[Done] = field(default_factory=list)
    is_tried: bool = False


class SigningQueue:
    """At most MAX_WAITING blocks, of the last `max_age` seconds; a failure delays all that were tried before."""

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self._waiting: dict[Hash, WaitingBlock] = {}
        self._failures = 0
        self._retry_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, payload: ExecutionPayload, done: Done) -> list[tuple[WaitingBlock, str]]:
        """Add a block, or another `done` to it; return the blocks that are dropped for it, each with the reason."""
        known = self._waiting.get(payload.block_hash)
        if known is not None:
            known.done.append(done)
            return []
        dropped = [(self.remove(item), REPLACED) for item in self._replaced_by(payload)]
        self._waiting[payload.block_hash] = WaitingBlock(payload, [done])
        if len(self._waiting) > MAX_WAITING:
            oldest = min(self._waiting.values(), key=_number)
            dropped.append((self.remove(oldest), "too many newer blocks wait for the signer"))
        return dropped

    def _replaced_by(self, payload: ExecutionPayload) -> list[WaitingBlock]:
        """Return those at the height of this block and above that cannot descend from it."""
        kept, replaced = {payload.block_hash}, []
        gone: set[Hash] = set()
        for item in sorted(self._waiting.values(), key=_number):
            above = item.payload.block_number - payload.block_number
            parent = item.payload.parent_hash
            if above == 0 or (above == 1 and parent not in kept) or (above > 1 and parent in gone):
                replaced.append(item)
                gone.add(item.payload.block_hash)
            else:
                kept.add(item.payload.block_hash)
        return replaced

    def drop_old(self, unix_time: float) -> list[tuple[WaitingBlock, str]]:
        """Remove the blocks that peers would reject for their age; returns them with the reason."""
        reason = f"too_old: peers accept blocks of the last {self._max_age:g} s only"
        old = [item for item in self._waiting.values() if item.payload.timestamp < int(unix_time) - int(self._max_age)]
        return [(self.remove(item), reason) for item in old]

    def next(self, now: float) -> WaitingBlock | None:
        """Return the block to sign now: the newest one, unless it has to wait for the retry."""
        newest = self._newest()
        if newest is None or (newest.is_tried and now < self._retry_at):
            return None
        newest.is_tried = True
        return newest

    def delay(self, now: float) -> float | None:
        """Seconds until `next` has a block; None while no block waits."""
        newest = self._newest()
        if newest is None:
            return None
        return max(0.0, self._retry_at - now) if newest.is_tried else 0.0

    def _newest(self) -> WaitingBlock | None:
        return max(self._waiting.values(), key=_number, default=None)

    def holds(self, block: WaitingBlock) -> bool:
        """Whether this very block still waits."""
        return self._waiting.get(block.payload.block_hash) is block

    def remove(self, block: WaitingBlock) -> WaitingBlock:
        """Remove a block, if it is still here; returns it."""
        if self.holds(block):
            del self._waiting[block.payload.block_hash]
        return block

    def failed(self, now: float) -> None:
        """Pause after a failure of the signer, twice as long with each."""
        self._failures += 1
        self._retry_at = now + backoff(self._failures, MIN_BACKOFF, MAX_BACKOFF)

    def succeeded(self) -> None:
        """Sign what else waits at once, after a success of the signer."""
        self._failures, self._retry_at = 0, 0.0


def _number(block: WaitingBlock) -> int:
    return block.payload.block_number
