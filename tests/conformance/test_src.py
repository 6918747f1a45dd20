"""The data items of an L1 block: which calldata and which blobs, and in which order [O1 to O7]."""

from collections.abc import Sequence
from functools import partial

from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process import stage as blobs_process
from rollup_node.stages.derivation.pipeline.block_frames import ItemFrames, blob_refs, data_items
from rollup_node.stages.derivation.pipeline.ingestion import DataSource
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, PipelineEvents
from rollup_node.stages.derivation.reasons.l1 import BlobMalformed
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.messages.blobs import BlobContent, BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.transactions import inbox_transactions
from rollup_node.stages.protocol.types import BlobRef, Hash, InboxTransaction, L1BlockRef
from tests.conformance.kit.cases import CoveredCases, case, table
from tests.conformance.kit.chain import BATCHER, GENESIS_TIME, L1_BLOCK_TIME, blobs, calldata, forks_until
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.l1_transactions import BLOB, SIGNER, signed
from tests.conformance.kit.notation import item, names
from tests.support.processes.stage_runner import running_stage
from tests.support.timing.conditions import until

ECOTONE = forks_until("ecotone")
H1, H2, H3 = (bytes((number,)) * 32 for number in (1, 2, 3))


class SourceHarness:
    """The data source at the first block after genesis; `needed` are the hashes of the blobs that it needs.

    Data is in the notation of frames."""

    def __init__(self, *inbox: InboxTransaction, forks: dict[str, int] = ECOTONE) -> None:
        harness = IngestionHarness(forks)
        self.block = harness.l1.add(*inbox)
        self.rules = harness.config.schedule().l1(self.block.header.timestamp)
        self.events = PipelineEvents()
        self.source = DataSource(self.events)
        self.source.open(self.block, BATCHER, self.rules)
        self.needed = tuple(ref.hash for ref in blob_refs(data_items(self.block, BATCHER, self.rules)))

    def take(self, contents: dict[Hash, bytes | None], hashes: Sequence[Hash]) -> bool:
        """Add contents in this order; returns whether they are the needed ones."""
        answer = [BlobContent(hash_, contents[hash_], None if contents[hash_] else "BL1") for hash_ in hashes]
        return self.source.add_blobs(self.block.header.hash, answer)

    def items(self, **contents: str | None) -> list[str]:
        """Return the frames of all items; contents of the blobs H1, H2, H3, None for one that does not decode."""
        texts = {H1: contents.get("h1"), H2: contents.get("h2"), H3: contents.get("h3")}
        data = {key: None if text is None else item(text) for key, text in texts.items()}
        if self.needed:
            need = self.source.pop()
            assert isinstance(need, NeedBlobs)
            assert tuple(ref.hash for ref in need.blobs) == self.needed
            assert self.take(data, self.needed)
        result = []
        while isinstance(popped := self.source.pop(), ItemFrames):
            assert popped.drops == ()
            result.append(names(popped.frames))
        assert popped is None
        return result


@table(
    src_order_mixed=(
        [calldata(item("A0")), blobs([H1, H2]), calldata(item("A3"))],
        *((H1, H2), ["A0", "A1", "A2", "A3"]),
    ),
    src_type3_calldata_ignored=([blobs([H1], item("A0"))], (H1,), ["A1"]),
    src_type3_no_hashes=([blobs([], item("A0"))], (), []),
    src_dup_hashes=([blobs([H1]), blobs([H1], first=1)], (H1, H1), ["A1", "A1"]),
)
def in_the_order_of_the_block(inbox: list[InboxTransaction], needed: tuple[Hash, ...], frames: list[str]) -> None:
    """Of blob transactions the blobs alone."""
    source = SourceHarness(*inbox)
    assert (source.needed, source.items(h1="A1", h2="A2")) == (needed, frames)


@case("src_pre_ecotone_type3")
def calldata_of_blob_transactions() -> None:
    """The l1 process's transaction filter must not remove it either."""
    raw = signed(BLOB, blob_hashes=(H1,), data=item("A0!"))
    (result,) = inbox_transactions([raw], b"\xff" * 20, 900)
    harness = IngestionHarness(forks_until("delta"))
    harness.batcher = SIGNER
    assert harness.read(result) == ["A0"]


@table(src_ecotone_boundary=(0, (H1,), "B0"), src_ecotone_minus1=(1, (), "A0"))
def at_the_fork(seconds_to_go: int, needed: tuple[Hash, ...], data: str) -> None:
    forks = forks_until("delta", ecotone=L1_BLOCK_TIME + seconds_to_go)
    assert SourceHarness(blobs([H1], item("A0")), forks=forks).needed == needed
    assert SourceHarness(blobs([H1], item("A0")), forks=forks).items(h1="B0") == [data]


@case("src_bad_blob_between")
def one_that_does_not_decode() -> None:
    source = SourceHarness(blobs([H1, H2, H3]))
    assert source.items(h1="A0", h2=None, h3="A2") == ["A0", "A2"]
    assert list(source.events.drops) == [
        Dropped(DropEffect.IGNORED, BlobMalformed(1, H2, "BL1"), None),
    ]


# --- answers of the process that fetches blobs ---------------------------------------------------------------------


covered = CoveredCases(
    src_blob_reordered=(
        "stages/blobs/test_pending_requests.py::test_a_response_has_the_blobs_in_the_requested_order",
        "stages/derivation/pipeline/test_ingestion.py::test_blobs_are_needed_until_they_are_there",
    )
)


@table(src_blob_extra=(H1, H2, H3), src_blob_short=(H1,), src_blob_foreign=(H1, H3))
def refused(*hashes: Hash) -> None:
    """H1 and H2 are needed, and are still so after another answer."""
    source = SourceHarness(blobs([H1, H2]))
    contents: dict[Hash, bytes | None] = {H1: b"1", H2: b"2", H3: b"3"}
    assert not source.take(contents, hashes)
    assert isinstance(source.source.pop(), NeedBlobs) and source.take(contents, [H1, H2])


@case("src_no_beacon")
async def no_source_of_blobs() -> None:
    answers: list[BlobsResponse | BlobsUnavailable] = []
    async with running_stage("blobs", partial(blobs_process.build, BlobsConfig(None))) as buses:
        derivation = buses["derivation"].connect("blobs.contents", answers.append)
        derivation.send(BlobsRequest(L1BlockRef(H1, 1, H2, GENESIS_TIME), (BlobRef(0, H3),), True))
        await until(lambda: answers)
    assert isinstance(answers[0], BlobsUnavailable) and not answers[0].not_found
    assert answers[0].error.startswith("BLOB-NO-SOURCE: blobs of L1 block ")
    assert "no endpoint to fetch blobs from: give one with --l1.beacon" in answers[0].error
