"""Recorded OP Sepolia data in the protocol's types, and a made-up chain to play derivation on."""

import gzip
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.setup.networks import find_network
from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.pipeline.outputs import (
    Attributes,
    NeedBlobs,
    NeedDecoded,
    NeedL1Block,
    NeedL2Blocks,
    NeedReset,
)
from rollup_node.stages.derivation.reasons.reasons import Dropped
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.messages.engine import PipelineStart
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.blob_codec import decode_blob
from rollup_node.stages.protocol.config import ChainOpConfig, Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC
from rollup_node.stages.protocol.headers import Header, decode_header, l1_header
from rollup_node.stages.protocol.inbox import inbox_transactions
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_chains import BlobFork, L1Chain
from rollup_node.stages.protocol.l1_info import l1_info_of_block
from rollup_node.stages.protocol.receipts import logs_of_receipts
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC, system_config_of_block
from rollup_node.stages.protocol.types import (
    BlobRef,
    BlockId,
    InboxTransaction,
    L1Block,
    L1Header,
    L2BlockContent,
    L2BlockRef,
    Log,
)
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch, span_batch
from rollup_node.tools.batcher.channels import Compression, Frame, batcher_data, channel_body


@dataclass(frozen=True)
class RecordedL2:
    """A recorded L2 block."""

    header: Header
    content: L2BlockContent

    @property
    def ref(self) -> L2BlockRef:
        return self.content.ref


class Recording:
    """OP Sepolia, 27 August 2024: 58 L1 blocks, 6 blobs, 5 L2 blocks."""

    def __init__(self, folder: Path) -> None:
        self.config: RollupConfig = find_network("op-sepolia").config
        self._folder = folder

    @cached_property
    def expected(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._folder / "expected.json").read_text())
        return found

    @cached_property
    def l1_blocks(self) -> dict[int, L1Block]:
        with gzip.open(self._folder / "l1_blocks.jsonl.gz", "rt") as lines:
            blocks = [self._l1_block(json.loads(line)) for line in lines]
        return {block.header.number: block for block in blocks if block is not None}

    def _l1_block(self, line: dict[str, Any]) -> L1Block | None:
        if "txs" not in line:
            return None
        header = decode_header(bytes.fromhex(line["header_rlp"]))
        wanted = (
            (self.config.deposit_contract, DEPOSIT_TOPIC),
            (self.config.l1_system_config, CONFIG_UPDATE_TOPIC),
        )
        transactions = [bytes.fromhex(text) for text in line["txs"]]
        logs = logs_of_receipts([bytes.fromhex(text) for text in line.get("receipts") or ()], wanted)
        return L1Block(
            l1_header(header, bytes.fromhex(line["hash"][2:])),
            inbox_transactions(transactions, self.config.batch_inbox, self.config.l1_chain_id),
            tuple(log for log in logs if log.topics[0] == DEPOSIT_TOPIC),
            tuple(log for log in logs if log.topics[0] == CONFIG_UPDATE_TOPIC),
        )

    def contents(self, blobs: tuple[BlobRef, ...]) -> tuple[BlobContent, ...]:
        return tuple(BlobContent(blob.hash, self._blob(blob.hash), None) for blob in blobs)

    def _blob(self, blob_hash: bytes) -> bytes:
        return decode_blob((self._folder / f"blob_{blob_hash.hex()}.bin").read_bytes())

    def config_of(self, number: int) -> SystemConfig:
        """The system config that stands in a recorded L2 block."""
        block = self.l2_blocks[number]
        return system_config_of_block(
            self.config,
            number=number,
            block_hash=block.ref.hash,
            timestamp=block.header.timestamp,
            gas_limit=block.header.gas_limit,
            extra_data=block.header.extra_data,
            transactions=block.content.transactions,
        )

    @cached_property
    def l2_blocks(self) -> dict[int, RecordedL2]:
        blocks = [self._l2_block(item) for item in json.loads((self._folder / "l2_blocks.json").read_text())]
        return {block.ref.number: block for block in blocks}

    def _l2_block(self, item: dict[str, Any]) -> RecordedL2:
        header = decode_header(bytes.fromhex(item["header_rlp"]))
        transactions = tuple(bytes.fromhex(text) for text in item["txs"])
        info = l1_info_of_block(transactions, self.config.schedule().l1_info_format(header.timestamp))
        ref = L2BlockRef(
            bytes.fromhex(item["hash"][2:]),
            header.number,
            header.parent_hash,
            header.timestamp,
            info.origin,
            info.sequence_number,
        )
        return RecordedL2(header, L2BlockContent(ref, transactions))


@pytest.fixture(scope="session")
def recording(shared_data: Path) -> Recording:
    return Recording(shared_data / "op_sepolia_replay")


# --- a made-up chain -----------------------------------------------------------------------------------------------

BATCHER, STRANGER, INBOX = b"\xba" * 20, b"\x57" * 20, b"\xff" * 20
GENESIS_TIME, L1_STEP, BLOCK_TIME = 1_000, 12, 2
TIMES_ALL = ("regolith", "canyon", "delta", "ecotone", "fjord", "granite", "holocene", "isthmus", "jovian", "karst")
CHANNEL = bytes(range(16))
L1_CHAIN = L1Chain(900, "made up", (BlobFork("cancun", 0, 3_338_477),))
USER = b"\x02user"


def forks_to(name: str, **times: int) -> dict[str, int]:
    """All forks up to this one at genesis, and others at their times."""
    return {each: 0 for each in (*TIMES_ALL, "lagoon")[: (*TIMES_ALL, "lagoon").index(name) + 1]} | times


class World:
    """A rollup whose L1 blocks come 12 seconds apart from time 1000 on and hold what a test puts in them; the L2
    starts at L1 block 0 with 2 seconds a block. It plays engine, too: whatever is derived becomes the safe head."""

    def __init__(self, forks: dict[str, int], **changes: Any) -> None:
        system = SystemConfig(BATCHER, bytes(32), bytes(32), 30_000_000)
        genesis = Genesis(BlockId(0, l1_hash(0)), BlockId(0, keccak256(b"L2 0")), GENESIS_TIME, system)
        values: dict[str, Any] = {
            "genesis": genesis,
            "block_time": BLOCK_TIME,
            "max_sequencer_drift": 600,
            "seq_window_size": 20,
            "channel_timeout": 300,
            "l1_chain_id": 900,
            "l2_chain_id": 901,
            "fork_times": forks,
            "batch_inbox": INBOX,
            "deposit_contract": b"\xde" * 20,
            "l1_system_config": b"\x5c" * 20,
            "chain_op_config": ChainOpConfig(6, 50, 250),
        }
        self.config = RollupConfig(**(values | changes))
        self.overlap_check = True
        self.inbox: dict[int, list[InboxTransaction]] = {}
        self.logs: dict[int, tuple[Log, ...]] = {}
        self.blobs: dict[bytes, BlobContent] = {}
        self.safe = L2BlockRef(genesis.l2.hash, 0, bytes(32), GENESIS_TIME, genesis.l1, 0)
        self.chain: dict[int, L2BlockContent] = {0: L2BlockContent(self.safe, ())}
        self.outputs: list[Any] = []
        self.deriver: Deriver | None = None
        self.answers_l2 = True

    # L1

    def l1(self, number: int) -> L1Block:
        header = L1Header(
            l1_hash(number), number, l1_hash(number - 1), l1_time(number), keccak256(b"%d" % number), 7, 0, bytes(32)
        )
        return L1Block(header, tuple(self.inbox.get(number, ())), (), self.logs.get(number, ()))

    def put(self, number: int, *items: bytes, sender: bytes = BATCHER, kind: int = 2) -> None:
        """Transactions with these call data into an L1 block."""
        found = self.inbox.setdefault(number, [])
        found.extend(InboxTransaction(kind, sender, item, ()) for item in items)

    def put_blobs(self, number: int, *items: bytes | None, sender: bytes = BATCHER, data: bytes = b"") -> None:
        """One blob transaction; None is a blob that does not decode."""
        refs = []
        for item in items:
            content_hash = b"\x01" + keccak256(item if item is not None else b"bad")[1:]
            refused = "made up (rule BL1)" if item is None else None
            self.blobs[content_hash] = BlobContent(content_hash, item, refused)
            refs.append(BlobRef(len(refs), content_hash))
        self.inbox.setdefault(number, []).append(InboxTransaction(3, sender, data, tuple(refs)))

    def put_batches(self, number: int, *batches: bytes, channel: bytes = CHANNEL, brotli: bool = False) -> None:
        """A whole channel into one transaction of an L1 block."""
        body = channel_body(batches, Compression.BROTLI if brotli else Compression.ZLIB)
        self.put(number, item(Frame(channel, 0, body, True)))

    # L2

    def block(
        self, number: int, epoch: int, *transactions: bytes, parent: bytes | None = None, time: int | None = None
    ) -> BatchBlock:
        """What a batch says of L2 block `number`. Its parent must be derived already unless it is given."""
        if parent is None:
            parent = self.chain[number - 1].ref.hash if number - 1 in self.chain else bytes(32)
        timestamp = GENESIS_TIME + BLOCK_TIME * number if time is None else time
        return BatchBlock(parent, timestamp, BlockId(epoch, l1_hash(epoch)), transactions)

    def singular(self, number: int, epoch: int, *transactions: bytes, **changes: Any) -> bytes:
        return singular_batch(self.block(number, epoch, *transactions, **changes))

    def span(self, first: int, *epochs: int, transactions: Any = ()) -> bytes:
        """A span from block `first` on with these epochs; `transactions` is a list per block."""
        lists = list(transactions) + [()] * (len(epochs) - len(transactions))
        blocks = [self.block(first + at, epoch, *lists[at]) for at, epoch in enumerate(epochs)]
        parent = self.chain[first - 1].ref.l1_origin.number if first - 1 in self.chain else epochs[0]
        return span_batch(blocks, GENESIS_TIME, parent)

    def extend(self, count: int, epoch: int, *transactions: bytes) -> None:
        """Blocks of the safe chain that stand there before derivation starts."""
        for _ in range(count):
            self._grow(BlockId(epoch, l1_hash(epoch)), (b"\x7einfo", *transactions))

    def _grow(self, origin: BlockId, transactions: tuple[bytes, ...]) -> None:
        parent = self.safe
        sequence = parent.sequence_number + 1 if origin == parent.l1_origin else 0
        block_hash = keccak256(parent.hash + b"".join(transactions))
        time = parent.timestamp + BLOCK_TIME
        self.safe = L2BlockRef(block_hash, parent.number + 1, parent.hash, time, origin, sequence)
        self.chain[self.safe.number] = L2BlockContent(self.safe, transactions)

    # derivation

    def start(self, base: int = 0) -> Deriver:
        self.deriver = Deriver(self.config, L1_CHAIN, span_overlap_check=self.overlap_check)
        system = self.config.genesis.system_config
        self.deriver.reset(PipelineStart(1, self.safe, system, BlockId(base, l1_hash(base)), system))
        return self.deriver

    def run(self, last: int, stop: Callable[[Any], bool] = lambda output: False) -> list[Any]:
        """Derives with L1 blocks up to `last`; everything that came out except needs."""
        deriver = self.deriver or self.start()
        found: list[Any] = []
        system = self.config.genesis.system_config
        for _ in range(100_000):
            output = deriver.step(self.safe, system)
            if isinstance(output, Dropped | Attributes | NeedReset):
                found.append(output)
            if stop(output) or isinstance(output, NeedReset):
                return found
            if isinstance(output, NeedL1Block) and output.number > last:
                return found
            self._meet(deriver, output)
        raise AssertionError("derivation does not come to an end")

    def _meet(self, deriver: Deriver, output: Any) -> None:
        if isinstance(output, NeedL1Block):
            assert deriver.add_l1_block(self.l1(output.number))
        elif isinstance(output, NeedBlobs):
            assert deriver.add_blobs(output.block.hash, [self.blobs[blob.hash] for blob in output.blobs])
        elif isinstance(output, NeedDecoded):
            assert deriver.add_decoded(output.key, tasks.run(output.task))
        elif isinstance(output, NeedL2Blocks):
            numbers = range(output.first, output.last + 1)
            blocks = [self.chain[number] for number in numbers] if self.answers_l2 else None
            assert deriver.add_l2_blocks(output.first, output.last, blocks)
        elif isinstance(output, Attributes):
            epoch = l1_info_of_block(
                output.attributes.transactions, self.config.schedule().l1_info_format(output.attributes.timestamp)
            )
            self._grow(epoch.origin, output.attributes.transactions)


def l1_hash(number: int) -> bytes:
    return keccak256(b"L1 %d" % number)


def l1_time(number: int) -> int:
    return GENESIS_TIME + L1_STEP * number


def item(*frames: Frame) -> bytes:
    """A data item of these frames."""
    return batcher_data(frames)


def rlp_transaction(chain_id: int) -> bytes:
    """A transaction of type 2 that goes through a span batch unchanged."""
    fields: list[rlp.Item] = [bytes((chain_id >> 8, chain_id & 255)), b"", b"\x01", b"\x02", b"\x52\x08", b"t" * 20]
    return b"\x02" + rlp.encode([*fields, b"\x01", b"", [], b"", b"r" * 32, b"s" * 32])


def told(outputs: list[Any]) -> list[str]:
    """Outputs in short: `number@epoch+users` of what was derived, effect and rule of what was dropped."""
    found: list[str] = []
    number = None
    for output in outputs:
        if isinstance(output, Attributes):
            number = output.parent.number + 1
            users = sum(not transaction.startswith(b"\x7e") for transaction in output.attributes.transactions)
            found.append(f"{number}+{users}")
        elif isinstance(output, Dropped):
            found.append(f"{output.effect.name.lower()} {output.reason.rule.id}")
        elif isinstance(output, NeedReset):
            found.append(f"reset {output.reason.rule.id}")
    return found


@pytest.fixture(scope="session")
def made() -> Any:
    """This module: tests cannot import their neighbours."""
    return sys.modules[__name__]
