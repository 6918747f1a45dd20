"""The l1 process with real messages, a compute worker and HTTP endpoints that misbehave in known ways."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.process import stage as l1
from rollup_node.stages.l1.process.stage import L1Stage
from rollup_node.stages.messages.base import EndpointCounts, Endpoints, Health
from rollup_node.stages.messages.l1 import (
    L1BlockResponse,
    L1BlocksRequest,
    L1BlockUnavailable,
    L1Heads,
    L1Proof,
    L1RefsRequest,
    L1RefsResponse,
)
from rollup_node.stages.protocol.types import L1Block
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.batcher.driver import Fees, dynamic_fee_transaction
from rollup_node.tools.devnet import files
from rollup_node.tools.devnet.fork_offsets import l1_fork_offsets
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.server import L1Methods
from rollup_node.tools.devnet.traffic import deposit_call
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.recorded.server import RecordedL1
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.processes.stage_runner import running_stage
from tests.support.servers.http_listener import Methods, json_rpc_app, listening
from tests.support.servers.web_socket_server import WebSocketServer, web_socket_url

FIRST, LAST = 6_582_895, 6_582_952


class L1Clients:
    """Derivation's and the engine's ends of the channels, and what has arrived there."""

    def __init__(self, buses: dict[str, Bus], meter: Meter | None = None) -> None:
        self._meter = meter or Meter("l1")
        self.blocks: dict[int, L1Block] = {}
        self.unavailable: list[L1BlockUnavailable] = []
        self.origins: list[L1BlockResponse | L1BlockUnavailable | L1RefsResponse] = []
        self.heads: L1Heads | None = None
        self.health: Health | None = None
        self.endpoints: tuple[EndpointCounts, ...] = ()
        self.proof: L1Proof | None = None
        self._blocks_client = buses["derivation"].connect("l1.blocks", self._on_response)
        self._origins_client = buses["engine"].connect("l1.origins", self.origins.append)
        buses["engine"].subscribe("status.l1", self._on_status)

    def _on_response(self, message: L1BlockResponse | L1BlockUnavailable) -> None:
        if isinstance(message, L1BlockResponse):
            self.blocks[message.block.header.number] = message.block
        else:
            self.unavailable.append(message)

    def _on_status(self, message: L1Heads | L1Proof | Endpoints | Health) -> None:
        if isinstance(message, L1Heads):
            self.heads = message
        elif isinstance(message, Health):
            self.health = message
        elif isinstance(message, L1Proof):
            self.proof = message
        elif isinstance(message, Endpoints):
            self.endpoints = message.endpoints

    def metric(self, line: str) -> float:
        """Return the value of a metric with its labels."""
        lines = self._meter.text().decode().splitlines()
        return next(float(item.split()[-1]) for item in lines if item.startswith(f"op_node_default_{line} "))

    @property
    def head(self) -> int | None:
        """The number of the published head."""
        return None if self.heads is None or self.heads.head is None else self.heads.head.number

    @property
    def problems(self) -> tuple[str, ...]:
        """The published problems."""
        return () if self.health is None else tuple(map(str, self.health.problems))

    def says(self, text: str) -> bool:
        """Whether a published problem has a text."""
        return any(text in problem for problem in self.problems)

    def request_origins(self, first: int, count: int) -> None:
        """The engine's request for blocks."""
        self._origins_client.send(L1BlocksRequest(first, count))

    def request_refs(self, last: int, count: int) -> None:
        """The engine's request for references."""
        self._origins_client.send(L1RefsRequest(last, count))

    async def until(self, condition: Callable[[], object], request: tuple[int, int] | None = None) -> None:
        """Wait for a condition, and repeats derivation's request for blocks meanwhile."""
        async with asyncio.timeout(50):
            requested_at = 0.0
            while not condition():
                if request is not None and time.monotonic() > requested_at + 0.3:
                    requested_at = time.monotonic()
                    self._blocks_client.send(L1BlocksRequest(*request))
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running_l1(
    l1_filter: L1Filter, servers: Sequence[Methods], url: str | None = None, **options: Any
) -> AsyncIterator[L1Clients]:
    """Yield the l1 process with these endpoints, or that of a WebSocket server; `options` of L1Config."""
    rollup = msgspec.structs.replace(
        PLAIN_ROLLUP,
        l1_chain_id=l1_filter.chain_id,
        batch_inbox=l1_filter.inbox,
        deposit_contract=l1_filter.deposit_contract,
        l1_system_config=l1_filter.system_config,
    )
    async with listening(*map(json_rpc_app, servers)) as urls:
        endpoints = tuple(f"{url}/?key=secret" for url in urls) if url is None else (web_socket_url(url),)
        values: dict[str, Any] = {"poll_interval": 0.05, "epoch_poll_interval": 0.1, "timeout": 2.0, **options}
        config = L1Config(endpoints, (rollup,), **values)
        meters: list[Meter] = []

        def build(bus: Bus, meter: Meter) -> L1Stage:
            meters.append(meter)
            return l1.build(config, bus, meter)

        async with running_stage("l1", build) as buses:
            yield L1Clients(buses, meters[0])


def recorded(recording: Recording, **overrides: Callable[..., Any]) -> Methods:
    """Return the methods of an endpoint with the recorded chain."""
    return {**RecordedL1(recording).methods(), **overrides}


async def test_all_recorded_blocks_arrive_verified(recording: Recording, l1_filter: L1Filter) -> None:
    """And each is asked for once, with the time-out of a node: what times out is asked for again."""
    asked = Counter[str]()

    def block_by_number(number: str, full: bool) -> dict[str, Any]:
        asked[number] += full
        return RecordedL1(recording).block_by_number(number, full)

    methods = recorded(recording, eth_getBlockByNumber=block_by_number)
    async with running_l1(l1_filter, [methods], timeout=10.0) as clients:
        await clients.until(lambda: len(clients.blocks) == 58, (FIRST, 58))
        assert sum(len(block.inbox) for block in clients.blocks.values()) == 6
        assert {n: len(block.deposits) for n, block in clients.blocks.items() if block.deposits} == {
            6_582_933: 1,
            6_582_952: 1,
        }
        assert all(block.header.hash == recording.block(n).hash for n, block in clients.blocks.items())
        await clients.until(lambda: clients.heads is not None and clients.heads.finalized is not None)
        assert clients.heads is not None and clients.heads.safe is not None
        assert (clients.head, clients.heads.safe.number) == (LAST, LAST - 16)
        assert clients.metric('refs_number{layer="l1",type="l1_head"}') == LAST
        assert clients.metric('refs_number{layer="l1",type="l1_safe"}') == LAST - 16
        assert clients.metric("l1_blocks_fetched_total") == 58
        await clients.until(lambda: clients.endpoints and clients.endpoints[0].requests >= 58)
        numbers = range(FIRST, LAST + 1)
        assert [asked[hex(number)] for number in numbers] == [1] * 58, "blocks with their transactions"
        assert clients.metric('l1_source_cache_add{evicted="false",type="blocks"}') == 58
        assert clients.metric('l1_source_cache_get{hit="false",type="blocks"}') <= 1
        await clients.until(lambda: L1BlockUnavailable(LAST + 1, LAST, None) in clients.unavailable, (LAST + 1, 1))
        assert clients.health == Health(())


def l1_across_amsterdam() -> L1Backend:
    """Return an L1 of six blocks, the last three of Amsterdam, each with a deposit.

    Its transfer is logged from then on."""
    backend = L1Backend(files.l1_genesis(1_700_000_000, l1_fork_offsets("gloas=8")), 2)
    data = deposit_call(files.DEPOSITOR_KEY.address, files.RECEIVER_KEY.address, mint=5, value=5, gas=100_000)
    for nonce in range(6):
        fees = Fees(1, 10**10, 1)
        backend.send(
            dynamic_fee_transaction(files.DEPOSITOR_KEY, files.L1_CHAIN_ID, nonce, files.PORTAL, 5, data, 200_000, fees)
        )
        backend.mine(backend.chain.head.header.timestamp + 2)
    return backend


@pytest.mark.parametrize("trusts", [False, True])
async def test_blocks_across_glamsterdam(trusts: bool) -> None:
    """[HSH5, LHD22] Their hashes are those of 23 fields, and the logs of transfers are none of ours."""
    backend = l1_across_amsterdam()
    methods = dict(L1Methods(backend).methods())
    served = methods["eth_getBlockByNumber"]
    damage: dict[str, Any] = {}

    def by_number(label: str, full: bool) -> Any:
        block = served(label, full)
        return {**block, **damage} if "slotNumber" in block else block

    methods["eth_getBlockByNumber"] = by_number
    portal = L1Filter(files.L1_CHAIN_ID, files.INBOX, files.PORTAL, files.SYSTEM_CONFIG)
    async with running_l1(portal, [methods], trust_rpc=trusts, verifier_confs=0) as clients:
        await clients.until(lambda: len(clients.blocks) == 6, (1, 6))
        for number, result in clients.blocks.items():
            block = backend.chain.at(number)
            assert block is not None and result.header.hash == block.hash
            assert (block.header.slot_number is None) == (number < 4)
            assert len(block.executed[0].result.logs) == (1 if number < 4 else 2)
            assert [log.address for log in result.deposits] == [files.PORTAL]
        damage["slotNumber"] = "0xffff"
        backend.mine(backend.chain.head.header.timestamp + 2)
        if trusts:
            await clients.until(lambda: 7 in clients.blocks, (7, 1))
        else:
            await clients.until(lambda: clients.says("block 7 claims hash 0x"), (7, 1))
            damage.clear()
            await clients.until(lambda: 7 in clients.blocks and clients.health == Health(()), (7, 1))


async def test_a_new_block_that_derivation_waits_for_takes_one_request(l1_filter: L1Filter) -> None:
    """[LHD25] The poll of the head brings it."""
    chain = FakeL1Chain(30, int(time.time()) - 1000)
    server = WebSocketServer(chain.methods(l1_filter.chain_id))
    options: dict[str, Any] = {"poll_interval": 3600.0, "epoch_poll_interval": 3600.0, "verifier_confs": 0}
    async with listening(server.app) as (url,), running_l1(l1_filter, [], url=url, **options) as clients:
        await clients.until(lambda: 29 in clients.blocks, (29, 1))
        await clients.until(lambda: L1BlockUnavailable(30, 29, None) in clients.unavailable, (30, 1))
        for number in (30, 31):
            chain.asked.clear()
            chain.extend(1)
            await server.notify()
            await clients.until(lambda number=number: number in clients.blocks, (number, 1))  # type: ignore[misc]
            assert chain.asked == [("latest", True)] and clients.blocks[number] == chain.block(number)


@pytest.mark.option("l1.rpckind")
@pytest.mark.fault("F4")
@pytest.mark.condition("C2")
@pytest.mark.parametrize("kind", ["basic", "debug_geth", "any", "alchemy"])
async def test_receipts_by_other_methods(kind: str, recording: Recording, l1_filter: L1Filter) -> None:
    """[OPT71, OPT72, OPT73]"""
    served = recorded(recording)

    def raw(block_hash: str) -> Any:
        block = recording.block_by_hash(bytes.fromhex(block_hash[2:]))
        return ["0x" + receipt.hex() for receipt in block.receipts or ()]

    def wrapped(parameter: dict[str, str]) -> Any:
        return {"receipts": served["eth_getBlockReceipts"](parameter["blockHash"])}

    single = {item["transactionHash"]: item for item in recording.block(6_582_933).receipts_json()}

    def unsupported(*_: Any) -> Any:
        raise JsonRpcError(-32601, "the method does not exist/is not available")

    overrides: dict[str, Methods] = {
        "basic": {"eth_getBlockReceipts": unsupported, "eth_getTransactionReceipt": lambda key: single[key]},
        "debug_geth": {"debug_getRawReceipts": raw},
        "any": {"debug_getRawReceipts": unsupported},
        "alchemy": {"alchemy_getTransactionReceipts": wrapped},
    }
    async with running_l1(l1_filter, [{**served, **overrides[kind]}], rpc_kind=kind, window=1) as clients:
        await clients.until(lambda: len(clients.blocks) == 1, (6_582_933, 1))
        assert [log.index for log in clients.blocks[6_582_933].deposits] == [90]


@pytest.mark.fault("F1", "F2")
@pytest.mark.condition("C2")
async def test_late_receipts_and_those_of_another_block_are_fetched_again(
    recording: Recording, l1_filter: L1Filter
) -> None:
    served = recorded(recording)
    results: list[Any] = [None, served["eth_getBlockReceipts"]("0x" + recording.block(6_582_934).hash.hex())]

    def receipts(block_hash: str) -> Any:
        return results.pop(0) if results else served["eth_getBlockReceipts"](block_hash)

    async with running_l1(l1_filter, [{**served, "eth_getBlockReceipts": receipts}], window=1) as clients:
        await clients.until(lambda: 6_582_933 in clients.blocks, (6_582_933, 1))
        assert not results


@pytest.mark.condition("C2")
async def test_wrong_data_and_wrong_chains_lead_to_the_next_endpoint(recording: Recording, l1_filter: L1Filter) -> None:
    served = recorded(recording)

    def without_a_transaction(number: str, full: bool) -> Any:
        block = dict(served["eth_getBlockByNumber"](number, full))
        if full:
            block["transactions"] = block["transactions"][:-1]
        return block

    def never_called(number: str, full: bool) -> Any:
        raise AssertionError("blocks were requested from an endpoint of another chain")

    wrong_data: Methods = {**served, "eth_getBlockByNumber": without_a_transaction}
    wrong_chain: Methods = {**served, "eth_chainId": lambda: "0x1", "eth_getBlockByNumber": never_called}
    async with running_l1(l1_filter, [wrong_data, wrong_chain, served], window=2) as clients:
        await clients.until(lambda: len(clients.blocks) == 2, (FIRST, 2))


async def test_without_a_working_endpoint_the_error_is_published(recording: Recording, l1_filter: L1Filter) -> None:
    async with running_l1(l1_filter, [recorded(recording, eth_chainId=lambda: "0x5")]) as clients:
        text = "is on L1 chain 5, but the rollup is on 11155111"
        await clients.until(lambda: clients.says(text))
        await clients.until(lambda: clients.unavailable, (FIRST, 1))
        await clients.until(lambda: "is on L1 chain 5" in str(clients.unavailable[-1].error), (FIRST, 1))
        await clients.until(lambda: clients.endpoints and text in clients.endpoints[0].error)
        assert clients.endpoints[0].failing and "secret" not in clients.endpoints[0].name


@pytest.mark.option("verifier.l1-confs")
async def test_confirmations_hide_blocks_from_derivation_and_not_from_the_sequencer(
    recording: Recording, l1_filter: L1Filter
) -> None:
    """[LHD9]"""
    async with running_l1(l1_filter, [recorded(recording)], verifier_confs=4) as clients:
        await clients.until(lambda: clients.head is not None)
        await clients.until(lambda: L1BlockUnavailable(LAST - 3, LAST - 4, None) in clients.unavailable, (LAST - 3, 4))
        clients.request_origins(LAST - 1, 3)
        await clients.until(lambda: sum(isinstance(origin, L1BlockResponse) for origin in clients.origins) == 2)
        assert clients.blocks == {}
        clients.request_origins(LAST + 1, 1)
        await clients.until(lambda: L1BlockUnavailable(LAST + 1, LAST, None) in clients.origins)


@pytest.mark.option("l1.epoch-poll-interval", "l1.http-poll-interval")
async def test_blocks_are_fetched_with_polling_off(recording: Recording, l1_filter: L1Filter) -> None:
    options: dict[str, Any] = {"poll_interval": 0.0, "epoch_poll_interval": 0.0, "window": 0}
    async with running_l1(l1_filter, [recorded(recording)], **options) as clients:
        await clients.until(lambda: len(clients.blocks) == 3, (FIRST, 3))
        assert clients.heads is None


@pytest.mark.fault("F9")
@pytest.mark.parametrize("depth", [1, 3])
async def test_after_a_reorg_the_new_blocks_are_sent(depth: int, l1_filter: L1Filter) -> None:
    chain = FakeL1Chain(30)

    def are_canonical(blocks: dict[int, L1Block], first: int) -> bool:
        return all(n in blocks and blocks[n].header.hash == chain.hash(n) for n in range(first, chain.head + 1))

    async with running_l1(l1_filter, [chain.methods(l1_filter.chain_id)]) as clients:
        await clients.until(lambda: are_canonical(clients.blocks, 10), (10, 64))
        chain.reorg(depth, depth + 1)
        await clients.until(lambda: clients.head == 30)
        await clients.until(lambda: 30 in clients.blocks, (30, 64))
        assert clients.blocks[30].header.parent_hash == chain.hash(29) != clients.blocks[29].header.hash
        await clients.until(lambda: are_canonical(clients.blocks, 20), (20, 64))
        chain.extend(3)
        await clients.until(lambda: are_canonical(clients.blocks, 20), (31, 64))


async def test_a_block_that_a_reorg_takes_away_is_no_fault_of_its_endpoint(l1_filter: L1Filter) -> None:
    """[LHD26] It is asked for while it is the head; the new branch is shorter when the answer comes."""
    chain, reorged = FakeL1Chain(30), asyncio.Event()
    methods = chain.methods(l1_filter.chain_id)

    async def block_by_number(number: str, full: bool) -> Any:
        if full and number == hex(29) and not reorged.is_set():
            chain.reorg(2, 1)
            await reorged.wait()
        return methods["eth_getBlockByNumber"](number, full)

    servers = [{**methods, "eth_getBlockByNumber": block_by_number}]
    # The finalized block is lower then, which is another matter.
    async with running_l1(l1_filter, servers, epoch_poll_interval=3600.0) as clients:
        await clients.until(lambda: clients.head == 28, (29, 1))
        reorged.set()
        chain.asked.clear()
        await clients.until(lambda: (hex(29), True) in chain.asked and clients.endpoints)
        chain.extend(1)
        await clients.until(lambda: 29 in clients.blocks, (29, 1))
        name = clients.endpoints[0].name
        assert clients.metric(f'endpoint_failures_total{{endpoint="{name}",fault="behind",rpc="l1"}}') == 0
