"""The data items of an L1 block: which calldata and which blobs, and in which order [O1 to O7]."""

from collections.abc import Sequence

import pytest

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.blobs.beacon_api import pair_with_commitments
from rollup_node.stages.blobs.kzg import blob_to_commitment, versioned_hash
from rollup_node.stages.blobs.pending_requests import PendingRequests
from rollup_node.stages.blobs.tasks import BlobsVerified, VerifyBlobs, run
from rollup_node.stages.derivation.pipeline.block_frames import ItemFrames, blob_refs, data_items
from rollup_node.stages.derivation.pipeline.ingestion import DataSource
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, PipelineEvents
from rollup_node.stages.derivation.reasons.l1 import BlobMalformed
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.messages.blobs import BlobContent, BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.transactions import inbox_transactions
from rollup_node.stages.protocol.types import BlobRef, Hash, InboxTransaction, L1BlockRef
from rollup_node.tools.batcher.channels import encode_blob
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import BATCHER, GENESIS_TIME, L1_BLOCK_TIME, blobs, calldata, forks_until
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.l1_transactions import BLOB, SIGNER, signed
from tests.conformance.kit.notation import item, names
from tests.conformance.kit.processes import blobs_running
from tests.conformance.kit.streams import noise
from tests.support.processes.stage_runner import run_within

ECOTONE = forks_until("ecotone")
H1, H2, H3 = (bytes((number,)) * 32 for number in (1, 2, 3))
ROW = 2


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


@case("src_order_mixed")
def in_the_order_of_the_block() -> None:
    source = SourceHarness(calldata(item("A0")), blobs([H1, H2]), calldata(item("A3")))
    assert source.needed == (H1, H2)
    assert source.items(h1="A1", h2="A2") == ["A0", "A1", "A2", "A3"]


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


@case("src_type3_calldata_ignored")
def calldata_beside_blobs() -> None:
    source = SourceHarness(blobs([H1], item("A0")))
    assert source.items(h1="B0") == ["B0"]


@case("src_type3_no_hashes")
def blob_transaction_without_blobs() -> None:
    source = SourceHarness(blobs([], item("A0")))
    assert (source.needed, source.items()) == ((), [])


@case("src_dup_hashes")
def one_blob_twice() -> None:
    source = SourceHarness(blobs([H1]), blobs([H1], first=1))
    assert source.needed == (H1, H1)
    assert source.items(h1="B0") == ["B0", "B0"]


@case("src_bad_blob_between")
def one_that_does_not_decode() -> None:
    source = SourceHarness(blobs([H1, H2, H3]))
    assert source.items(h1="A0", h2=None, h3="A2") == ["A0", "A2"]
    assert list(source.events.drops) == [
        Dropped(DropEffect.IGNORED, BlobMalformed(1, H2, "BL1"), None),
    ]


# --- what a beacon node answers ------------------------------------------------------------------------------------


class BeaconHarness:
    """Three blobs of one L1 block, and the blobs process's result for given beacon responses."""

    def __init__(self) -> None:
        self.data = [noise(100 * number, number) for number in (1, 2, 3)]
        self.blobs = [encode_blob(data) for data in self.data]
        self.commitments = list(map(blob_to_commitment, self.blobs))
        self.refs = tuple(BlobRef(place, versioned_hash(entry)) for place, entry in enumerate(self.commitments))
        self.block = L1BlockRef(b"\7" * 32, 7, b"\6" * 32, GENESIS_TIME)

    def ask(self, asked: Sequence[BlobRef], offered: Sequence[bytes]) -> BlobsResponse | BlobsUnavailable | None:
        """Return the process's answer to derivation when a beacon node returns these blobs for those requested."""
        requests = PendingRequests(1 << 20)
        pending = requests.request(ProcessId(ROW, 1), BlobsRequest(self.block, tuple(asked), True), 0.0)
        blobs = pair_with_commitments(offered, asked, self.commitments)
        verified = run(VerifyBlobs(tuple(ref.hash for ref in pending.missing), blobs))
        assert isinstance(verified, BlobsVerified)
        pending.add(verified.contents)
        if pending.missing:
            pending.failed(None, "; ".join(verified.problems) or "some are missing", False, 0.0)
            assert requests.due(0.0) == [] and requests.due(1.0) == [pending]
        return pending.response()


@pytest.fixture(scope="module")
def beacon() -> BeaconHarness:
    return BeaconHarness()


@case("src_blob_reordered")
def in_another_order(beacon: BeaconHarness) -> None:
    result = beacon.ask(beacon.refs, beacon.blobs[::-1])
    assert isinstance(result, BlobsResponse)
    assert [content.data for content in result.contents] == beacon.data


def refuses(*hashes: Hash) -> bool:
    """Whether derivation, which needs H1 and H2, refuses an answer with these and still needs them."""
    source = SourceHarness(blobs([H1, H2]))
    contents: dict[Hash, bytes | None] = {H1: b"1", H2: b"2", H3: b"3"}
    taken = source.take(contents, hashes)
    return not taken and isinstance(source.source.pop(), NeedBlobs) and source.take(contents, [H1, H2])


@case("src_blob_extra")
def one_too_many(beacon: BeaconHarness) -> None:
    """Derivation refuses it.

    It does not receive it either: where a beacon node returns more than was requested, as behind a proxy that drops
    the query, the blobs process leaves out the surplus."""
    assert refuses(H1, H2, H3)
    result = beacon.ask(beacon.refs[:2], beacon.blobs)
    assert isinstance(result, BlobsResponse)
    assert [content.data for content in result.contents] == beacon.data[:2]


@case("src_blob_short")
def one_too_few(beacon: BeaconHarness) -> None:
    assert refuses(H1)
    result = beacon.ask(beacon.refs, beacon.blobs[:2])
    assert isinstance(result, BlobsUnavailable)
    assert not result.not_found


@case("src_blob_foreign")
def one_that_was_not_requested(beacon: BeaconHarness) -> None:
    assert refuses(H1, H3)
    result = beacon.ask(beacon.refs[:1], beacon.blobs[1:2])
    assert isinstance(result, BlobsUnavailable)
    assert not result.not_found
    assert "which was not requested" in result.error


@case("src_no_beacon")
def no_source_of_blobs() -> None:
    request = BlobsRequest(L1BlockRef(H1, 1, H2, GENESIS_TIME), (BlobRef(0, H3),), True)

    async def scenario() -> None:
        async with blobs_running() as derivation:
            result = await derivation.until(request, BlobsUnavailable)
            assert not result.not_found and result.error.startswith("BLOB-NO-SOURCE: blobs of L1 block ")
            assert "no endpoint to fetch blobs from: give one with --l1.beacon" in result.error

    run_within(20, scenario)
