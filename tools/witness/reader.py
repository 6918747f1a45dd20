"""Reads a witness: L1 blocks, blobs and L2 blocks, each proven from the hashes in the manifest [WIT7]."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from rollup_node.stages.blobs.tasks import blob_content
from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedDecoded, NeedL1Block, NeedL2Blocks, NeedReset
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.engine.calls.heads import UnreadableBlockError, l2_block_info
from rollup_node.stages.l1.filter import bloom_excludes_logs, filter_of_rollup, split_logs, wanted_events
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.block_refs import payload_of_header
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.headers import Header, HeaderError, l1_header
from rollup_node.stages.protocol.hex_encoding import hash_from_hex
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, ProofError, ordered_root
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.receipts import logs_of_receipts
from rollup_node.stages.protocol.transactions import inbox_transactions
from rollup_node.stages.protocol.types import BlobRef, BlockId, Hash, L1Block, L2BlockContent, Log
from rollup_node.tools.batcher.kzg_proofs import verify_proof
from rollup_node.tools.history.l1_view import RecentBlocks
from rollup_node.tools.inspect.channel_sources import BlockSources
from rollup_node.tools.inspect.replay import BlockComparison, compare_block
from rollup_node.tools.recorded.encoded_blocks import decode_header, ordered_values
from rollup_node.tools.witness.assembly import AGREED, CHAIN_ID, CLAIMED, CLAIMED_NUMBER, L1_HEAD, ROLLUP_CONFIG
from rollup_node.tools.witness.manifest import Manifest, read_manifest, rollup_of
from rollup_node.tools.witness.preimages import PreimageFolder, WitnessError


class WitnessReader:
    """A witness. All methods raise WitnessError, which names the preimage that is missing or altered.

    `manifest` has its blocks, `config` the chain's parameters."""

    def __init__(self, folder: Path) -> None:
        self.manifest: Manifest = read_manifest(folder)
        self.config = rollup_of(self.manifest)
        self._store = PreimageFolder(folder)
        self._filter = filter_of_rollup(self.config, inbox_hashes=True)
        self._check_boot()
        manifest = self.manifest
        self._l1 = self._hashes("L1 block", manifest.l1_head.id, manifest.l1_base.id)
        self._l2 = self._hashes("L2 block", manifest.known.id, manifest.safe_head.id)

    def _check_boot(self) -> None:
        """Compare the boot inputs with the manifest: no digest is in their keys."""
        manifest = self.manifest
        wanted = {
            L1_HEAD: manifest.l1_head.id.hash,
            AGREED: None if manifest.agreed is None else hash_from_hex(manifest.agreed),
            CLAIMED: None if manifest.claimed is None else hash_from_hex(manifest.claimed),
            CLAIMED_NUMBER: manifest.last.to_bytes(8, "big"),
            CHAIN_ID: self.config.l2_chain_id.to_bytes(8, "big"),
            ROLLUP_CONFIG: bytes(manifest.rollup),
        }
        for number, value in wanted.items():
            if value is None:
                continue
            stored = self._store.local(number, f"boot input {number}")
            same = (
                stored == value
                if number != ROLLUP_CONFIG
                else msgspec.json.decode(stored) == msgspec.json.decode(value)
            )
            if not same:
                raise WitnessError(f"boot input {number} (local) is not the one in the manifest: one was altered")
        for root, name in ((wanted[AGREED], "agreed"), (wanted[CLAIMED], "claimed")):
            if root is not None:
                self._store.hashed(root, f"the {name} output")

    def _hashes(self, kind: str, newest: BlockId, oldest: BlockId) -> dict[int, Hash]:
        """Return the hashes of a chain of headers by number, from the newest back."""
        result: dict[int, Hash] = {}
        number, block_hash = newest.number, newest.hash
        while True:
            result[number] = block_hash
            if number <= oldest.number:
                break
            parent = self._header(kind, number, block_hash).parent_hash
            number, block_hash = number - 1, parent
        if block_hash != oldest.hash:
            raise WitnessError(f"{kind} {newest.number} does not descend from {kind} {oldest.number} of the manifest")
        return result

    def _header(self, kind: str, number: int, block_hash: Hash) -> Header:
        what = f"the header of {kind} {number}"
        try:
            header = decode_header(self._store.hashed(block_hash, what))
        except HeaderError as error:
            raise WitnessError(f"{what}: {error}") from None
        if header.number != number:
            raise WitnessError(f"{what} is that of block {header.number}")
        return header

    def _list(self, root: Hash, what: str) -> list[bytes]:
        """Return the transactions or receipts with this root."""
        try:
            return ordered_values(root, lambda digest: self._store.hashed(digest, f"a trie node of {what}"))
        except ProofError as error:
            raise WitnessError(f"{what}: {error}") from None

    def l1_block(self, number: int) -> L1Block | None:
        """Return an L1 block with what derivation reads of it; None outside of the witness."""
        block_hash = self._l1.get(number)
        if block_hash is None:
            return None
        header = self._header("L1 block", number, block_hash)
        encoded = self._list(header.transactions_root, f"the transactions of L1 block {number}")
        inbox = inbox_transactions(encoded, self._filter.inbox, self._filter.chain_id, with_hashes=True)
        logs: tuple[tuple[Log, ...], ...] = ((), ())
        # The updates of the base are in the system config that derivation starts with.
        if header.receipts_root != EMPTY_ROOT and number > self.manifest.l1_base.number:
            # kona-client reads also those of a block whose bloom filter excludes our logs.
            receipts = self._list(header.receipts_root, f"the receipts of L1 block {number}")
            if not bloom_excludes_logs(header.logs_bloom, [self._filter]):
                logs = split_logs(logs_of_receipts(receipts, wanted_events([self._filter])), self._filter)
        return L1Block(l1_header(header, block_hash), inbox, logs[0], logs[1])

    def blobs(self, number: int, refs: tuple[BlobRef, ...]) -> tuple[BlobContent, ...]:
        """Return the contents of blobs of an L1 block, each verified by its KZG proof."""
        return tuple(self._blob(f"blob {ref.index} of L1 block {number}", ref.hash) for ref in refs)

    def _blob(self, what: str, versioned_hash: Hash) -> BlobContent:
        blob, commitment, proof = self._store.blob(versioned_hash, what)
        if not verify_proof(blob, commitment, proof):
            raise WitnessError(
                f"an element of {what}, or its KZG proof, is not what its commitment commits to:"
                f" it is damaged or was altered (versioned hash 0x{versioned_hash.hex()})"
            )
        return blob_content(versioned_hash, blob)

    def l2_block(self, number: int, derived: tuple[bytes, ...] | None = None) -> ExecutionPayload | None:
        """Return an L2 block, None where its hash is unknown.

        Of blocks after the safe head the witness has the header only: their transactions are `derived` if the header
        commits to these, else none."""
        while number < min(self._l2):
            first = min(self._l2)
            self._l2[first - 1] = self._header("L2 block", first, self._l2[first]).parent_hash
        block_hash = self._l2.get(number)
        if block_hash is None:
            return None
        header = self._header("L2 block", number, block_hash)
        if number <= self.manifest.safe_head.number:
            transactions = tuple(self._list(header.transactions_root, f"the transactions of L2 block {number}"))
        else:
            is_same = derived is not None and ordered_root(derived) == header.transactions_root
            transactions = derived if is_same and derived is not None else ()
        return payload_of_header(header, block_hash, transactions)


def derive_witness(
    witness: WitnessReader,
    sources: BlockSources | None = None,
    on_drop: Callable[[Dropped], object] = lambda dropped: None,
) -> Iterator[BlockComparison]:
    """Yield each block that is derived, compared with the header in the witness.

    `sources` then has the batch of each block, and `on_drop` takes what is dropped before it. The first block that
    differs is the last. Raises WitnessError where a preimage is missing or altered, and where the
    blocks of the witness do not lead to its last one."""
    manifest, config = witness.manifest, witness.config
    number = manifest.safe_head.number
    safe_payload = witness.l2_block(number)
    assert safe_payload is not None, "the safe head is one of the blocks of the manifest"
    try:
        info = l2_block_info(safe_payload, config)
    except UnreadableBlockError as error:
        raise WitnessError(f"L2 block {number}: {error}") from None
    sources = sources or BlockSources(config)
    run = _Run(witness, sources, on_drop)
    safe, system = info.ref, info.config
    run.deriver.reset(manifest.l1_base.id, system)
    while safe.number < manifest.last:
        try:
            output = run.deriver.step(safe, system)
        except CriticalError as error:
            raise WitnessError(str(error)) from None
        if not isinstance(output, AttributesReady):
            run.supply(output, safe.number)
            continue
        transactions = () if sources.accepted is None else sources.accepted.l1_transactions
        derived = msgspec.structs.replace(output, sources=transactions)
        known = witness.l2_block(safe.number + 1, derived.attributes.transactions)
        comparison = compare_block(config, derived, known)
        yield comparison
        if comparison.differences:
            return
        safe, system = comparison.safe_head, comparison.safe_config
        run.recent.add(L2BlockContent(safe, derived.attributes.transactions))


class _Run:
    """The deriver, and what was derived last."""

    def __init__(self, witness: WitnessReader, sources: BlockSources, on_drop: Callable[[Dropped], object]) -> None:
        self._witness, self._on_drop, self.recent = witness, on_drop, RecentBlocks()
        self.deriver = Deriver(witness.config, witness.manifest.l1_chain, events=sources)

    def supply(self, output: object, at: int) -> None:
        """Bring what the deriver needs, from the witness."""
        deriver, witness = self.deriver, self._witness
        match output:
            case Dropped():
                self._on_drop(output)
            case NeedL1Block(number=number):
                block = witness.l1_block(number)
                if block is None:
                    raise WitnessError(f"nothing is derived after L2 block {at}: the witness has no L1 block {number}")
                deriver.add_l1_block(block)
            case NeedBlobs(block=block_ref, blobs=refs):
                deriver.add_blobs(block_ref.hash, witness.blobs(block_ref.number, refs))
            case NeedDecoded(key=key, task=task):
                deriver.add_decoded(key, tasks.run(task))
            case NeedL2Blocks(first=first, last=last):
                deriver.add_l2_blocks(first, last, [self._content(number) for number in range(first, last + 1)])
            case NeedReset(reason=reason):
                raise WitnessError(f"nothing is derived after L2 block {at}: {reason}")
            case _:
                raise WitnessError(f"nothing is derived after L2 block {at}")

    def _content(self, number: int) -> L2BlockContent:
        recent = self.recent.get(number)
        if recent is not None:
            return recent
        payload = self._witness.l2_block(number)
        if payload is None:
            raise WitnessError(f"the witness lacks L2 block {number}, which a span batch overlaps")
        return L2BlockContent(l2_block_info(payload, self._witness.config).ref, payload.transactions)
