"""Which L2 blocks go into the next channel, and when to start again from the safe head: the batcher's pure state.

A submitted channel is kept until the safe head has passed it. A channel whose transactions have left L1, or that is not
safe after `SAFE_TIMEOUT` L1 blocks, makes the batcher start again from the safe head: posting blocks twice is harmless.
"""

from dataclasses import dataclass, field

from rollup_node.stages.protocol.types import Hash

SAFE_TIMEOUT = 8
"""L1 blocks within which a submitted channel becomes safe."""
MAX_BLOCKS_PER_CHANNEL = 120


@dataclass(frozen=True)
class SubmittedChannel:
    """A channel on its way to safety: its L2 blocks, its L1 transactions, and the L1 head when it was sent."""

    first: int
    last: int
    last_hash: Hash
    transactions: tuple[Hash, ...]
    sent_at: int


@dataclass
class ChannelManager:
    """`next_block` is the first L2 block that is not submitted yet, None until the safe head is known."""

    next_block: int | None = None
    last_hash: Hash | None = None
    submitted: list[SubmittedChannel] = field(default_factory=list)
    restarts: int = 0
    last_sent_at: int = -1

    def update_safe_head(self, number: int, block_hash: Hash) -> None:
        """Drops the channels that are safe, and starts after the safe head where nothing later is submitted."""
        self.submitted = [channel for channel in self.submitted if channel.last > number]
        if self.next_block is None or self.next_block <= number:
            self.next_block, self.last_hash = number + 1, block_hash

    def restart(self) -> None:
        """Drops everything submitted; the next `update_safe_head` says where to start."""
        self.next_block, self.last_hash = None, None
        self.last_sent_at = -1
        self.submitted.clear()
        self.restarts += 1

    def timed_out(self, l1_head: int) -> bool:
        """Whether a submitted channel is not safe after `SAFE_TIMEOUT` L1 blocks; the caller restarts."""
        return any(l1_head > channel.sent_at + SAFE_TIMEOUT for channel in self.submitted)

    def next_blocks(self, unsafe_number: int, l1_head: int) -> range:
        """The numbers of the L2 blocks for the next channel, empty where one was already sent at this L1 head."""
        if self.next_block is None or l1_head == self.last_sent_at:
            return range(0)
        return range(self.next_block, min(unsafe_number, self.next_block + MAX_BLOCKS_PER_CHANNEL - 1) + 1)

    def extends(self, parent_hash: Hash) -> bool:
        """Whether a block with this parent follows what is submitted; if not, the unsafe chain was reorged."""
        return self.last_hash is None or self.last_hash == parent_hash

    def add(self, channel: SubmittedChannel) -> None:
        """Records a channel that was sent."""
        self.submitted.append(channel)
        self.last_sent_at = channel.sent_at
        self.next_block, self.last_hash = channel.last + 1, channel.last_hash
