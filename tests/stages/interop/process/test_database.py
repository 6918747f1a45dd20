"""The interop database in a thread: what fails is said, never guessed [VDB1 to VDB3]."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.interop.config import InteropProcessConfig
from rollup_node.stages.interop.process.database import MAX_PENDING, InteropDatabase, RoundServer
from rollup_node.stages.interop.process.stage import InteropStage
from rollup_node.stages.interop.process.store import InteropStore
from rollup_node.stages.interop.rounds import StoreState
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.interop import DeniedOutput, HeadOutput, RoundRequest, RoundResponse
from rollup_node.stages.protocol.errors import CriticalError, TemporaryError
from tests.support.interop.running_stage import Node, node_of, verify_all
from tests.support.interop.served_world import ServedWorld
from tests.support.interop.values import GENESIS_TIME, Claim, dependency_set, member
from tests.support.interop.world import truth

CONFIG = dependency_set(member(1))


@pytest.fixture(autouse=True)
def _file(tmp_path: Path) -> None:
    """Make the file, as a start does."""
    InteropStore(str(tmp_path / "interop"), CONFIG).close()


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_file_that_has_gone_in_service_ends_the_node(tmp_path: Path, is_empty: bool) -> None:
    """[VDB4]: without its denied blocks, and with chains that are derived on, wrong blocks would count as verified."""
    path = tmp_path / "interop"
    for file in tmp_path.iterdir():
        file.unlink()
    if is_empty:
        path.touch(0o600)
    with pytest.raises(CriticalError, match=r"is gone since the start: start the node again \(data-dir\)") as raised:
        InteropDatabase(str(path), CONFIG)
    assert raised.value.code is Code.INTEROP_STORE and path.exists() is is_empty


async def test_what_is_asked_is_answered_until_it_is_closed(tmp_path: Path) -> None:
    database = InteropDatabase(str(tmp_path / "interop"), CONFIG)
    assert await database.run(InteropStore.state) == StoreState({})
    await database.close(5.0)
    InteropStore(str(tmp_path / "interop"), CONFIG).close()


def test_a_file_in_use_ends_the_process(tmp_path: Path) -> None:
    """[VDB2]"""
    store = InteropStore(str(tmp_path / "interop"), CONFIG)
    with pytest.raises(CriticalError, match="in use by another node") as raised:
        InteropDatabase(str(tmp_path / "interop"), CONFIG)
    assert raised.value.code is Code.INTEROP_STORE
    store.close()


async def test_an_error_in_service_is_temporary(tmp_path: Path) -> None:
    database = InteropDatabase(str(tmp_path / "interop"), CONFIG)
    database.store._connection.execute("drop table progress")
    with pytest.raises(TemporaryError, match=r"interop database .*progress.*\(data-dir\)") as raised:
        await database.run(InteropStore.state)
    assert raised.value.code is Code.INTEROP_STORE
    await database.close(5.0)
    with pytest.raises(sqlite3.ProgrammingError):
        database.store._connection.execute("select 1")


PAIR = dependency_set(member(1), member(2, block_time=2), activation=GENESIS_TIME)
OTHER = Claim(2, 1, 0, GENESIS_TIME + 2, b"never said")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Yield a node in which block 9 of chain 1 was denied."""
    world = ServedWorld(PAIR, 1, {(1, 9): (OTHER,)})
    async with node_of(world, tmp_path / "interop", blocks=2) as node:
        node.grow(3)
        yield node


async def ask(node: Node, *timestamps: int) -> list[RoundResponse]:
    """Return the answers that the rpc process gets."""
    client = RequestClient(node.buses["rpc"], "interop.rounds")
    return [await client.request(RoundRequest, timestamp) for timestamp in timestamps]


async def test_a_verified_second_has_its_round(node: Node) -> None:
    """[LB7, LB8, LB10, RPC44]: with the heads and the L1 block that another node finds as well; others have none.

    A head has its output with the L1 block with which it was safe, and a denied block its own; no engine is asked."""
    last = await verify_all(node)
    rounds = truth(node.world, node.first, last)
    for chain in node.chains.values():
        chain.is_away = True
    *answers, early, late, latest = await ask(node, *rounds, node.first - 1, last + 1, 2**64 - 1)
    assert [(answer.l1, answer.heads) for answer in answers] == list(rounds.values())
    headers, (denied,) = node.world.headers, node.verdict(1).denied
    was = headers[denied.hash]
    output = DeniedOutput(denied.hash, was.state_root, was.withdrawals_root or b"")
    for timestamp, answer in zip(rounds, answers, strict=True):
        assert answer.denied == ({1: output} if timestamp == GENESIS_TIME + 9 else {})
        for chain_id, number in PAIR.heights_at(timestamp).items():
            header, block = headers[answer.heads[chain_id].hash], node.chains[chain_id].blocks()[number]
            wanted = HeadOutput(header.state_root, header.withdrawals_root or b"", block.l1)
            is_checked = PAIR.chains[chain_id].timestamp_of(number) >= node.first
            assert answer.outputs.get(chain_id) == (wanted if is_checked else None)
    assert all((answer.l1, answer.heads, answer.error) == (None, {}, None) for answer in (early, late, latest))


async def test_a_database_that_fails_is_said(node: Node) -> None:
    """[VDB3]"""
    last = await verify_all(node)
    assert isinstance(node.stage, InteropStage)
    node.stage._database.store._connection.execute("update blocks set crc = 0")
    (answer,) = await ask(node, last)
    assert answer.error is not None and "not what was written" in answer.error and answer.heads == {}


async def test_requests_are_answered_once_and_in_order_up_to_a_bound(tmp_path: Path) -> None:
    sent: list[int] = []
    bus: Any = SimpleNamespace(
        serve=lambda channel, handler: SimpleNamespace(send=lambda client, response: sent.append(response.id))
    )
    server = RoundServer(bus, CONFIG, database := InteropDatabase(str(tmp_path / "interop"), CONFIG))
    for number in (1, 1, *range(2, MAX_PENDING + 2)):
        server._take(ProcessId(3, 1), RoundRequest(number, GENESIS_TIME))
    await server.task.step()
    assert sent == [*range(1, MAX_PENDING + 1)]
    await database.close(5.0)


LEVEL = dependency_set(member(1), member(2), activation=GENESIS_TIME)


@pytest.mark.condition("C16")
async def test_an_older_copy_of_the_database_is_named(tmp_path: Path) -> None:
    """[VR14]: it lacks denials of blocks that are final, whose outputs would be others than other nodes have."""
    async with node_of(ServedWorld(LEVEL, 1, {}), tmp_path / "interop") as node:
        last = await verify_all(node)
        await node.stop()
        copy = (tmp_path / "interop").read_bytes()
        await node.start()
        node.grow(4)
        await verify_all(node)
        await node.stop()
        for chain in node.chains.values():
            chain.finalized = last - GENESIS_TIME
        await node.start()
        await node.until_prepared()
        await node.stop()
        (tmp_path / "interop").write_bytes(copy)
        node.chains[2].finalized += 1
        await node.start()
        await node.until(lambda: node.code() is Code.INTEROP_STORE)
        text = "it has finalized a block after the last round: the interop database is an older copy"
        assert node.problems[0].subject == "chain 2" and text in node.problems[0].text
        await node.until(lambda: node.verdicts.timestamp == last)


async def test_damage_found_at_its_start_ends_the_process(tmp_path: Path) -> None:
    """[VDB2, VDB3]: with a code, not as a bug."""
    async with node_of(ServedWorld(LEVEL, 1, {}), tmp_path / "interop") as node:
        await verify_all(node)
        node.finalize(len(node.world.l1) - 1)
        await node.until(lambda: node.verdict(1).final)
        await node.stop()
        with contextlib.closing(sqlite3.connect(tmp_path / "interop")) as connection:
            connection.execute("update blocks set output = x'00'")
            connection.commit()
        config = InteropProcessConfig(LEVEL, {}, str(tmp_path / "interop"))
        with pytest.raises(CriticalError, match=r"is damaged \(block .* is not what was written\)") as raised:
            InteropStage(config, None, Meter("interop"))  # type: ignore[arg-type]
        assert raised.value.code is Code.INTEROP_STORE
