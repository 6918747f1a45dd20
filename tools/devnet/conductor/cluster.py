"""Which sequencer leads, and the blocks that were committed, in order.

What op-conductors agree on by Raft, here the state of one program [CND5]."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

MAX_PAYLOADS = 128
MAX_PAYLOAD_BYTES = 64 << 20
"""Payloads are kept for sequencers that lack the last ones."""
MAX_BLOCKS = 1 << 18
NOT_LEADER = "node is not the leader"


class CommitRefused(Exception):
    """A block is not committed; the text says why."""


class CommittedBlock(NamedTuple):
    """A committed block and the sequencer that committed it."""

    number: int
    hash: Hash
    server: str


class Cluster:
    """`leader` is one of `servers`, from the first term on; `blocks` are the latest commits, oldest first."""

    def __init__(self, servers: Sequence[str]) -> None:
        self.servers = tuple(servers)
        self.leader = self.servers[0]
        self.term = 1
        self.blocks: list[CommittedBlock] = []
        self.dropped = 0
        self._payloads: OrderedDict[Hash, ExecutionPayload] = OrderedDict()
        self._payload_bytes = 0

    @property
    def last(self) -> ExecutionPayload | None:
        """The last committed block."""
        return next(reversed(self._payloads.values()), None)

    def lead(self, server: str) -> None:
        """Make a server the leader of the next term. Raises KeyError for an unknown one."""
        if server not in self.servers:
            raise KeyError(server)
        self.leader = server
        self.term += 1

    def extends(self, payload: ExecutionPayload) -> bool:
        """Whether a block is the last committed one again, or its child; any block is, as long as there is none."""
        last = self.last
        return last is None or payload.block_hash == last.block_hash or _is_child(payload, last)

    def commit(self, server: str, payload: ExecutionPayload, *, is_replaced: bool = False) -> bool:
        """Take a block of a server; False for the last one again.

        With `is_replaced` the last block is off the chain, and any block may follow it. Raises CommitRefused for a
        server that does not lead, and a block that does not extend."""
        if server != self.leader:
            raise CommitRefused(NOT_LEADER)
        last = self.last
        if last is not None and payload.block_hash == last.block_hash:
            return False
        if last is not None and not is_replaced and not self.extends(payload):
            raise CommitRefused(f"{_shown(payload)} does not extend {_shown(last)}, the last committed block")
        if is_replaced:
            self._payloads.clear()
            self._payload_bytes = 0
        self._payloads[payload.block_hash] = payload
        self._payload_bytes += _size(payload)
        while len(self._payloads) > MAX_PAYLOADS or (self._payload_bytes > MAX_PAYLOAD_BYTES and self._has_several):
            self._payload_bytes -= _size(self._payloads.popitem(last=False)[1])
        self.blocks.append(CommittedBlock(payload.block_number, payload.block_hash, server))
        if len(self.blocks) > MAX_BLOCKS:
            del self.blocks[0]
            self.dropped += 1
        return True

    @property
    def _has_several(self) -> bool:
        return len(self._payloads) > 1

    def after(self, head: Hash) -> list[ExecutionPayload] | None:
        """Return the committed blocks after a head, oldest first; None where the head is on no chain that is kept."""
        found: list[ExecutionPayload] = []
        for payload in reversed(self._payloads.values()):
            if payload.block_hash == head:
                return found[::-1]
            found.append(payload)
        return found[::-1] if found and found[-1].parent_hash == head else None


def _is_child(payload: ExecutionPayload, parent: ExecutionPayload) -> bool:
    return payload.parent_hash == parent.block_hash and payload.block_number == parent.block_number + 1


def _size(payload: ExecutionPayload) -> int:
    return sum(map(len, payload.transactions))


def _shown(payload: ExecutionPayload) -> str:
    return f"block {payload.block_number} {to_hex(payload.block_hash)[:12]}"
