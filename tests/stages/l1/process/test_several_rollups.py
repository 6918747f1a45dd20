"""An l1 process for several rollups: each L1 block is fetched and verified once, each chain gets its own [LHD32]."""

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
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable, L1Heads
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import L1Block
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.recorded.server import RecordedL1
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.processes.stage_runner import running_stage
from tests.support.servers.http_listener import Methods, json_rpc_app, listening
from tests.support.servers.web_socket_server import WebSocketServer, web_socket_url

CHAINS = (10, 130, 8453)
FIRST, LAST = 6_582_930, 6_582_952
REPEAT_SECONDS = 0.3


class Chain:
    """The derivation of one chain: it requests `count` blocks from `first` on, and goes on as they arrive."""

    def __init__(self, buses: dict[str, Bus], chain: int) -> None:
        self.blocks: dict[int, L1Block] = {}
        self.next = self.count = 0
        self._client = buses[f"derivation.{chain}"].connect("l1.blocks", self._on_response)

    def _on_response(self, message: L1BlockResponse | L1BlockUnavailable) -> None:
        if isinstance(message, L1BlockResponse):
            self.blocks[message.block.header.number] = message.block
            while self.next in self.blocks:
                self.next += 1
            self.request()

    def request(self) -> None:
        if self.count:
            self._client.send(L1BlocksRequest(self.next, self.count))


class Chains:
    """The derivations of all chains, and the head that l1 publishes."""

    def __init__(self, buses: dict[str, Bus], chains: Sequence[int]) -> None:
        self.chains = {chain: Chain(buses, chain) for chain in chains}
        self.head = -1
        buses[f"derivation.{chains[0]}"].subscribe("status.l1", self._on_status)

    def _on_status(self, message: Any) -> None:
        if isinstance(message, L1Heads) and message.head is not None:
            self.head = message.head.number

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, while the derivations repeat their requests."""
        repeated = 0.0
        async with asyncio.timeout(30):
            while not condition():
                if time.monotonic() > repeated + REPEAT_SECONDS:
                    repeated = time.monotonic()
                    for chain in self.chains.values():
                        chain.request()
                await asyncio.sleep(0.01)

    async def read(self, first: int, last: int, chains: Sequence[int] | None = None) -> None:
        """Have chains read blocks, each at its own pace."""
        reading = [self.chains[chain] for chain in chains or self.chains]
        for chain in reading:
            chain.next, chain.count = first, 8
        await self.until(lambda: all(chain.next > last for chain in reading))


def rollups(chains: Sequence[int], **fields: Any) -> tuple[RollupConfig, ...]:
    return tuple(msgspec.structs.replace(PLAIN_ROLLUP, l2_chain_id=chain, **fields) for chain in chains)


@asynccontextmanager
async def running_l1(config: L1Config) -> AsyncIterator[Chains]:
    """Yield the derivations of the config's rollups."""
    chains = [rollup.l2_chain_id for rollup in config.rollups]
    roles = ("l1", "compute", *(f"derivation.{chain}" for chain in chains))
    async with running_stage("l1", lambda bus, meter: l1.build(config, bus, meter), roles) as buses:
        yield Chains(buses, chains)


async def test_a_block_is_asked_for_once_and_each_chain_gets_its_own(recording: Recording, l1_filter: L1Filter) -> None:
    asked = Counter[tuple[str, str]]()
    served = RecordedL1(recording).methods()

    def counted(method: str) -> Callable[..., Any]:
        def call(first: str, *params: Any) -> Any:
            asked[method, first] += params != (False,)
            return served[method](first, *params)

        return call

    methods: Methods = {**served, **{name: counted(name) for name in ("eth_getBlockByNumber", "eth_getBlockReceipts")}}
    own = {
        "l1_chain_id": l1_filter.chain_id,
        "batch_inbox": l1_filter.inbox,
        "deposit_contract": l1_filter.deposit_contract,
        "l1_system_config": l1_filter.system_config,
    }
    first, second, third = rollups(CHAINS, **own)
    second = msgspec.structs.replace(second, batch_inbox=b"\1" * 20)
    third = msgspec.structs.replace(third, deposit_contract=b"\2" * 20)
    async with listening(json_rpc_app(methods)) as urls:
        config = L1Config(urls, (first, second, third), poll_interval=0.05, epoch_poll_interval=0.1, timeout=10.0)
        async with running_l1(config) as l1s:
            await l1s.read(FIRST, LAST)
            blocks = [l1s.chains[chain].blocks for chain in CHAINS]
    numbers = range(FIRST, LAST + 1)
    assert [asked["eth_getBlockByNumber", hex(number)] for number in numbers] == [1] * len(numbers)
    assert max(count for (method, _), count in asked.items() if method == "eth_getBlockReceipts") == 1
    counts = [(sum(len(b.inbox) for b in own.values()), sum(len(b.deposits) for b in own.values())) for own in blocks]
    assert counts == [(2, 2), (0, 2), (2, 0)]
    for number in numbers:
        assert {own[number].header.hash for own in blocks} == {recording.block(number).hash}


async def calls_at_the_tip(chains: Sequence[int], new: int) -> int:
    """Return the calls for `new` L1 blocks, each asked for by all chains as soon as they have the one before."""
    chain = FakeL1Chain(30, int(time.time()) - 1000)
    server = WebSocketServer(chain.methods(PLAIN_ROLLUP.l1_chain_id))
    async with listening(server.app) as (url,):
        url = web_socket_url(url)
        config = L1Config((url,), rollups(chains), poll_interval=3600.0, epoch_poll_interval=3600.0)
        async with running_l1(config) as l1s:
            await l1s.read(29, 29)
            chain.asked.clear()
            for number in range(30, 30 + new):
                chain.extend(1)
                await server.notify()
                await l1s.until(lambda number=number: all(c.next > number for c in l1s.chains.values()))  # type: ignore[misc]
            assert all(c.blocks[30] == chain.block(30) for c in l1s.chains.values())
    return len(chain.asked)


async def test_three_chains_at_the_tip_make_the_calls_of_one() -> None:
    one, three = await calls_at_the_tip(CHAINS[:1], 12), await calls_at_the_tip(CHAINS, 12)
    assert one >= 12 and three <= 1.1 * one


async def test_each_chain_reads_at_its_own_height() -> None:
    """One far behind neither evicts nor delays what the one at the tip reads, with a cache for few blocks."""
    chain = FakeL1Chain(200, int(time.time()) - 2400)
    async with listening(json_rpc_app(chain.methods(PLAIN_ROLLUP.l1_chain_id))) as urls:
        config = L1Config(
            urls,
            rollups(CHAINS[:2]),
            poll_interval=0.05,
            epoch_poll_interval=3600.0,
            cache_size=64,
            window=40,
            chain_confs={CHAINS[0]: 4},
        )
        async with running_l1(config) as l1s:
            behind, ahead = (l1s.chains[chain_id] for chain_id in CHAINS[:2])
            behind.next, behind.count = 1, 8
            await l1s.read(199, 199, CHAINS[1:2])
            for number in range(200, 220):
                chain.extend(1)
                await l1s.until(lambda number=number: ahead.next > number)  # type: ignore[misc]
            await l1s.until(lambda: behind.next == 216)
            await l1s.until(lambda: l1s.head == 219)
            assert 216 not in behind.blocks, "its own confirmations"
            assert sorted(behind.blocks) == list(range(1, 216))
            assert sorted(ahead.blocks) == list(range(199, 220))
    asked = [label for label, _ in chain.asked]
    assert max(asked.count(hex(number)) for number in range(200, 220)) <= 2, "once for each at most"


async def test_a_chain_that_does_not_run_is_forgotten_until_it_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing is fetched, kept or sent for it [LIF34]."""
    monkeypatch.setattr(l1, "GONE_SECONDS", 0.2)
    chain, stages = FakeL1Chain(40, int(time.time()) - 1000), list[l1.L1Stage]()
    roles = ("l1", "compute", *(f"derivation.{chain_id}" for chain_id in CHAINS))
    async with listening(json_rpc_app(chain.methods(PLAIN_ROLLUP.l1_chain_id))) as urls:
        config = L1Config(urls, rollups(CHAINS), poll_interval=0.05)

        def build(bus: Bus, meter: Meter) -> l1.L1Stage:
            stages.append(l1.build(config, bus, meter))
            return stages[0]

        async with running_stage("l1", build, roles) as buses:
            l1s = Chains(buses, CHAINS)
            await l1s.read(39, 39)
            assert len(stages[0]._clients) == 3
            stopped = buses["derivation.10"]
            stopped.transport.liveness.start(stopped.process_id.slot, 2)
            l1s.chains[10].count = 0
            chain.extend(1)
            await l1s.until(lambda: len(stages[0]._clients) == 2)
            assert all(client.process != stopped.process_id for client in stages[0]._clients.values())
            stopped.transport.liveness.start(stopped.process_id.slot, 1)
            await l1s.read(39, 40, [10])
            assert len(stages[0]._clients) == 3
