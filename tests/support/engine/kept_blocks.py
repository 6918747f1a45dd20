"""What the p2p process keeps of the blocks that a sequencer published: which may be signed, and their payloads."""

from rollup_node.stages.p2p.signer.signed_blocks import (
    BlockFate,
    BlockRecord,
    KeptPayloads,
    SignedBlocks,
    signing_request,
)
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash, L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture


class KeptBlocks:
    """`signed` are the blocks that may be signed, `refused` the others, in the order in which they were published."""

    def __init__(self, chain: ChainFixture) -> None:
        self._chain = chain
        self._blocks, self._kept = SignedBlocks(), KeptPayloads()
        self.signed: list[ExecutionPayload] = []
        self.refused: list[ExecutionPayload] = []

    def publish(self, payload: ExecutionPayload, parent: L2BlockRef, derived: int) -> None:
        """Take a block over that was sequenced while the chain up to number `derived` followed from L1."""
        request = signing_request(self._chain.rollup, payload, parent, derived)
        refusal, _ = self._blocks.decide(request, lambda number: self._chain.l1_ref(number).hash)
        self._kept.add(payload.block_number, payload.block_hash, sum(map(len, payload.transactions)))
        (self.signed if refusal is None else self.refused).append(payload)

    @property
    def last(self) -> BlockRecord | None:
        result = (self.find(item.number, item.hash) for item in self._kept.newest_first())
        return next((item for item in result if item is not None and item.fate is BlockFate.SIGNED), None)

    def find(self, number: int, block_hash: Hash) -> BlockRecord | None:
        return self._blocks.find(number, block_hash)

    def payload(self, block_hash: Hash) -> ExecutionPayload | None:
        return self._chain.payloads[block_hash] if self._kept.find(block_hash) else None
