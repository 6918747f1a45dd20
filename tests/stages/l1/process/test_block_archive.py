"""L1 blocks from an archive: read before any endpoint, verified as theirs are, and fetched again where damaged."""

import asyncio
import gzip
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.io.files.archive import block_name, number_name
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.head_tracker import NewestBlock
from rollup_node.stages.l1.prefetch_window import Fetch
from rollup_node.stages.l1.process.block_archive import BlockArchive
from rollup_node.stages.l1.process.block_fetcher import BlockFetcher
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.l1.process.refs_client import RefsReader
from rollup_node.stages.messages.l1 import L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import L1Block
from tests.stages.l1.process.test_block_fetcher import ROLLUP, InlineWorkers
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.servers.http_listener import Methods, json_rpc_app, listening

CHAIN = FakeL1Chain(8)
LAST = 5


@pytest.fixture
def lines() -> list[Record]:
    result: list[Record] = []
    log.configure("l1", Level.WARN, result.append)
    return result


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    """Return an archive with blocks 2 and 3; block 6 is above the last that is kept."""
    assert await _fetch(tmp_path, 2, 3, 6) == ([CHAIN.block(number) for number in (2, 3, 6)], ["0x2", "0x3", "0x6"])
    return tmp_path


async def _fetch(
    folder: Path, *numbers: int, generation: int = 0, refs: list[L1RefsResponse] | None = None
) -> tuple[list[L1Block | None], list[str]]:
    """Return the blocks of these numbers, or the responses to requests for their references into `refs`, and what the
    endpoint was asked for."""
    asked: list[str] = []
    value: list[L1Block | None] = []

    def by_number(number: str, full: bool) -> Any:
        asked.append(number)
        return CHAIN.block_json(int(number, 16))

    methods: Methods = {"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": by_number}
    async with listening(json_rpc_app(methods)) as urls:
        config = L1Config(urls, (ROLLUP,), archive=str(folder), archive_last=LAST)
        endpoints, archive = L1Endpoints(config, Meter("l1")), BlockArchive(str(folder), config)
        workers: Any = InlineWorkers()
        done = asyncio.Event()
        newest = NewestBlock[L1Endpoint](12.0, lambda number: False)
        fetcher = BlockFetcher(config, endpoints, newest, workers, done.set, archive)
        reader = RefsReader(config, endpoints, done.set, archive)
        for number in numbers:
            if refs is None:
                fetcher.start([Fetch(number, generation)])
                await asyncio.wait_for(done.wait(), 10)
                value.extend(None if result.blocks is None else result.blocks[0] for result in fetcher.take_results())
                done.clear()
            else:
                reader.request(ProcessId(1, 1), L1RefsRequest(number, 1))
                await reader.step(lambda client, response: refs.append(response))
        await endpoints.close()
    return value, asked


async def test_what_the_archive_has_is_not_asked_for(archive: Path, lines: list[Record]) -> None:
    assert await _fetch(archive, 2, 3) == ([CHAIN.block(2), CHAIN.block(3)], [])
    assert await _fetch(archive, 6, 4) == ([CHAIN.block(6), CHAIN.block(4)], ["0x6", "0x4"])
    assert await _fetch(archive, 4) == ([CHAIN.block(4)], [])
    refs: list[L1RefsResponse] = []
    assert (await _fetch(archive, 3, 7, refs=refs))[1] == ["0x7"]
    assert refs == [L1RefsResponse(number, (CHAIN.ref(number),), None) for number in (3, 7)] and lines == []


async def test_after_a_reorg_the_endpoints_say_what_is_canonical(archive: Path) -> None:
    assert await _fetch(archive, 2, generation=1) == ([CHAIN.block(2)], ["0x2"])


async def test_what_is_damaged_is_fetched_again_and_replaced(archive: Path, lines: list[Record]) -> None:
    entry = archive / block_name(5, CHAIN.hash(2))
    other = archive / block_name(5, CHAIN.hash(3))
    number = archive / number_name(5, 2)
    good = entry.read_bytes()
    for path, data in (
        (entry, good[:-3]),
        (entry, other.read_bytes()),
        (number, b"0x12"),
        (number, to_hex(CHAIN.hash(3)).encode()),
    ):
        lines.clear()
        path.write_bytes(data)
        assert await _fetch(archive, 2) == ([CHAIN.block(2)], ["0x2"])
        assert [line.fields["code"] for line in lines] == ["ARCHIVE-DAMAGED"]
        assert await _fetch(archive, 2) == ([CHAIN.block(2)], [])


async def test_a_block_of_another_hash_is_no_block_of_that_entry(archive: Path, lines: list[Record]) -> None:
    """Its hash is right, and its number too, but it is on another branch than the archive says."""
    branch = FakeL1Chain(8)
    branch.reorg(6, 6)
    shutil.rmtree(archive / "l1-5" / "numbers")
    body = orjson.dumps({"result": branch.block_json(2)})
    (archive / block_name(5, CHAIN.hash(2))).write_bytes(gzip.compress(body))
    (archive / number_name(5, 2)).parent.mkdir(parents=True)
    (archive / number_name(5, 2)).write_text(to_hex(CHAIN.hash(2)))
    assert await _fetch(archive, 2) == ([CHAIN.block(2)], ["0x2"])
    assert "it is block 0x" in str(lines[0].fields["reason"])
