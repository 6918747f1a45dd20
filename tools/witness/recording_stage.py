"""The compute worker of a witness: it verifies L1 blocks and blobs, and stores what it has verified.

The nodes of a trie are those that its verification makes anyway, so that they cost little more."""

from functools import cached_property
from hashlib import sha256
from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.blobs import tasks as blob_tasks
from rollup_node.stages.blobs.kzg import versioned_hash
from rollup_node.stages.derivation import tasks as derivation_tasks
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import Stage
from rollup_node.stages.l1 import tasks as l1_tasks
from rollup_node.stages.l1.receipts import verified_logs
from rollup_node.stages.l1.tasks import Invalid, NeedsReceipts, VerifyBlock, VerifyReceipts
from rollup_node.stages.l1.verify import InvalidDataError, parse_block, verify_block, verify_header
from rollup_node.stages.protocol.headers import encode_header
from rollup_node.stages.protocol.hex_encoding import HexError, hash_from_hex
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import BlockId, Hash
from rollup_node.tools.batcher.kzg_proofs import compute_proof, verify_proof
from rollup_node.tools.witness.packs import PackFolder, blob_name, l1_name, receipts_name
from rollup_node.tools.witness.preimages import EMPTY_LIST, blob_preimages, hashed_preimages


class RecordingConfig(msgspec.Struct, frozen=True):
    """Packs are kept in `folder`, with the store beside it; `base` is the name of the one with the first L1 block."""

    folder: str
    base: str


class Recorder:
    """Tasks of compute workers that store what they verify [WIT5]."""

    def __init__(self, packs: PackFolder, base: str) -> None:
        self._packs, self._base_name = packs, base

    @cached_property
    def _base(self) -> int:
        """The number of the first L1 block: the pack is there before a block is asked for."""
        return self._packs.get(self._base_name, BlockId, "the first L1 block").number

    def l1(self, task: l1_tasks.Task) -> l1_tasks.Result:
        """Run a task of l1; never raises for bad data."""
        try:
            return self._block(task) if isinstance(task, VerifyBlock) else self._receipts(task)
        except InvalidDataError as error:
            return Invalid(str(error))

    def _block(self, task: VerifyBlock) -> l1_tasks.Result:
        nodes: dict[Hash, bytes] = {}
        parsed = parse_block(task.body)
        block = verify_block(parsed, task.number, False, task.l1_filters, nodes)
        block_hash, has_receipts = block.header.hash, block.receipts_root != EMPTY_ROOT
        if not self._packs.has(l1_name(block_hash)):
            header, _ = verify_header(msgspec.structs.asdict(parsed), False)
            self._packs.put_stored(
                l1_name(block_hash),
                hashed_preimages({block_hash: encode_header(header), **(nodes or EMPTY_LIST)}),
                parent=header.parent_hash,
                has_receipts=has_receipts,
                blobs=tuple(ref.hash for inbox in block.inboxes for item in inbox for ref in item.blobs),
            )
        is_wanted = has_receipts and not block.needs_receipts
        if is_wanted and task.number > self._base and not self._packs.has(receipts_name(block_hash)):
            # Derivation skips the receipts of a block whose bloom filter excludes its logs; kona-client reads them.
            hashes = _claimed_hashes(parsed.transactions)
            return NeedsReceipts(msgspec.structs.replace(block, transaction_hashes=hashes))
        return l1_tasks.verified(block)

    def _receipts(self, task: VerifyReceipts) -> l1_tasks.Result:
        nodes: dict[Hash, bytes] = {}
        logs = verified_logs(task.body, task.block, task.l1_filters, nodes)
        self._packs.put_stored(receipts_name(task.block.header.hash), hashed_preimages(nodes))
        return l1_tasks.verified(task.block, logs)

    def blobs(self, task: blob_tasks.Task) -> blob_tasks.Result:
        """Run a task of blobs; never raises for bad data."""
        commitments: dict[Hash, bytes] = {}
        result = blob_tasks.run(task, commitments)
        offered = {sha256(item.blob).digest(): item for item in task.offered}
        for content, digest in zip(result.contents, result.digests, strict=True):
            item = offered[digest]
            commitment = commitments.get(content.hash) or item.commitment or b""
            assert versioned_hash(commitment) == content.hash, "an authentic blob has the commitment of its hash"
            if not self._packs.has(blob_name(content.hash)):
                proof = item.proof
                if proof is None or not verify_proof(item.blob, commitment, proof):
                    proof = compute_proof(item.blob, commitment)
                self._packs.put_stored(blob_name(content.hash), blob_preimages(commitment, item.blob, proof))
        return result


def _claimed_hashes(transactions: list[object]) -> tuple[Hash, ...]:
    """Return the hashes that an endpoint lists: receipts are asked for by them, and compared with the root."""
    try:
        return tuple(hash_from_hex(getattr(item, "hash", None)) for item in transactions)
    except HexError as error:
        raise InvalidDataError(f"a transaction has a malformed hash: {error}") from None


class RecordingStage(Stage):
    """A compute stage that keeps packs."""

    def __init__(self, config: RecordingConfig, bus: Bus) -> None:
        recorder = Recorder(PackFolder(Path(config.folder)), config.base)
        self.worker = bus.work(
            {"work.derivation": derivation_tasks.run, "work.l1": recorder.l1, "work.blobs": recorder.blobs}
        )


def build(config: RecordingConfig, bus: Bus, meter: Meter) -> RecordingStage:
    return RecordingStage(config, bus)
