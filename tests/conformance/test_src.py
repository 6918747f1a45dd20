"""The data items of an L1 block (derivation-rules 4): which calldata and which blobs, and in which order."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import ckzg
import pytest

from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.node.runtime.task_runner import Problems, TaskRunner
from rollup_node.stages.blobs.beacon_api import pair_with_commitments
from rollup_node.stages.blobs.blob_requests import PendingRequests
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.kzg import load_setup, versioned_hash
from rollup_node.stages.blobs.process import stage as process
from rollup_node.stages.blobs.tasks import BlobsVerified, VerifyBlobs, run
from rollup_node.stages.derivation.pipeline.data_source import DataSource, data_items, wanted_blobs
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs
from rollup_node.stages.derivation.reasons.reasons import Dropped, Effect, Why
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.blobs import BlobContent, BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.inbox import inbox_transactions
from rollup_node.stages.protocol.types import BlobRef, Hash, InboxTransaction, L1BlockRef
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.batcher.channels import encode_blob
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import BATCHER, GENESIS_TIME, L1_BLOCK_TIME, blobs, calldata, forks_until, rollup
from tests.conformance.kit.intake import Front
from tests.conformance.kit.notation import item
from tests.conformance.kit.signed import BLOB, SIGNER, signed
from tests.conformance.kit.streams import noise

ECOTONE = forks_until("ecotone")
H1, H2, H3 = (bytes((number,)) * 32 for number in (1, 2, 3))
ROW = 2


class Source:
    """The data source at the first block after genesis. `wanted` are the hashes of the blobs that it wants."""

    def __init__(self, *inbox: InboxTransaction, forks: dict[str, int] = ECOTONE) -> None:
        front = Front(forks)
        self.block = front.l1.add(*inbox)
        self.rules = front.config.schedule().l1(self.block.header.timestamp)
        self.trace = Trace()
        self.source = DataSource(self.trace)
        self.source.open(self.block, BATCHER, self.rules)
        self.wanted = tuple(ref.hash for ref in wanted_blobs(data_items(self.block, BATCHER, self.rules)))

    def take(self, contents: dict[Hash, bytes | None], hashes: Sequence[Hash]) -> bool:
        """Brings contents in this order; whether they are what is needed."""
        answer = [BlobContent(each, contents[each], None if contents[each] else "BL1") for each in hashes]
        return self.source.add_blobs(self.block.header.hash, answer)

    def items(self, **contents: bytes | None) -> list[bytes]:
        """All items; contents of the blobs H1, H2, H3, None for one that does not decode."""
        data = {H1: contents.get("h1"), H2: contents.get("h2"), H3: contents.get("h3")}
        if self.wanted:
            need = self.source.pop()
            assert isinstance(need, NeedBlobs)
            assert tuple(ref.hash for ref in need.blobs) == self.wanted
            assert self.take(data, self.wanted)
        found = []
        while isinstance(popped := self.source.pop(), bytes):
            found.append(popped)
        assert popped is None
        return found


@case("src_order_mixed")
def in_the_order_of_the_block() -> None:
    source = Source(calldata(b"first"), blobs([H1, H2]), calldata(b"last"))
    assert source.wanted == (H1, H2)
    assert source.items(h1=b"blob 1", h2=b"blob 2") == [b"first", b"blob 1", b"blob 2", b"last"]


@case("src_pre_ecotone_type3")
def calldata_of_blob_transactions() -> None:
    """Through the filter for transactions as well, which must not lose it."""
    raw = signed(BLOB, blob_hashes=(H1,), data=item("A0!"))
    (found,) = inbox_transactions([raw], b"\xff" * 20, 900)
    front = Front(forks_until("delta"))
    front.batcher = SIGNER
    assert front.read(found) == ["A0"]


@table(src_ecotone_boundary=(0, (H1,), b"blob"), src_ecotone_minus1=(1, (), b"calldata"))
def at_the_fork(seconds_to_go: int, wanted: tuple[Hash, ...], data: bytes) -> None:
    forks = forks_until("delta", ecotone=L1_BLOCK_TIME + seconds_to_go)
    assert Source(blobs([H1], b"calldata"), forks=forks).wanted == wanted
    assert Source(blobs([H1], b"calldata"), forks=forks).items(h1=b"blob") == [data]


@case("src_type3_calldata_ignored")
def calldata_beside_blobs() -> None:
    source = Source(blobs([H1], b"calldata"))
    assert source.items(h1=b"blob") == [b"blob"]


@case("src_type3_no_hashes")
def blob_transaction_without_blobs() -> None:
    source = Source(blobs([], b"calldata"))
    assert (source.wanted, source.items()) == ((), [])


@case("src_dup_hashes")
def one_blob_twice() -> None:
    source = Source(blobs([H1]), blobs([H1], first=1))
    assert source.wanted == (H1, H1)
    assert source.items(h1=b"blob") == [b"blob", b"blob"]


@case("src_bad_blob_between")
def one_that_does_not_decode() -> None:
    source = Source(blobs([H1, H2, H3]))
    assert source.items(h1=b"blob 1", h2=None, h3=b"blob 3") == [b"blob 1", b"blob 3"]
    assert list(source.trace.dropped) == [
        Dropped(Effect.IGNORED, Why.BLOB(index=1, hash=H2, problem="BL1"), None),
    ]


# --- what a beacon node answers ------------------------------------------------------------------------------------


class Beacon:
    """Three blobs of one L1 block, and what the blobs process makes of answers to them."""

    def __init__(self) -> None:
        self.data = [noise(100 * number, number) for number in (1, 2, 3)]
        self.blobs = [encode_blob(data) for data in self.data]
        setup = load_setup()
        self.commitments = [bytes(ckzg.blob_to_kzg_commitment(blob, setup)) for blob in self.blobs]
        self.refs = tuple(BlobRef(place, versioned_hash(each)) for place, each in enumerate(self.commitments))
        self.block = L1BlockRef(b"\7" * 32, 7, b"\6" * 32, GENESIS_TIME)

    def ask(self, asked: Sequence[BlobRef], offered: Sequence[bytes]) -> BlobsResponse | BlobsUnavailable | None:
        """The process's answer to derivation when a beacon node offers these blobs for the ones asked for."""
        requests = PendingRequests(1 << 20)
        pending = requests.request(ProcessId(ROW, 1), BlobsRequest(self.block, tuple(asked), True), 0.0)
        blobs = pair_with_commitments(offered, asked, self.commitments)
        verified = run(VerifyBlobs(tuple(ref.hash for ref in pending.missing), blobs))
        assert isinstance(verified, BlobsVerified)
        pending.add(verified.contents)
        if pending.missing:
            pending.failed("; ".join(verified.problems) or "some are missing", False, 0.0)
            assert requests.due(0.0) == [] and requests.due(1.0) == [pending]
        return pending.response()


@pytest.fixture(scope="module")
def beacon() -> Beacon:
    return Beacon()


@case("src_blob_reordered")
def in_another_order(beacon: Beacon) -> None:
    found = beacon.ask(beacon.refs, beacon.blobs[::-1])
    assert isinstance(found, BlobsResponse)
    assert [content.data for content in found.contents] == beacon.data


def refuses(*hashes: Hash) -> bool:
    """Whether derivation, which wants H1 and H2, refuses an answer with these and goes on wanting."""
    source = Source(blobs([H1, H2]))
    contents: dict[Hash, bytes | None] = {H1: b"1", H2: b"2", H3: b"3"}
    taken = source.take(contents, hashes)
    return not taken and isinstance(source.source.pop(), NeedBlobs) and source.take(contents, [H1, H2])


@case("src_blob_extra")
def one_too_many(beacon: Beacon) -> None:
    """Derivation does not take it. It does not see it either: where a beacon node gives more than was asked for, as
    behind a proxy that drops the query, the blobs process leaves out what nobody wants."""
    assert refuses(H1, H2, H3)
    found = beacon.ask(beacon.refs[:2], beacon.blobs)
    assert isinstance(found, BlobsResponse)
    assert [content.data for content in found.contents] == beacon.data[:2]


@case("src_blob_short")
def one_too_few(beacon: Beacon) -> None:
    assert refuses(H1)
    found = beacon.ask(beacon.refs, beacon.blobs[:2])
    assert isinstance(found, BlobsUnavailable)
    assert not found.not_found


@case("src_blob_foreign")
def one_nobody_asked_for(beacon: Beacon) -> None:
    assert refuses(H1, H3)
    found = beacon.ask(beacon.refs[:1], beacon.blobs[1:2])
    assert isinstance(found, BlobsUnavailable)
    assert not found.not_found
    assert "which was not asked for" in found.error


@case("src_no_beacon")
def no_source_of_blobs() -> None:
    """Blobs that derivation does not wait for yet are no reason to stop."""

    async def use(urgent: bool) -> None:
        with tempfile.TemporaryDirectory(prefix="rn-") as folder:
            buses = in_process_buses(CHANNELS, Path(folder), {"blobs": 1, "derivation": 1, "compute": 1})
            async with running_buses(buses):
                meter = Meter("blobs")
                stage = process.build(BlobsConfig(None, rollup(ECOTONE)), buses["blobs"], meter)
                client = buses["derivation"].connect("blobs.contents", lambda message: None)
                driver = TaskRunner(stage, meter, Problems(stage, meter), "blobs")
                running = asyncio.create_task(driver.run(driver.activities[0]))
                try:
                    for _ in range(20):
                        client.send(BlobsRequest(L1BlockRef(H1, 1, H2, GENESIS_TIME), (BlobRef(0, H3),), urgent))
                        await asyncio.wait([running], timeout=0.02)
                        if running.done():
                            running.result()
                finally:
                    running.cancel()
                    await stage.close()

    with pytest.raises(CriticalError, match="no endpoint to fetch blobs from"):
        asyncio.run(use(urgent=True))
    asyncio.run(use(urgent=False))
