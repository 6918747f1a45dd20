"""Derives the range of a witness from its store alone, in this process: no endpoint is asked, no socket is opened."""

from collections.abc import Callable, Iterator

import msgspec

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedDecoded, NeedL1Block, NeedL2Blocks, NeedReset
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.engine.calls.heads import UnreadableBlockError, l2_block_info
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import L2BlockContent
from rollup_node.tools.history.l1_view import RecentBlocks
from rollup_node.tools.inspect.channel_sources import BlockSources
from rollup_node.tools.inspect.replay import BlockComparison, compare_block
from rollup_node.tools.witness.preimages import WitnessError
from rollup_node.tools.witness.reader import WitnessReader


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
        transactions = () if sources.accepted is None else sources.accepted.transactions
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
