"""The checks that only `rollup-node check` makes, on the embedded engine and on answers of any kind."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from rollup_node.node.checks.finding import Finding, FindingLevel
from rollup_node.stages.blobs.beacon_api import RETENTION_SECONDS
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process.client import BeaconEndpoints
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import HexError
from rollup_node.stages.protocol.types import BlobRef
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.preflight.chain_checks import (
    SEARCHED,
    BlobBlock,
    Block,
    check_block_time,
    check_capabilities,
    check_finality,
    check_forks,
    check_inbox,
    check_system_config,
    find_blob_block,
    probe_blobs,
    read_block,
)
from tests.node.checks.test_execution import ask
from tests.support.servers.checked_endpoints import GENESIS, METHODS, SAFE, CheckedEndpoints
from tests.support.servers.checked_endpoints import ROLLUP as ZORA
from tests.support.servers.fake_beacon import GENESIS as GENESIS_TIME
from tests.support.servers.fake_beacon import SLOT, FakeBeacon, KnownBlob
from tests.support.servers.http_listener import Methods, json_rpc_app, listening

TIME = GENESIS_TIME + SLOT * 12
BLOB = KnownBlob(b"\x01" + bytes(31), bytes(131072), bytes(48))
BLOB_BLOCK = BlobBlock(9, TIME, BlobRef(0, BLOB.hash))


async def probe(
    beacon: FakeBeacon, block: BlobBlock | None = BLOB_BLOCK, is_needed: bool = True, now: float = TIME + 60.0
) -> Finding:
    async with listening(beacon.app()) as (url,):
        config = BlobsConfig(url, timeout=20.0)
        sources = BeaconEndpoints(config, Meter("test"))
        try:
            return await probe_blobs(sources, "blobs", block, is_needed, now)
        finally:
            await sources.close()


async def test_blobs_that_are_gone() -> None:
    now = TIME + RETENTION_SECONDS + 1.0
    result = await probe(FakeBeacon([]), now=now)
    assert (result.level, result.code) == (FindingLevel.ERROR, Code.BLOB_EXPIRED) and "18d4h old" in result.text
    assert (await probe(FakeBeacon([]), is_needed=False, now=now)).level is FindingLevel.WARNING


async def test_what_cannot_be_probed() -> None:
    beacon = FakeBeacon([BLOB])
    assert (await probe(beacon, None)).level is FindingLevel.NOT_CHECKED
    assert (await probe(beacon, BLOB_BLOCK._replace(time=GENESIS_TIME - 1))).code is Code.BEACON_CHAIN
    beacon.status["genesis"] = 500
    assert (await probe(beacon)).level is FindingLevel.NOT_CHECKED


async def test_a_block_with_blobs_is_looked_for() -> None:
    asked: list[int] = []

    def block(name: str, full: bool) -> Any:
        number = int(name, 16)
        asked.append(number)
        if number > 100:
            return None
        hashes = ["0x01" + "00" * 31] if number == 95 else []
        transactions: list[Any] = [{}, {"blobVersionedHashes": hashes}] if full else []
        values = {"timestamp": hex(number * 12), "blobGasUsed": hex(131072 if hashes else 0)}
        return {"number": name, "hash": "0x" + "11" * 32, "transactions": transactions, **values}

    async with listening(json_rpc_app({"eth_getBlockByNumber": block})) as (url,):
        client = JsonRpcClient(url, timeout=20.0)
        expected = BlobBlock(95, 95 * 12, BLOB_BLOCK.blob)
        assert await find_blob_block(client, 100, -1) == await find_blob_block(client, 90, 1) == expected
        asked.clear()
        assert await find_blob_block(client, 50, -1) is None and len(asked) == SEARCHED
        assert await find_blob_block(client, 5, -1) is None
        assert await find_blob_block(client, 99, 1) is None
        await client.close()


HASH = "0x" + "11" * 32
BLOCK = {"number": "0x10", "hash": HASH, "timestamp": "0x20"}


def failing(message: str) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise JsonRpcError(SERVER_ERROR, message)

    return fail


@pytest.mark.condition("C13")
def test_methods_of_a_fork_to_come_are_a_warning() -> None:
    at = ZORA.fork_times["isthmus"]
    offered = frozenset(method for method in METHODS if not method.endswith(("V4", "V5")))
    (result,) = check_capabilities("engine", offered, ZORA, at - 86400)
    assert result.level is FindingLevel.WARNING and "needed by a fork in 1d0h" in result.text


@pytest.mark.sign("FORK-MISMATCH", check=True)
async def test_fields_of_another_fork_are_an_error() -> None:
    endpoints = CheckedEndpoints()
    methods = {"eth_getBlockByNumber": endpoints.engine["eth_getBlockByNumber"]}
    assert (await ask(methods, lambda client: check_forks(client, "engine", ZORA))).level is FindingLevel.OK
    times = {name: at for name, at in ZORA.fork_times.items() if at < ZORA.fork_times["jovian"]}
    late = msgspec.structs.replace(ZORA, fork_times=times)
    result = await ask(methods, lambda client: check_forks(client, "engine", late))
    assert result.code is Code.ENGINE_FORKS and "is not of isthmus" in result.text
    assert "its extraData has 17 bytes, not 9" in result.text
    genesis = {"number": hex(ZORA.genesis.l2.number), "timestamp": "0x1"}
    methods = {"eth_getBlockByNumber": lambda *_: genesis}
    assert (await ask(methods, lambda client: check_forks(client, "engine", ZORA))).level is FindingLevel.OK


@pytest.mark.parametrize(
    ("seconds", "late", "level", "text"),
    [
        (2, 6, FindingLevel.ERROR, "block {next} has time "),
        (0, 0, FindingLevel.NOT_CHECKED, "it does not have block {safe}"),
    ],
)
async def test_times_that_block_time_does_not_give_are_an_error(
    seconds: int, late: int, level: FindingLevel, text: str
) -> None:
    time = GENESIS.l2_time + 2 * (SAFE + 1 - GENESIS.l2.number) + late
    parent = {"number": hex(SAFE), "hash": HASH, "timestamp": hex(time - seconds)} if seconds else None
    head = Block(hex(SAFE + 1), HASH, hex(time))
    methods: Methods = {"eth_getBlockByNumber": lambda *_: parent}
    result = await ask(methods, lambda client: check_block_time(client, "engine", ZORA, head))
    assert result.level is level and text.format(safe=SAFE, next=SAFE + 1) in result.text


async def test_blocks_whose_time_says_nothing() -> None:
    foreign = msgspec.structs.replace(ZORA, foreign_fork=ForeignFork("Somefork", GENESIS.l2_time))
    genesis, later = (Block(hex(GENESIS.l2.number + offset), HASH, hex(GENESIS.l2_time + 1)) for offset in (0, 1))
    for rollup, head in ((ZORA, None), (ZORA, genesis), (foreign, later)):
        result = await ask({}, partial(check_block_time, check="engine", rollup=rollup, head=head))
        assert result.level is FindingLevel.NOT_CHECKED


async def test_a_contract_that_does_not_say_and_an_inbox_without_data() -> None:
    head = Block("0x2", HASH, "0x20")
    methods: Methods = {"eth_call": lambda *_: "0x", "eth_getBlockByNumber": lambda *_: {"transactions": []}}
    (system,) = await ask(methods, lambda client: check_system_config(client, ZORA, head, None))
    inbox = await ask(methods, lambda client: check_inbox(client, ZORA, head, bytes(20)))
    assert system.level is inbox.level is FindingLevel.NOT_CHECKED
    assert inbox.text.startswith("L1 blocks 0 to 2 have no transaction to 0x")


@pytest.mark.parametrize("change", [{"number": "ten"}, {"hash": "0x"}, {"timestamp": "soon"}])
async def test_what_is_no_block(change: dict[str, str]) -> None:
    answer = {"eth_getBlockByNumber": lambda *_: BLOCK | change}
    with pytest.raises(HexError):
        await ask(answer, lambda client: read_block(client, "latest"))


@pytest.mark.sign("FINALITY-STALE", check=True)
@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        (lambda *_: BLOCK | {"timestamp": hex(9_100)}, FindingLevel.OK, "finalized block 16, 15m0s older"),
        (lambda *_: BLOCK | {"timestamp": hex(2_800)}, FindingLevel.WARNING, "16, is 2h0m older than the latest, 1"),
        (lambda *_: None, FindingLevel.NOT_CHECKED, "it has none"),
        (failing("unknown label"), FindingLevel.NOT_CHECKED, "unknown label"),
    ],
)
async def test_finality_that_stands_still_is_a_warning(answer: Any, level: FindingLevel, text: str) -> None:
    head = Block("0x1", HASH, hex(10_000))
    result = await ask({"eth_getBlockByNumber": answer}, lambda client: check_finality(client, "L1", head))
    assert result.level is level and text.format(safe=SAFE, next=SAFE + 1) in result.text
    assert result.code is (Code.FINALITY_STALE if level is FindingLevel.WARNING else None)
