"""References of L1 blocks: which of an endpoint's headers are given, and how many are fetched at once."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.io.jsonrpc import EndpointError
from rollup_node.stages.l1.process.refs_client import MOST_AT_ONCE, RefsReader, linked
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.l1 import L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.headers import EMPTY_UNCLES_HASH, Header, header_hash
from rollup_node.stages.protocol.hex_encoding import to_hex

PEER = ProcessId(3, 1)


def chain(length: int) -> list[dict[str, Any]]:
    """Blocks 0 to `length` as an endpoint shows them."""
    blocks, parent = [], bytes(32)
    for number in range(length + 1):
        header = Header(
            *(parent, EMPTY_UNCLES_HASH, bytes(20), bytes(32), bytes(32), bytes(32), bytes(256)),
            *(0, number, 30_000_000, 0, 1_000 + 12 * number, b"", bytes(32), bytes(8)),
        )
        parent = header_hash(header)
        blocks.append(shown(header))
    return blocks


def shown(header: Header) -> dict[str, Any]:
    names = ("parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom")
    numbers = ("difficulty", "number", "gasLimit", "gasUsed", "timestamp")
    values = msgspec.structs.astuple(header)
    return {
        **{name: to_hex(value) for name, value in zip(names, values[:7], strict=True)},
        **{name: hex(value) for name, value in zip(numbers, values[7:12], strict=True)},
        **{"extraData": to_hex(values[12]), "mixHash": to_hex(values[13]), "nonce": to_hex(values[14])},
        "hash": to_hex(header_hash(header)),
    }


class Endpoint:
    """In the place of an endpoint and of the choice among them."""

    name = "l1:1"

    def __init__(self, blocks: list[Any]) -> None:
        self.blocks = blocks
        self.asked: list[tuple[int, int]] = []
        self.failures: list[Exception] = []

    def pick(self) -> "Endpoint":
        return self

    def failed(self, endpoint: Any, error: Exception) -> None:
        self.failures.append(error)

    async def headers_json(self, numbers: range) -> list[Any]:
        self.asked.append((numbers[0], numbers[-1]))
        if not self.blocks:
            raise EndpointError(self.name, "cannot connect")
        return [self.blocks[number] if number < len(self.blocks) else None for number in numbers]


def read(endpoint: Endpoint, *wants: L1RefsRequest, rate_limit: float = 0.0) -> list[L1RefsResponse]:
    config = SimpleNamespace(trust_rpc=False, rate_limit=rate_limit)
    found: list[L1RefsResponse] = []
    woken: list[int] = []
    reader = RefsReader(config, endpoint, lambda: woken.append(1))  # type: ignore[arg-type]
    for want in wants:
        reader.ask(PEER, want)
    asyncio.run(reader.step(lambda peer, message: found.append(message)))
    assert woken
    return found


def numbers(found: L1RefsResponse) -> list[int]:
    return [ref.number for ref in found.refs]


def test_references_end_at_the_block_asked_for() -> None:
    endpoint = Endpoint(chain(40))
    first, second, third = read(
        endpoint, L1RefsRequest(40, 16), L1RefsRequest(3, 16), L1RefsRequest(41, 5), L1RefsRequest(41, 5)
    )
    assert numbers(first) == list(range(25, 41)) and first.error is None
    assert numbers(second) == [0, 1, 2, 3]
    assert third == L1RefsResponse(41, (), None), "L1 has no such block"
    assert endpoint.asked == [(25, 40), (0, 3), (37, 41)], "a repeated question is answered once"


def test_blocks_that_do_not_link_or_are_pruned_end_them() -> None:
    blocks = chain(10)
    other = chain(10)
    other[4] = None  # type: ignore[call-overload]
    assert [ref.number for ref in linked(other, 10, False)] == [5, 6, 7, 8, 9, 10]
    mixed = [*blocks[:5], *another_branch()]
    assert [ref.number for ref in linked(mixed, 10, False)] == [5, 6, 7, 8, 9, 10]


def another_branch() -> list[dict[str, Any]]:
    """Blocks 5 to 10 on a block 4 that is not the one of `chain`."""
    blocks, above = [], b"\x77" * 32
    for number in range(5, 11):
        header = Header(
            *(above, EMPTY_UNCLES_HASH, bytes(20), bytes(32), bytes(32), bytes(32), bytes(256)),
            *(0, number, 30_000_000, 7, 1_000 + 12 * number, b"", bytes(32), bytes(8)),
        )
        above = header_hash(header)
        blocks.append(shown(header))
    return blocks


def test_an_endpoint_that_gives_something_else_has_failed() -> None:
    blocks = chain(10)
    endpoint = Endpoint([*blocks[:10], blocks[9]])
    (found,) = read(endpoint, L1RefsRequest(10, 2))
    assert found.refs == () and found.error is not None and found.error.startswith("l1:1: asked for block 10")
    assert isinstance(endpoint.failures[0], InvalidDataError)
    away = Endpoint([])
    (found,) = read(away, L1RefsRequest(10, 2))
    assert found == L1RefsResponse(10, (), "l1:1: cannot connect") and len(away.failures) == 1
    wrong = [dict(block, gasUsed="0x1") for block in blocks]
    with pytest.raises(InvalidDataError, match="hashes to"):
        linked(wrong, 10, False)
    assert len(linked(wrong, 10, True)) == 11


@pytest.mark.parametrize(("rate", "most"), [(0, MOST_AT_ONCE), (2, 10), (0.1, 1), (1_000, MOST_AT_ONCE)])
def test_no_more_is_fetched_at_once_than_a_rate_limit_allows_in_a_moment(rate: float, most: int) -> None:
    endpoint = Endpoint(chain(300))
    (found,) = read(endpoint, L1RefsRequest(300, 10_000), rate_limit=rate)
    assert len(found.refs) == most
