"""An independent model of the interop database: lists of rounds with their heads, logs and denied blocks."""

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.message_checks import LogPlace
from rollup_node.stages.interop.process.store import InteropStore
from rollup_node.stages.interop.rounds import (
    AddLogs,
    Advance,
    Change,
    Finished,
    InvalidateHeads,
    InvalidHead,
    Rewind,
    StoreState,
    Transition,
    VerifiedRound,
)
from rollup_node.stages.messages.interop import HeadOutput
from rollup_node.stages.protocol.interop_messages import BlockLogs
from rollup_node.stages.protocol.types import BlockId


class StoreModel:
    """What was written, each round with all its heads; nothing is pruned."""

    def __init__(self, config: InteropConfig) -> None:
        self._config = config
        self.rounds: list[tuple[int, BlockId, dict[int, BlockId]]] = []
        self.logs: dict[int, list[BlockLogs]] = {chain_id: [] for chain_id in config.chains}
        self.outputs: dict[tuple[int, BlockId], HeadOutput] = {}
        self.denied: list[tuple[int, InvalidHead]] = []
        self.decided: BlockId | None = None
        self.pending: Transition | None = None

    def write(self, *changes: Change) -> StoreState:
        """Make changes."""
        for change in changes:
            self._make(change)
        return self.state()

    def _make(self, change: Change) -> None:
        match change:
            case Advance(timestamp=timestamp, l1=l1, blocks=blocks):
                for chain_id, block in blocks.items():
                    self.logs[chain_id].append(block.logs)
                    self.outputs[chain_id, block.logs.block.id] = HeadOutput(
                        block.state_root, block.storage_root, block.l1
                    )
                heads = {chain_id: logs[-1].block.id for chain_id, logs in self.logs.items() if logs}
                self.rounds.append((timestamp, l1, heads))
                self.decided = None
            case InvalidateHeads(timestamp=timestamp, l1=l1, heads=invalid):
                known = {(head.chain_id, head.block) for _, head in self.denied}
                self.denied += [(timestamp, head) for head in invalid if (head.chain_id, head.block) not in known]
                self.decided, self.pending = l1, change
            case Rewind(first=first):
                self.rounds = [entry for entry in self.rounds if entry[0] < first]
                self.denied = [entry for entry in self.denied if entry[0] < first]
                for chain_id, kept in self.logs.items():
                    self.logs[chain_id] = [logs for logs in kept if logs.block.timestamp < first]
                self.decided, self.pending = None, change
            case Finished():
                self.pending = None
            case AddLogs(chain_id=chain_id, blocks=added, keep=keep):
                kept = [logs for logs in self.logs[chain_id] if logs.block.number <= keep]
                self.logs[chain_id] = [*kept, *added]

    def state(self) -> StoreState:
        """Return what the rounds go on from."""
        tips = {chain_id: logs[-1].block.id for chain_id, logs in self.logs.items() if logs}
        verified = None
        if self.rounds:
            timestamp, l1, _ = self.rounds[-1]
            verified = VerifiedRound(timestamp, l1, min(entry[0] for entry in self.rounds if entry[1] == l1))
        return StoreState(tips, verified, self.decided, self.pending)

    def assert_same(self, store: InteropStore) -> None:
        """Check all answers of a database against what was written."""
        assert store.state() == self.state()
        for timestamp, l1, heads in self.rounds:
            result = store.round_at(timestamp)
            assert result is not None and (result.l1, result.heads) == (l1, heads)
            known = {chain: self.outputs[chain, head] for chain, head in heads.items() if (chain, head) in self.outputs}
            assert result.outputs == known
        end = self.rounds[-1][0] + 1 if self.rounds else 0
        assert store.round_at(end) is None
        numbers = {l1.number for _, l1, _ in self.rounds}
        for number in numbers | {number - 1 for number in numbers}:
            wanted = [entry for entry in self.rounds if entry[1].number <= number]
            assert store.final_heads(number) == (wanted[-1][2] if wanted else {})
        for chain_id, chain in self.logs.items():
            for logs in chain:
                place = LogPlace(chain_id, logs.block.number, 0)
                places = [place._replace(log_index=index) for index in range(len(logs.log_hashes) // 32 + 1)]
                hashes = store.stored(places)
                assert b"".join(hashes[place] or b"" for place in places) == logs.log_hashes
        denied = [head for _, head in self.denied]
        for height in {(head.chain_id, head.block.number) for head in denied}:
            assert store.denied(*height) == [head for head in denied if (head.chain_id, head.block.number) == height]
