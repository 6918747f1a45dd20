"""Transfers and deposits on an embedded L1 and engine."""

import asyncio

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.deposits import DepositTransaction, deposit_from_log
from rollup_node.stages.protocol.types import Log
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.files import (
    DEPOSITOR_KEY,
    PORTAL,
    RECEIVER_KEY,
    TRANSFER_KEY,
    l1_genesis,
)
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


def test_rounds_of_transfers_and_deposits() -> None:
    l1, l2 = L1Backend(l1_genesis(GENESIS_TIME), 2), L1Backend(l1_genesis(GENESIS_TIME), 2)
    l2.chain_id = 901
    errors: list[str] = []

    async def run() -> Traffic:
        apps = json_rpc_app(EthApi(l1, "l1").methods()), json_rpc_app(EthApi(l2, "l2").methods())
        async with listening(*apps) as (l1_url, l2_url):
            clients = JsonRpcClient(l1_url), JsonRpcClient(l2_url)
            traffic = Traffic(*clients, errors.append)
            try:
                for _ in range(ROUNDS_PER_DEPOSIT + 1):
                    await traffic.send_round()
            finally:
                for client in clients:
                    await client.close()
            return traffic

    traffic = asyncio.run(run())
    assert errors == []
    assert (traffic.transfers, traffic.deposits) == (TRANSFERS_PER_ROUND * (ROUNDS_PER_DEPOSIT + 1), 2)
    deposits = list(l1.pool.ready(0, lambda address: 0))
    assert {(deposit.sender, deposit.body.to) for deposit in deposits} == {(DEPOSITOR_KEY.address, PORTAL)}
    transfers = list(l2.pool.ready(0, lambda address: 0))
    assert {(transfer.sender, transfer.body.to) for transfer in transfers} == {
        (TRANSFER_KEY.address, RECEIVER_KEY.address)
    }
    assert [transfer.body.nonce for transfer in transfers] == list(range(len(transfers)))


async def test_a_refused_round_is_reported() -> None:
    errors: list[str] = []
    async with listening(json_rpc_app({})) as (url,):
        clients = JsonRpcClient(url), JsonRpcClient(url)
        try:
            await Traffic(*clients, errors.append).send_round()
        finally:
            for client in clients:
                await client.close()
    assert len(errors) == 1 and errors[0].startswith("traffic: ")
