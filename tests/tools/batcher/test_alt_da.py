"""The batcher between an embedded L1 and DA servers: commitments, challenges and their resolution, as the l1 process
reads them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest
from aiohttp import web

from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.tasks import NeedsReceipts, Verified, VerifyBlock, VerifyReceipts, run
from rollup_node.stages.protocol.commitments import (
    ChallengeEvent,
    ChallengeStatus,
    decode_event,
    keccak_commitment,
)
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import Hash, L1Block
from rollup_node.tools.batcher.alt_da import AltDaBatcher
from rollup_node.tools.batcher.driver import Fees, dynamic_fee_transaction
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.da_server import DaServer
from rollup_node.tools.devnet.files import (
    BATCHER_KEY,
    DA_CHALLENGE,
    INBOX,
    L1_CHAIN_ID,
    PORTAL,
    SYSTEM_CONFIG,
    l1_genesis,
)
from rollup_node.tools.devnet.l1.backend import L1Backend
from tests.support.servers.http_listener import app_for_every_path, json_rpc_app, listening

START = 1_800_000_000
GWEI = 10**9
WINDOW = 5
L1_FILTER = L1Filter(L1_CHAIN_ID, INBOX, PORTAL, SYSTEM_CONFIG, DA_CHALLENGE)
DATA = [b"\0frames %d " % index * 300 for index in range(3)]
LOST = DATA[0]
"""The one of them that the losing server does not keep."""


class Harness:
    """The L1, and a batcher that posts to it."""

    def __init__(self) -> None:
        self.l1 = L1Backend(l1_genesis(START), 2)
        self.methods = EthApi(self.l1, "l1").methods()
        self._nonce = 0

    async def send(self, data: bytes, to: bytes = DA_CHALLENGE) -> Hash:
        gas = 60_000 + 60 * len(data)
        fees = Fees(2 * GWEI, 200 * GWEI)
        raw = dynamic_fee_transaction(BATCHER_KEY, L1_CHAIN_ID, self._nonce, to, 0, data, gas, fees)
        self._nonce += 1
        self.l1.send(raw)
        return keccak256(raw)

    def mine(self) -> L1Block:
        """Return the next block, as the l1 process hands it out."""
        self.l1.mine(self.l1.chain.head.header.timestamp + 2)
        number = self.l1.chain.head.number
        body = _answer(self.methods["eth_getBlockByNumber"](hex(number), True))
        result = run(VerifyBlock(number, body, False, (L1_FILTER,)))
        if isinstance(result, NeedsReceipts):
            receipts = _answer(self.methods["eth_getBlockReceipts"](hex(number)))
            result = run(VerifyReceipts(result.block, receipts, (L1_FILTER,)))
        assert isinstance(result, Verified), result
        return result.blocks[0]

    @asynccontextmanager
    async def running(self, app: web.Application, resolves: bool = True) -> AsyncIterator[AltDaBatcher]:
        """Provide a batcher between the L1 and a DA server."""
        async with listening(app, json_rpc_app(self.methods)) as (server, l1):
            client = JsonRpcClient(l1)
            batcher = AltDaBatcher(server, client, self.send, WINDOW, resolves)
            try:
                yield batcher
            finally:
                await batcher.close()
                await client.close()


def _answer(result: object) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": result})


@pytest.mark.parametrize("resolves", [True, False])
async def test_what_the_server_lost_is_challenged_and_resolved(resolves: bool) -> None:
    harness = Harness()
    async with harness.running(DaServer("losing").application(), resolves) as batcher:
        for data in DATA:
            item = await batcher.store(data)
            batcher.sent(item, await harness.send(item, INBOX))
        await batcher.step()
        assert len(batcher.posted) == 3, "none is on L1 yet"
        block = harness.mine()
        commitments = [b"\1" + keccak_commitment(data).encode() for data in DATA]
        assert [item.data for item in block.inbox] == commitments and block.challenges == ()
        await batcher.step()
        assert batcher.challenges == 1
        (result,) = harness.mine().challenges
        event = ChallengeEvent(keccak_commitment(LOST), block.header.number, ChallengeStatus.ACTIVE)
        assert (decode_event(result.log), result.resolve_data) == (event, None)
        await batcher.step()
        await batcher.step()
        resolved = [(decode_event(entry.log), entry.resolve_data) for entry in harness.mine().challenges]
        assert resolved == [(event._replace(status=ChallengeStatus.RESOLVED), LOST)] * resolves
        while harness.l1.chain.head.number <= block.header.number + WINDOW:
            assert [item.data for item in batcher.posted] == [LOST]
            harness.mine()
            await batcher.step()
        assert (batcher.posted, batcher.challenges) == ([], 1)


async def test_a_commitment_that_a_reorg_moves_is_challenged_where_it_is() -> None:
    harness = Harness()

    async def lose(request: web.Request) -> web.Response:
        return web.Response(status=404 if request.method == "GET" else 200)

    async with harness.running(app_for_every_path(lose)) as batcher:
        item = await batcher.store(DATA[0])
        batcher.sent(item, await harness.send(item, INBOX))
        first = harness.mine().header.number
        await batcher.step()
        harness.l1.reorg(1)  # the next block has the commitment now, and the challenge of the block before
        await batcher.step()
        assert (batcher.challenges, batcher.posted[0].included) == (2, first + 1)
        (result,) = harness.mine().challenges
        assert decode_event(result.log).block_number == first + 1
        await batcher.step()
        (result,) = harness.mine().challenges
        assert decode_event(result.log)[1:] == (first + 1, ChallengeStatus.RESOLVED)
        assert result.resolve_data == DATA[0]


async def test_a_server_that_refuses_an_input_is_an_error() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=507)

    async with Harness().running(app_for_every_path(refuse)) as batcher:
        with pytest.raises(EndpointError, match="HTTP status 507"):
            await batcher.store(DATA[0])
