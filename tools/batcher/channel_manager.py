"""What the batcher does next, as a pure machine: which L2 blocks to post, and when to begin again from the safe head.

Everything posted is remembered until the safe head has passed it. What has vanished from L1, or lies included for
too long without becoming safe, makes the batcher start over from the safe head; posting twice does no harm.
"""

from dataclasses import dataclass, field

from rollup_node.stages.protocol.types import Hash

SAFE_TIMEOUT = 8  # L1 blocks that a posted channel may lie without becoming safe
MAX_BLOCKS_PER_CHANNEL = 120  # L2 blocks in one channel


@dataclass(frozen=True)
class SubmittedChannel:
    """A channel on its way: the L2 blocks in it, the L1 transactions that carry it, the L1 head when it was sent."""

    first: int
    last: int
    last_hash: Hash
    transactions: tuple[Hash, ...]
    sent_at: int


@dataclass
class ChannelManager:
    """`next_block` is the first L2 block not posted yet; None until the safe head is known."""

    next_block: int | None = None
    last_hash: Hash | None = None
    posted: list[SubmittedChannel] = field(default_factory=list)
    restarts: int = 0
    posted_at: int = -1

    def see_safe(self, number: int, block_hash: Hash) -> None:
        """Takes the safe head: forgets what it covers, starts from it when nothing was known."""
        self.posted = [channel for channel in self.posted if channel.last > number]
        if self.next_block is None or self.next_block <= number:
            self.next_block, self.last_hash = number + 1, block_hash

    def restart(self) -> None:
        """Begins again at the safe head of the next look."""
        self.next_block, self.last_hash = None, None
        self.posted_at = -1
        self.posted.clear()
        self.restarts += 1

    def overdue(self, l1_head: int) -> bool:
        """True when a posted channel has had its time; the caller restarts."""
        return any(l1_head > channel.sent_at + SAFE_TIMEOUT for channel in self.posted)

    def wanted(self, unsafe_number: int, l1_head: int) -> range:
        """The L2 blocks to put into the next channel: one channel for each L1 block that may take it."""
        if self.next_block is None or l1_head == self.posted_at:
            return range(0)
        return range(self.next_block, min(unsafe_number, self.next_block + MAX_BLOCKS_PER_CHANNEL - 1) + 1)

    def fits(self, parent_hash: Hash) -> bool:
        """Whether a block with this parent continues what was posted; if not, L2 was reorganised."""
        return self.last_hash is None or self.last_hash == parent_hash

    def sent(self, channel: SubmittedChannel) -> None:
        """Remembers a posted channel."""
        self.posted.append(channel)
        self.posted_at = channel.sent_at
        self.next_block, self.last_hash = channel.last + 1, channel.last_hash
