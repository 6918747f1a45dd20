"""Which parents the batches ahead of derivation on L1 name.

While derivation waits before a fork's activation block, they say which sequencer's block is the chain's [UPG24]."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from rollup_node.stages.derivation.codec.batches import DecodedBatch, RejectedBatch, SingularBatch
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.messages.base import Message
from rollup_node.stages.messages.engine import AttributesReady, BatchParent
from rollup_node.stages.protocol.config import RollupConfig

MAX_CHANNELS = 256
MAX_PARENTS = 64
MANY_REPEATS = 5
"""How often the attributes of an activation block are sent before the engine process may be taken to wait."""
WAITING_WINDOW = 1024
"""L1 blocks that are read ahead then: batchers of quiet chains post every few hours."""


class BatchParents:
    """The channel that derivation reads and those that are complete behind it, by the keys of their decoding tasks.

    Channels before it count no more: after an L1 reorg they are those of blocks that the sequencer has replaced.
    `decoded` gives the result of a task, None where it is not kept."""

    def __init__(self, rollup: RollupConfig, decoded: Callable[[bytes], DecodedChannel | None]) -> None:
        self._rollup, self._decoded = rollup, decoded
        self._keys: deque[bytes] = deque(maxlen=MAX_CHANNELS)
        self._reads = False
        self._sent: tuple[int, int] = (0, 0)

    def restart(self) -> None:
        """Forget all channels: derivation starts again, and L1 may be another."""
        self._keys.clear()
        self._reads, self._sent = False, (0, 0)

    def add(self, key: bytes) -> None:
        """Add a complete channel behind the others."""
        if key not in self._keys:
            self._keys.append(key)

    def read(self, key: bytes) -> None:
        """Drop the channels up to this one, which derivation reads."""
        if key in self._keys:
            while self._keys[0] != key:
                self._keys.popleft()
        else:
            if self._reads:
                self._keys.popleft()
            self._keys.appendleft(key)
        self._reads = True

    def waits(self, derived: AttributesReady | None) -> bool:
        """Whether these attributes are of an activation block, and have been unprocessed for long."""
        return derived is not None and self._sent[0] == derived.sequence and self._sent[1] >= MANY_REPEATS

    def attach(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages; attributes with upgrade transactions get what batches name from that block on."""
        return [self._attached(message) if isinstance(message, AttributesReady) else message for message in messages]

    def _attached(self, derived: AttributesReady) -> AttributesReady:
        activations = self._rollup.schedule().activations(derived.attributes.timestamp)
        if all(activation.bundle is None for activation in activations):
            return derived
        sequence, times = self._sent
        self._sent = derived.sequence, times + 1 if sequence == derived.sequence else 1
        first = derived.parent.number + 1
        named = sorted({parent for parent in self._parents() if parent.number >= first})
        return msgspec.structs.replace(derived, parents=tuple(named[:MAX_PARENTS]))

    def _parents(self) -> Iterator[BatchParent]:
        for key in self._keys:
            result = self._decoded(key)
            for batch in () if result is None else result.batches:
                if (parent := self._parent(batch)) is not None:
                    yield parent

    def _parent(self, batch: DecodedBatch) -> BatchParent | None:
        if isinstance(batch, RejectedBatch):
            return None
        if isinstance(batch, SingularBatch):
            time, named = batch.timestamp, batch.parent_hash
        else:
            time, named = batch.first_timestamp, batch.parent_check
        since_genesis = time - self._rollup.genesis.l2_time
        if since_genesis <= 0 or since_genesis % self._rollup.block_time:
            return None
        return BatchParent(self._rollup.block_number_at(time) - 1, named)
