"""An execution engine without execution, on the values that the engine core calls with: it validates nothing but the
links between blocks, and keeps a canonical chain, labels and builds."""

from collections.abc import Iterator

from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.engine_identity import EngineIdentity
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import ZERO_HASH, Hash, L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture, genesis_payload


class ModelEngine:
    """`head`, first that of genesis, `safe` and `finalized` are hashes, empty for a label that is not set.

    `pool` are transactions for blocks that are open to it; `lost` are blocks that it has no more; `accepted` are the
    forkchoice states of its life, `syncing_to` is the number of the block that it fetches the chain to."""

    def __init__(self, chain: ChainFixture) -> None:
        self.chain = chain
        self.genesis = genesis_payload()
        self.head, self.safe, self.finalized = chain.genesis.hash, b"", b""
        self.builds: dict[bytes, tuple[L2BlockRef, PayloadAttributes]] = {}
        self.pool: list[bytes] = []
        self.lost: set[Hash] = set()
        self.accepted: set[Forkchoice] = set()
        self.syncing_to = 0
        self._builds_begun = 0
        self.identity: EngineIdentity | None = None

    # --- its chain -------------------------------------------------------------------------------------------------

    def canonical(self) -> dict[int, ExecutionPayload]:
        """Return the canonical blocks above genesis, by number."""
        return {payload.block_number: payload for payload in self._down_from(self.head)}

    def _down_from(self, head: Hash) -> Iterator[ExecutionPayload]:
        while head in self.chain.payloads:
            payload = self.chain.payloads[head]
            yield payload
            head = payload.parent_hash

    def lose(self, head: int) -> None:
        """A restart that comes back at an earlier block, without builds, all blocks above it, canonical or not, and the
        labels of those."""
        canonical = self.canonical()
        self.lost |= {payload.block_hash for payload in self.chain.payloads.values() if payload.block_number > head}
        self.head = canonical[head].block_hash if head else self.chain.genesis.hash
        self.safe = self.safe if self.has(self.safe) else b""
        self.finalized = self.finalized if self.has(self.finalized) else b""
        self.builds.clear()

    def has(self, block: Hash) -> bool:
        """Whether it has a block with all its ancestors."""
        down = [payload.block_hash for payload in self._down_from(block)]
        return block in self.chain.known and not self.lost.intersection(down)

    def block(self, name: api.BlockName) -> ExecutionPayload | None:
        """Return the block of a number, label or hash; None if it has none."""
        if isinstance(name, int):
            return self.genesis if name == 0 else self.canonical().get(name)
        if isinstance(name, str):
            name = {"latest": self.head, "safe": self.safe, "finalized": self.finalized}[name]
        if name == self.chain.genesis.hash:
            return self.genesis
        return self.chain.payloads[name] if name and self.has(name) and name in self.chain.payloads else None

    # --- calls -----------------------------------------------------------------------------------------------------

    def answer(self, call: api.EngineCall) -> api.EngineAnswer:
        """Return the answer of an engine that works."""
        match call:
            case api.GetBlock():
                return self.block(call.name)
            case api.GetBlockRef():
                payload = self.block(call.name)
                return None if payload is None else self.chain.known[payload.block_hash].ref
            case api.GetBlockRefs():
                result = [self.block(number) for number in range(call.first, call.last + 1)]
                return tuple(self.chain.known[payload.block_hash].ref for payload in result if payload is not None)
            case api.ForkchoiceUpdate():
                return self.update_forkchoice(call.forkchoice, call.attributes)
            case api.GetPayload():
                return self.get_payload(call.payload_id)
            case api.GetSyncProgress():
                head = self.chain.known[self.head].ref.number
                return api.SyncingBlocks(head, max(head, self.syncing_to))
            case api.GetIdentity():
                return self.identity
        return self.new_payload(call.payload)

    def update_forkchoice(
        self, state: Forkchoice, attributes: PayloadAttributes | None
    ) -> api.ForkchoiceAnswer | api.ErrorAnswer:
        """engine_forkchoiceUpdated: SYNCING without the head, -38002 unless safe and finalized are ancestors of it.

        A zero hash leaves its label."""
        if not self.has(state.head):
            if state.head in self.chain.known:
                self.syncing_to = self.chain.known[state.head].ref.number
            return api.ForkchoiceAnswer("SYNCING")
        ancestors = {payload.block_hash for payload in self._down_from(state.head)} | {self.chain.genesis.hash, b""}
        if not {state.safe, state.finalized} <= ancestors | {ZERO_HASH}:
            return api.ErrorAnswer(-38002, "invalid forkchoice state")
        self.head = state.head
        self.safe = self.safe if state.safe == ZERO_HASH else state.safe
        self.finalized = self.finalized if state.finalized == ZERO_HASH else state.finalized
        self.accepted.add(state)
        if attributes is None:
            return api.ForkchoiceAnswer("VALID")
        self._builds_begun += 1
        payload_id = self._builds_begun.to_bytes(8, "big")
        self.builds[payload_id] = (self.chain.known[state.head].ref, attributes)
        return api.ForkchoiceAnswer("VALID", payload_id)

    def fetch(self) -> None:
        """It has fetched the whole chain from other engines."""
        self.lost.clear()

    def get_payload(self, payload_id: bytes) -> ExecutionPayload | api.ErrorAnswer:
        """engine_getPayload: -38001 for a build that it does not have."""
        if payload_id not in self.builds:
            return api.ErrorAnswer(-38001, "Unknown payload")
        parent, attributes = self.builds[payload_id]
        return self.chain.seal(parent, attributes, () if attributes.no_tx_pool else tuple(self.pool))

    def new_payload(self, payload: ExecutionPayload) -> api.PayloadAnswer:
        """engine_newPayload: SYNCING without the parent."""
        if not self.has(payload.parent_hash):
            return api.PayloadAnswer("SYNCING")
        self.lost.discard(self.chain.keep(payload).block_hash)
        return api.PayloadAnswer("VALID")
