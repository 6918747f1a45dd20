"""The l1 process with real messages, a compute worker and endpoints over HTTP that misbehave in known ways."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.node.runtime.task_runner import Problems, TaskRunner
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.compute.process import stage as compute
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.filter import Filter
from rollup_node.stages.l1.process import stage as l1
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.l1 import (
    L1BlockResponse,
    L1BlocksRequest,
    L1BlockUnavailable,
    L1Heads,
    L1RefsRequest,
    L1RefsResponse,
)
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.headers import EMPTY_UNCLES_HASH, Header, header_hash
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import BlockId, L1Block
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc, Listener, RpcError, application
from rollup_node.tools.recorded.chain import Recording
from rollup_node.tools.recorded.server import RecordedL1

FIRST, LAST = 6_582_895, 6_582_952
Methods = dict[str, Callable[..., Any]]


def config(endpoints: tuple[str, ...], rules: Filter, **options: Any) -> L1Config:
    nowhere = BlockId(0, bytes(32))
    rollup = RollupConfig(
        genesis=Genesis(nowhere, nowhere, 0, SystemConfig(bytes(20), bytes(32), bytes(32), 1)),
        block_time=2,
        max_sequencer_drift=600,
        seq_window_size=3600,
        channel_timeout=300,
        l1_chain_id=rules.chain_id,
        l2_chain_id=10,
        fork_times={},
        batch_inbox=rules.inbox,
        deposit_contract=rules.deposit_contract,
        l1_system_config=rules.system_config,
    )
    defaults: dict[str, Any] = {"poll_interval": 0.05, "epoch_poll_interval": 0.1, "timeout": 2.0}
    return L1Config(endpoints, rollup, **(defaults | options))


class World:
    """The process under test, and its clients' ends of the channels."""

    def __init__(self, buses: dict[str, Bus]) -> None:
        self.blocks: dict[int, L1Block] = {}
        self.received: list[int] = []
        self.missing: list[L1BlockUnavailable] = []
        self.origins: list[Any] = []
        self.heads: L1Heads | None = None
        self.health: Health | None = None
        self._asking = buses["derivation"].connect("l1.blocks", self._take)
        self._origins = buses["engine"].connect("l1.origins", self.origins.append)
        buses["engine"].subscribe("status.l1", self._status)

    def _take(self, message: L1BlockResponse | L1BlockUnavailable) -> None:
        if isinstance(message, L1BlockResponse):
            self.received.append(message.block.header.number)
            self.blocks[message.block.header.number] = message.block
        else:
            self.missing.append(message)

    def _status(self, message: L1Heads | Health) -> None:
        if isinstance(message, L1Heads):
            self.heads = message
        else:
            self.health = message

    def ask_origin(self, first: int, count: int) -> None:
        self._origins.send(L1BlocksRequest(first, count))

    def ask_refs(self, last: int, count: int) -> None:
        self._origins.send(L1RefsRequest(last, count))

    async def until(
        self, condition: Callable[[], Any], ask: tuple[int, int] | None = None, seconds: float = 10.0
    ) -> None:
        """Asks again and again, as derivation does, until the condition holds."""
        deadline, asked = time.monotonic() + seconds, 0.0
        while not condition():
            assert time.monotonic() < deadline, f"{self.received} {self.missing[-1:]} {self.heads} {self.health}"
            if ask is not None and time.monotonic() > asked + 0.3:
                asked = time.monotonic()
                self._asking.send(L1BlocksRequest(*ask))
            await asyncio.sleep(0.01)


@asynccontextmanager
async def world(rules: Filter, servers: list[Methods], **options: Any) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rn-")))
        urls = []
        for methods in servers:
            listener = Listener(application(JsonRpc(methods)), 0)
            await listener.start()
            stack.push_async_callback(listener.stop)
            urls.append(f"{listener.url}/?key=secret")
        buses = in_process_buses(CHANNELS, folder, {"l1": 1, "blobs": 1, "derivation": 1, "engine": 1, "compute": 1})
        meter = Meter("l1")
        compute.build(ComputeConfig(kzg=False), buses["compute"], meter)
        stage = l1.build(config(tuple(urls), rules, **options), buses["l1"], meter)
        end = World(buses)
        await stack.enter_async_context(running_buses(buses))
        await stage.start()
        problems = Problems(stage, meter)
        driver = TaskRunner(stage, meter, problems, "l1")
        running = [asyncio.create_task(driver.run(activity)) for activity in driver.periodic_tasks]
        try:
            yield end
        finally:
            driver.stop()
            await asyncio.wait(running, timeout=1.0)
            for task in running:
                task.cancel()
            results = await asyncio.gather(*running, return_exceptions=True)
            await stage.close()
        for result in results:
            if isinstance(result, Exception):
                raise result


def recorded(recording: Recording, **overrides: Callable[..., Any]) -> Methods:
    return {**RecordedL1(recording).methods(), **overrides}


def run(use: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await use()

    asyncio.run(bounded())


def test_all_recorded_blocks_arrive_verified(recording: Recording, rules: Filter) -> None:
    async def use() -> None:
        async with world(rules, [recorded(recording)]) as w:
            await w.until(lambda: len(w.blocks) == 58, (FIRST, 58))
            assert sum(len(block.inbox) for block in w.blocks.values()) == 6
            assert {n: len(block.deposits) for n, block in w.blocks.items() if block.deposits} == {
                6_582_933: 1,
                6_582_952: 1,
            }
            assert all(block.header.hash == recording.block(n).hash for n, block in w.blocks.items())
            await w.until(lambda: w.heads is not None and w.heads.finalized is not None)
            assert w.heads is not None and w.heads.head is not None and w.heads.safe is not None
            assert (w.heads.head.number, w.heads.safe.number) == (LAST, LAST - 16)
            await w.until(lambda: L1BlockUnavailable(LAST + 1, LAST, None) in w.missing, (LAST + 1, 1))
            assert w.health == Health(())

    run(use)


@pytest.mark.parametrize("kind", ["basic", "debug_geth", "any", "alchemy"])
def test_receipts_by_other_methods(kind: str, recording: Recording, rules: Filter) -> None:
    served = recorded(recording)

    def raw(block_hash: str) -> Any:
        block = recording.block_by_hash(bytes.fromhex(block_hash[2:]))
        return ["0x" + each.hex() for each in block.receipts or ()]

    def wrapped(parameter: dict[str, str]) -> Any:
        return {"receipts": served["eth_getBlockReceipts"](parameter["blockHash"])}

    single = {each["transactionHash"]: each for each in recording.block(6_582_933).receipts_json()}

    def unknown(*_: Any) -> Any:
        raise RpcError(-32601, "the method does not exist/is not available")

    overrides: Methods = {
        "basic": {"eth_getBlockReceipts": unknown, "eth_getTransactionReceipt": lambda key: single[key]},
        "debug_geth": {"debug_getRawReceipts": raw},
        "any": {"debug_getRawReceipts": unknown},
        "alchemy": {"alchemy_getTransactionReceipts": wrapped},
    }[kind]  # type: ignore[assignment]

    async def use() -> None:
        async with world(rules, [{**served, **overrides}], rpc_kind=kind) as w:
            await w.until(lambda: len(w.blocks) == 1, (6_582_933, 1))
            assert [log.index for log in w.blocks[6_582_933].deposits] == [90]

    run(use)


def test_receipts_that_come_late_or_from_another_block_are_asked_for_again(recording: Recording, rules: Filter) -> None:
    served = recorded(recording)
    answers: list[Any] = [None, served["eth_getBlockReceipts"]("0x" + recording.block(6_582_934).hash.hex())]

    def receipts(block_hash: str) -> Any:
        return answers.pop(0) if answers else served["eth_getBlockReceipts"](block_hash)

    async def use() -> None:
        async with world(rules, [{**served, "eth_getBlockReceipts": receipts}]) as w:
            await w.until(lambda: 6_582_933 in w.blocks, (6_582_933, 1))
            assert not answers

    run(use)


def test_a_block_that_fails_delays_no_other(recording: Recording, rules: Filter) -> None:
    served = recorded(recording)

    def by_number(number: str, full: bool) -> Any:
        if number == hex(FIRST + 3):
            raise RpcError(-32000, "database is down")
        return served["eth_getBlockByNumber"](number, full)

    async def use() -> None:
        async with world(rules, [{**served, "eth_getBlockByNumber": by_number}]) as w:
            await w.until(lambda: len(w.blocks) == 9, (FIRST, 10))
            assert FIRST + 3 not in w.blocks
            await w.until(lambda: w.missing and w.missing[-1].number == FIRST + 3, (FIRST + 3, 7))
            assert "database is down" in str(w.missing[-1].error)
            assert "secret" not in str(w.missing[-1].error)
            await w.until(lambda: w.health is not None and w.health.problems)
            assert w.health is not None and "database is down" in w.health.problems[0]

    run(use)


def test_wrong_data_and_wrong_chains_lead_to_the_next_endpoint(recording: Recording, rules: Filter) -> None:
    served = recorded(recording)

    def spoiled(number: str, full: bool) -> Any:
        block = dict(served["eth_getBlockByNumber"](number, full))
        if full:
            block["transactions"] = block["transactions"][:-1]
        return block

    def broken(number: str, full: bool) -> Any:
        raise AssertionError("an endpoint of another chain was asked for blocks")

    wrong_chain = {**served, "eth_chainId": lambda: "0x1", "eth_getBlockByNumber": broken}

    async def use() -> None:
        servers = [{**served, "eth_getBlockByNumber": spoiled}, wrong_chain, served]
        async with world(rules, servers) as w:
            await w.until(lambda: len(w.blocks) == 5, (FIRST, 5), seconds=15)

    run(use)


def test_without_any_endpoint_that_works_the_reason_is_told(recording: Recording, rules: Filter) -> None:
    async def use() -> None:
        async with world(rules, [recorded(recording, eth_chainId=lambda: "0x5")]) as w:
            await w.until(lambda: w.health is not None and w.health.problems)
            assert w.health is not None
            assert any("is on L1 chain 5, but the rollup is on 11155111" in line for line in w.health.problems)
            await w.until(lambda: w.missing, (FIRST, 1))
            await w.until(lambda: "is on L1 chain 5" in str(w.missing[-1].error), (FIRST, 1))

    run(use)


def test_confirmations_hide_blocks_from_derivation_and_not_from_the_sequencer(
    recording: Recording, rules: Filter
) -> None:
    async def use() -> None:
        async with world(rules, [recorded(recording)], verifier_confs=4) as w:
            await w.until(lambda: w.heads is not None and w.heads.head is not None)
            await w.until(lambda: L1BlockUnavailable(LAST - 3, LAST - 4, None) in w.missing, (LAST - 3, 4))
            w.ask_origin(LAST - 1, 3)
            await w.until(lambda: len([m for m in w.origins if isinstance(m, L1BlockResponse)]) == 2)
            assert w.blocks == {}
            w.ask_origin(LAST + 1, 1)
            await w.until(lambda: L1BlockUnavailable(LAST + 1, LAST, None) in w.origins)

    run(use)


def test_references_are_read_anew_by_their_headers(recording: Recording, rules: Filter) -> None:
    async def use() -> None:
        async with world(rules, [recorded(recording)], poll_interval=0.0, max_batch=3, trust_rpc=False) as w:
            w.ask_refs(LAST, 8)
            await w.until(lambda: bool(w.origins))
            (found,) = w.origins
            assert isinstance(found, L1RefsResponse) and found.error is None
            assert [ref.number for ref in found.refs] == list(range(LAST - 7, LAST + 1))
            await w.until(lambda: len(w.blocks) == 1, (LAST, 1))
            assert found.refs[-1] == w.blocks[LAST].ref

    run(use)


def test_with_polling_off_blocks_are_had_all_the_same(recording: Recording, rules: Filter) -> None:
    async def use() -> None:
        async with world(rules, [recorded(recording)], poll_interval=0.0, epoch_poll_interval=0.0, window=0) as w:
            await w.until(lambda: len(w.blocks) == 3, (FIRST, 3))
            assert w.heads is None

    run(use)


class MadeChain:
    """A chain of empty blocks with right hashes that can be reorganised, as an endpoint."""

    def __init__(self, length: int) -> None:
        self._branch = 0
        self.headers: list[Header] = []
        self.extend(length)

    def extend(self, count: int) -> None:
        for _ in range(count):
            number = len(self.headers)
            parent = header_hash(self.headers[-1]) if self.headers else bytes(32)
            self.headers.append(
                Header(
                    parent_hash=parent,
                    uncles_hash=EMPTY_UNCLES_HASH,
                    miner=self._branch.to_bytes(20, "big"),
                    state_root=bytes(32),
                    transactions_root=EMPTY_ROOT,
                    receipts_root=EMPTY_ROOT,
                    logs_bloom=bytes(256),
                    difficulty=0,
                    number=number,
                    gas_limit=30_000_000,
                    gas_used=0,
                    timestamp=12 * number,
                    extra_data=b"",
                    mix_hash=bytes(32),
                    nonce=bytes(8),
                    base_fee=7,
                )
            )

    def reorg(self, depth: int, length: int) -> None:
        self._branch += 1
        del self.headers[len(self.headers) - depth :]
        self.extend(length)

    def hash(self, number: int) -> bytes:
        return header_hash(self.headers[number])

    def methods(self, chain_id: int) -> Methods:
        labels = {"latest": 0, "safe": 3, "finalized": 6}

        def by_number(number: str, full: bool) -> Any:
            place = len(self.headers) - 1 - labels[number] if number in labels else int(number, 16)
            if not 0 <= place < len(self.headers):
                return None
            values = msgspec.structs.asdict(self.headers[place])
            names = {"uncles_hash": "sha3Uncles", "base_fee": "baseFeePerGas"}
            block: dict[str, Any] = {"hash": "0x" + self.hash(place).hex(), "transactions": []}
            for name, value in values.items():
                head, *rest = name.split("_")
                if value is not None:
                    text = hex(value) if isinstance(value, int) else "0x" + value.hex()
                    block[names.get(name, head + "".join(part.title() for part in rest))] = text
            return block

        return {"eth_chainId": lambda: hex(chain_id), "eth_getBlockByNumber": by_number}


@pytest.mark.parametrize("depth", [1, 3])
def test_after_a_reorg_the_new_blocks_are_handed_out(depth: int, rules: Filter) -> None:
    chain = MadeChain(30)

    def is_followed(w: World, first: int) -> bool:
        last = len(chain.headers) - 1
        return all(n in w.blocks and w.blocks[n].header.hash == chain.hash(n) for n in range(first, last + 1))

    async def use() -> None:
        async with world(rules, [chain.methods(rules.chain_id)]) as w:
            await w.until(lambda: is_followed(w, 10), (10, 64))
            chain.reorg(depth, depth + 1)
            await w.until(lambda: w.heads is not None and w.heads.head is not None and w.heads.head.number == 30)
            await w.until(lambda: 30 in w.blocks, (30, 64))
            assert w.blocks[30].header.parent_hash == chain.hash(29) != w.blocks[29].header.hash
            await w.until(lambda: is_followed(w, 20), (20, 64))
            chain.extend(3)
            await w.until(lambda: is_followed(w, 20), (31, 64))

    run(use)


def test_an_endpoint_far_behind_is_not_followed(rules: Filter) -> None:
    chain, old = MadeChain(40), MadeChain(10)
    good, bad = chain.methods(rules.chain_id), old.methods(rules.chain_id)
    served = dict(good)

    async def use() -> None:
        async with world(rules, [{name: (lambda *p, name=name: served[name](*p)) for name in served}]) as w:  # type: ignore[misc]
            await w.until(lambda: w.heads is not None and w.heads.finalized is not None)
            served.update(bad)
            await w.until(lambda: w.health is not None and w.health.problems)
            assert w.health is not None and w.heads is not None and w.heads.head is not None
            assert "below the finalized block" in w.health.problems[0]
            assert w.heads.head.number == 39
            served.update(good)
            await w.until(lambda: w.health == Health(()))

    run(use)
