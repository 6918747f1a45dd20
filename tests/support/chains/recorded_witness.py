"""A witness of recorded OP Sepolia data, made in this process: by the recorder, and completed by its packs."""

from pathlib import Path

import msgspec
import orjson

from rollup_node.node.setup.chain import ChosenChain
from rollup_node.node.setup.networks import find_network
from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.blobs.tasks import VerifyBlobs
from rollup_node.stages.l1.filter import filter_of_rollup
from rollup_node.stages.l1.tasks import Verified, VerifyBlock, VerifyReceipts
from rollup_node.stages.l1.verify import VerifiedBlock, parse_block, verify_block
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.inspect.l2_source import FileSource
from rollup_node.tools.recorded.recording import RecordedBlock, Recording
from rollup_node.tools.witness.assembly import assemble
from rollup_node.tools.witness.manifest import Manifest
from rollup_node.tools.witness.packs import PackFolder, RangeResult, base_name, range_name
from rollup_node.tools.witness.range_stage import RecordingSource
from rollup_node.tools.witness.recording_stage import Recorder

FIRST, LAST = 16_491_247, 16_491_249
OVERLAP = 16_491_244
"""The parent of the span that FIRST is in the middle of."""
BASE, HEAD = 6_582_944, 6_582_952
"""No channel is open at the origin of OVERLAP."""
NETWORK = find_network("op-sepolia")
CHAIN = ChosenChain("op-sepolia", NETWORK.config, L1_CHAINS[NETWORK.config.l1_chain_id])
FILTERS = (filter_of_rollup(CHAIN.config, inbox_hashes=True),)


def body_of(block: RecordedBlock) -> bytes:
    """Return the answer to eth_getBlockByNumber with full transactions."""
    return orjson.dumps({"result": block.block(True)})


def receipts_body(block: RecordedBlock) -> bytes:
    """Return the answer to eth_getBlockReceipts."""
    return orjson.dumps({"result": block.receipts_json()})


def with_receipts(block: RecordedBlock) -> VerifiedBlock:
    """Return a verified block with the hashes of its transactions, whatever its bloom says."""
    verified = verify_block(parse_block(body_of(block)), block.number, True, FILTERS)
    hashes = tuple(bytes.fromhex(item["hash"][2:]) for item in block.transactions_json)
    header = msgspec.structs.replace(verified.header, hash=block.hash)
    return msgspec.structs.replace(verified, header=header, transaction_hashes=hashes)


async def record(recording: Recording, blocks: Path, packs: PackFolder) -> None:
    """Store all that deriving the recorded range reads, with packs in a new folder."""
    packs.create()
    recorder = Recorder(packs, base_name(FIRST, LAST))
    base, head = (BlockId(number, recording.block(number).hash) for number in (BASE, HEAD))
    packs.put(base_name(FIRST, LAST), base)
    hashes = []
    for number in range(BASE, HEAD + 1):
        block = recording.block(number)
        hashes += [item for item in block.blob_hashes() if item in recording.blobs]
        recorder.l1(VerifyBlock(number, body_of(block), False, FILTERS))
        if block.receipts is not None:
            assert isinstance(
                recorder.l1(VerifyReceipts(with_receipts(block), receipts_body(block), FILTERS)), Verified
            )
    offered = tuple(OfferedBlob(*recording.blobs[item], None) for item in hashes)
    recorder.blobs(VerifyBlobs(tuple(hashes), offered))
    source = RecordingSource(FileSource.read(blocks), packs)
    for number in range(OVERLAP, LAST + 1):
        await source.payload(number)
    packs.put(range_name(FIRST, LAST), RangeResult(base, head, b"", b""))


def assembled(packs: PackFolder) -> Manifest:
    """Complete the store of the recorded range."""
    return assemble(packs, [(FIRST, LAST)], CHAIN, None)
