"""Transfers and deposits on an embedded L1 and engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp.web import Application

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.deposits import DepositTransaction, deposit_from_log
from rollup_node.stages.protocol.types import Log
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.files import DEPOSITOR_KEY, PORTAL, RECEIVER_KEY, TRANSFER_KEY, l1_genesis
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.traffic import ROUNDS_PER_DEPOSIT, TRANSFERS_PER_ROUND, Traffic, deposit_call
from tests.support.servers.http_listener import json_rpc_app, listening

GENESIS_TIME = 1_700_000_000


def test_deposit_call_is_a_deposit_log() -> None:
    data = deposit_call(b"\x01" * 20, b"\x02" * 20, mint=3, value=4, gas=50_000, data=b"hello")
    log = Log(PORTAL, tuple(data[at : at + 32] for at in range(0, 128, 32)), data[128:], 0)
    deposit = deposit_from_log(log, bytes(32))
    assert isinstance(deposit, DepositTransaction)
    assert (deposit.sender, deposit.to, deposit.mint, deposit.value) == (b"\x01" * 20, b"\x02" * 20, 3, 4)
    assert (deposit.gas, deposit.data) == (50_000, b"hello")


@asynccontextmanager
async def traffic(errors: list[str], *apps: Application) -> AsyncIterator[Traffic]:
    """Yield the traffic on an L1 and an engine."""
    async with listening(*apps) as urls:
        clients = l1, l2 = JsonRpcClient(urls[0]), JsonRpcClient(urls[1])
        try:
            yield Traffic(l1, l2, errors.append)
        finally:
            for client in clients:
                await client.close()


async def test_rounds_of_transfers_and_deposits() -> None:
    l1, l2 = L1Backend(l1_genesis(GENESIS_TIME), 2), L1Backend(l1_genesis(GENESIS_TIME), 2)
    l2.chain_id = 901
    apps, errors = [json_rpc_app(EthApi(backend, "test").methods()) for backend in (l1, l2)], list[str]()
    async with traffic(errors, *apps) as rounds:
        for _ in range(ROUNDS_PER_DEPOSIT + 1):
            await rounds.send_round()
    assert errors == []
    assert (rounds.transfers, rounds.deposits) == (TRANSFERS_PER_ROUND * (ROUNDS_PER_DEPOSIT + 1), 2)
    deposits, transfers = (list(backend.pool.ready(0, lambda address: 0)) for backend in (l1, l2))
    assert {(sent.sender, sent.body.to) for sent in deposits} == {(DEPOSITOR_KEY.address, PORTAL)}
    assert {(sent.sender, sent.body.to) for sent in transfers} == {(TRANSFER_KEY.address, RECEIVER_KEY.address)}
    assert [sent.body.nonce for sent in transfers] == list(range(len(transfers)))
