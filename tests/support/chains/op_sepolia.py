"""Recorded OP Sepolia data in the protocol's types: 27 August 2024, 58 L1 blocks, 6 blobs, 5 L2 blocks."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from rollup_node.node.setup.networks import find_network
from rollup_node.stages.blobs.tasks import decode_blob
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.block_refs import l2_ref_of_payload, payload_of_header, system_config_of_payload
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC
from rollup_node.stages.protocol.headers import l1_header
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.receipts import logs_of_receipts
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
from rollup_node.stages.protocol.transactions import inbox_transactions
from rollup_node.stages.protocol.types import BlobRef, L1Block, L2BlockContent, L2BlockRef
from rollup_node.tools.recorded.encoded_blocks import decode_header
from rollup_node.tools.recorded.recording import RecordedBlock, Recording

FIRST_L1 = 6_582_895
LAST_DERIVED_L1 = 6_582_952
"""The L1 block in which the last span ends."""
FIRST_L2, LAST_DERIVED_L2 = 16_491_244, 16_491_249
"""The first recorded L2 block, and the last one that the recorded L1 blocks derive."""


@dataclass(frozen=True)
class RecordedL2:
    """A recorded L2 block."""

    payload: ExecutionPayload
    ref: L2BlockRef

    @property
    def content(self) -> L2BlockContent:
        return L2BlockContent(self.ref, self.payload.transactions)


class SepoliaRecording:
    """The files of a folder `op_sepolia_replay`, read when they are needed."""

    def __init__(self, folder: Path) -> None:
        self.config: RollupConfig = find_network("op-sepolia").config
        self._folder = folder

    @cached_property
    def spans(self) -> list[dict[str, Any]]:
        """The recorded span batches: channel, first L2 block, number of blocks and more."""
        load: list[dict[str, Any]] = orjson.loads((self._folder / "expected.json").read_bytes())["spans"]
        return load

    @cached_property
    def l1_blocks(self) -> dict[int, L1Block]:
        """The recorded L1 blocks by number."""
        blocks = Recording.load(self._folder).by_number.values()
        return {block.number: self._l1_block(block) for block in blocks if block.transactions is not None}

    def _l1_block(self, block: RecordedBlock) -> L1Block:
        wanted = (
            (self.config.deposit_contract, DEPOSIT_TOPIC),
            (self.config.l1_system_config, CONFIG_UPDATE_TOPIC),
        )
        logs = logs_of_receipts(block.receipts or (), wanted)
        return L1Block(
            l1_header(decode_header(block.header_rlp), block.hash),
            inbox_transactions(
                block.transactions or (), self.config.batch_inbox, self.config.l1_chain_id, with_hashes=True
            ),
            tuple(log for log in logs if log.topics[0] == DEPOSIT_TOPIC),
            tuple(log for log in logs if log.topics[0] == CONFIG_UPDATE_TOPIC),
        )

    def contents(self, blobs: tuple[BlobRef, ...]) -> tuple[BlobContent, ...]:
        """Return the decoded contents of recorded blobs."""
        return tuple(BlobContent(blob.hash, self._blob(blob.hash), None) for blob in blobs)

    def _blob(self, blob_hash: bytes) -> bytes:
        return decode_blob((self._folder / f"blob_{blob_hash.hex()}.bin").read_bytes())

    def config_of(self, number: int) -> SystemConfig:
        """Return the system config that a recorded L2 block carries."""
        return system_config_of_payload(self.config, self.l2_blocks[number].payload)

    @cached_property
    def l2_blocks(self) -> dict[int, RecordedL2]:
        """The recorded L2 blocks by number."""
        blocks = [self._l2_block(item) for item in orjson.loads((self._folder / "l2_blocks.json").read_bytes())]
        return {block.ref.number: block for block in blocks}

    def _l2_block(self, item: dict[str, Any]) -> RecordedL2:
        header = decode_header(bytes.fromhex(item["header_rlp"]))
        transactions = tuple(bytes.fromhex(text) for text in item["txs"])
        payload = payload_of_header(header, bytes.fromhex(item["hash"][2:]), transactions)
        return RecordedL2(payload, l2_ref_of_payload(self.config, payload))
