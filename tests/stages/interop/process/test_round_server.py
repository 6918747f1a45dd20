"""Answers about rounds and denied blocks, from the database [LB7, LB8, LB10]."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rollup_node.stages.interop.process.stage import InteropStage
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.messages.verification import DeniedOutput, RoundRequest, RoundResponse
from tests.support.interop.running_stage import Node, node_of, verify_all
from tests.support.interop.served_world import ServedWorld
from tests.support.interop.values import GENESIS_TIME, Claim, dependency_set, member
from tests.support.interop.world import truth

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

    async def answer(timestamp: int) -> RoundResponse:
        response: RoundResponse = await client.request(lambda id_: RoundRequest(id_, timestamp))
        return response

    return [await answer(timestamp) for timestamp in timestamps]


async def test_a_verified_second_has_its_round(node: Node) -> None:
    """[LB7, LB10]: with the heads and the L1 block that another node finds as well; others have none."""
    last = await verify_all(node)
    rounds = truth(node.world, node.first, last)
    answers = await ask(node, node.first, last, last + 1, node.first - 1, 2**64 - 1)
    assert [(answer.l1, answer.heads) for answer in answers[:2]] == [tuple(rounds[at]) for at in (node.first, last)]
    assert all((answer.l1, answer.heads, answer.error) == (None, {}, None) for answer in answers[2:])


async def test_a_denied_block_has_its_output(node: Node) -> None:
    """[LB8]: at the height of the time that is asked for."""
    await verify_all(node)
    (denied,) = node.verdict(1).denied
    header = node.world.headers[denied.hash]
    assert header.withdrawals_root is not None
    at, before = await ask(node, GENESIS_TIME + 9, GENESIS_TIME + 8)
    assert at.denied == {1: DeniedOutput(denied.hash, header.state_root, header.withdrawals_root)}
    assert before.denied == {} and at.heads[1].hash != denied.hash


async def test_outputs_of_verified_blocks_are_known_without_engines(node: Node) -> None:
    """[LB7, RPC44]: of each chain's head, with the L1 block with which it was safe, which may not be the round's."""
    last = await verify_all(node)
    for chain in node.chains.values():
        chain.is_away = True
    for answer in await ask(node, *range(node.first + 2, last + 1)):
        for chain_id, head in answer.heads.items():
            header, output = node.world.headers[head.hash], answer.outputs[chain_id]
            assert (output.state_root, output.storage_root) == (header.state_root, header.withdrawals_root)
            assert output.l1 == node.chains[chain_id].blocks()[head.number].l1


async def test_a_database_that_fails_is_said(node: Node) -> None:
    """[VDB3]"""
    last = await verify_all(node)
    assert isinstance(node.stage, InteropStage)
    node.stage._database.store._connection.execute("update blocks set crc = 0")
    (answer,) = await ask(node, last)
    assert answer.error is not None and "not what was written" in answer.error and answer.heads == {}
