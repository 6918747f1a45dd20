"""References of L1 blocks: which of an endpoint's headers are returned, and how many are fetched at once."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.l1.process.refs_client import MAX_PENDING, MAX_REFS, RefsReader, check_refs, linked_refs
from rollup_node.stages.l1.proof import Proof
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.l1 import L1RefsRequest, L1RefsResponse
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.servers.http_listener import Methods, json_rpc_app
from tests.support.servers.l1_endpoints import served

CLIENT = ProcessId(3, 1)
Block = dict[str, Any] | None


def blocks_json(chain: FakeL1Chain) -> list[Block]:
    return [chain.block_json(number) for number in range(chain.head + 1)]


async def read(servers: Sequence[Methods], *requests: L1RefsRequest, rate_limit: float = 0.0) -> list[L1RefsResponse]:
    """Return the responses to these requests."""
    responses: list[L1RefsResponse] = []
    woken: list[bool] = []
    async with served(*map(json_rpc_app, servers), max_batch=500, rate_limit=rate_limit) as (config, endpoints, _):
        reader = RefsReader(config, endpoints, lambda: woken.append(True))
        for request in requests:
            reader.request(CLIENT, request)
        await reader.step(lambda client, response: responses.append(response))
    assert woken
    return responses


def requested(chain: FakeL1Chain) -> list[int]:
    return [int(label, 16) for label, _ in chain.asked]


def numbers(response: L1RefsResponse) -> list[int]:
    return [ref.number for ref in response.refs]


async def test_references_end_at_the_requested_block() -> None:
    requests = L1RefsRequest(40, 16), L1RefsRequest(3, 16), L1RefsRequest(41, 5), L1RefsRequest(41, 5)
    chain = FakeL1Chain(41)
    first, second, third = await read([chain.methods(5)], *requests)
    assert numbers(first) == list(range(25, 41)) and first.error is None
    assert numbers(second) == [0, 1, 2, 3]
    assert third == L1RefsResponse(41, (), None), "L1 has no such block"
    expected = [*range(25, 41), *range(4), *range(37, 42)]
    assert requested(chain) == expected, "a repeated request is answered once"


async def test_requests_beyond_the_queue_are_ignored() -> None:
    requests = [L1RefsRequest(last, 1) for last in range(MAX_PENDING + 1)]
    responses = await read([FakeL1Chain(20).methods(5)], *requests)
    assert [response.last for response in responses] == list(range(MAX_PENDING))


def test_references_stop_above_blocks_that_do_not_link_or_are_missing() -> None:
    chain = FakeL1Chain(11)
    before = blocks_json(chain)
    pruned = [*before[:4], None, *before[5:]]
    assert [ref.number for ref in linked_refs(pruned, 10, False)] == [5, 6, 7, 8, 9, 10]
    chain.reorg(depth=7, length=7)
    mixed = [*before[:5], *blocks_json(chain)[5:]]
    assert [ref.number for ref in linked_refs(mixed, 10, False)] == [5, 6, 7, 8, 9, 10]


async def test_an_endpoint_that_returns_another_block_gives_way_to_the_next() -> None:
    chain = FakeL1Chain(11)
    right = chain.methods(5)
    wrong: Methods = {**right, "eth_getBlockByNumber": lambda number, full: chain.block_json(min(int(number, 16), 9))}
    first, second = await read([wrong, right], L1RefsRequest(10, 2), L1RefsRequest(10, 3))
    assert first.refs == () and first.error is not None
    error = str(first.error)
    assert error.startswith("L1-BLOCK: 127.0.0.1:") and ": requested block 10, got 9:" in error
    assert numbers(second) == requested(chain) == [8, 9, 10]


def test_hashes_are_checked_unless_the_endpoint_is_trusted() -> None:
    changed = [{**(block or {}), "gasUsed": "0x1"} for block in blocks_json(FakeL1Chain(11))]
    with pytest.raises(InvalidDataError, match="hashes to"):
        linked_refs(changed, 10, False)
    assert len(linked_refs(changed, 10, True)) == 11


@pytest.mark.option("l1.rpc-rate-limit")
@pytest.mark.condition("C3")
@pytest.mark.parametrize(("rate", "expected"), [(0, MAX_REFS), (2, 10), (0.1, 1), (1_000, MAX_REFS)])
async def test_one_response_takes_no_more_than_a_moment_of_the_rate_limit(rate: float, expected: int) -> None:
    """[LHD16]"""
    (response,) = await read([FakeL1Chain(301).methods(5)], L1RefsRequest(300, 10_000), rate_limit=rate)
    assert len(response.refs) == expected


def test_references_are_those_of_proven_blocks_where_heads_are_proven() -> None:
    """[LCP15] One that is not linked yet, or above the head, is asked for again; a forged one is wrong data."""
    chain, forged = FakeL1Chain(40), FakeL1Chain(40)
    forged.reorg(20, 20)
    proof = Proof(time.monotonic, {})
    problem = check_refs(proof, [chain.ref(10)])
    assert problem is not None and problem.text == "block 10 is not proven yet"
    proof.chain.advance(chain.ref(30))
    problem = check_refs(proof, [chain.ref(28)])
    assert problem is not None and problem.text == "block 28 is not linked to the proven head yet"
    assert proof.chain.extend([chain.ref(number) for number in proof.missing()])
    assert check_refs(proof, [chain.ref(28), chain.ref(29), chain.ref(30)]) is None
    with pytest.raises(InvalidDataError, match="is not the one that is proven"):
        check_refs(proof, [chain.ref(28), forged.ref(29)])
