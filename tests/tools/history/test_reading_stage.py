"""The process of a range without an L2 source: its rows, its seams, and a disk that refuses."""

from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.api.in_process import running_buses
from rollup_node.tools.history.derivation_stage import RESULT, RangeResult
from rollup_node.tools.history.manifest import NO_BLOCK
from rollup_node.tools.history.reading_stage import ReadingConfig, build
from rollup_node.tools.history.tables import Table
from rollup_node.tools.inspect.listing_stage import ListingConfig
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.conformance.kit.chain import GENESIS, L1Blocks, forks_until, rollup
from tests.conformance.kit.planning import channel, child
from tests.support.processes.stage_runner import run_to_exit
from tests.tools.conftest import NewBuses

ROLLUP = rollup(forks_until("holocene"))


async def _read(new_buses: NewBuses, l1: L1Blocks, folder: Path, begin: int, first: int, last: int) -> int:
    """Read blocks `begin` to `last` of a chain by their index; the exit code."""
    folder.mkdir(exist_ok=True)
    numbers = [block.header.number for block in l1.blocks]

    def answer(peer: ProcessId, request: L1BlocksRequest) -> None:
        for number in range(request.first, request.first + request.count):
            server.send(peer, L1BlockResponse(l1[number]))

    buses = new_buses(folder)
    server = buses["l1"].serve("l1.blocks", answer)
    with open("/dev/null", "wb") as none:
        outputs: dict[str, Any] = {"form": RowFormat.JSON, "output": none.fileno(), "errors": none.fileno()}
        listing = ListingConfig(ROLLUP, numbers[begin], numbers[last], None, **outputs)
        stage = build(ReadingConfig(listing, numbers[first], str(folder)), buses["derivation"], Meter("derivation"))
        async with running_buses(buses):
            return await run_to_exit(stage)


def _result(folder: Path) -> RangeResult:
    return msgspec.json.decode((folder / RESULT).read_bytes(), type=RangeResult)


def _rows(folder: Path, table: Table) -> list[dict[str, Any]]:
    return [orjson.loads(line) for file in folder.glob(f"{table.value}/*") for line in file.read_bytes().splitlines()]


def _chain() -> L1Blocks:
    """Return a channel in two blocks, what is dropped, and a whole channel."""
    l1 = L1Blocks()
    first, second = channel("A", child(GENESIS).singular, pieces=2)
    l1.add(first)
    l1.add(b"\x05")
    l1.add(second)
    l1.add(*channel("B", child(GENESIS).singular))
    return l1


async def test_rows_are_those_of_the_range_and_its_seam_closes(new_buses: NewBuses, tmp_path: Path) -> None:
    l1 = _chain()
    before, after = tmp_path / "a", tmp_path / "b"
    assert await _read(new_buses, l1, before, 0, 1, 2) == 0
    assert await _read(new_buses, l1, after, 1, 3, 4) == 0
    assert _result(before).end == _result(after).start, "the warm-up has the first frame of the open channel"
    assert [channel.opened for channel in _result(after).start.channels] == [l1.blocks[1].header.number]
    end = _result(after).end
    assert (end.safe, end.origin, end.channels) == (NO_BLOCK, NO_BLOCK, ()) and _result(after).l2_blocks == 0
    assert _result(after).batcher == to_hex(ROLLUP.genesis.system_config.batcher)
    assert [row["l1_number"] for row in _rows(before, Table.DROPS)] == [l1.blocks[2].header.number]
    assert _rows(before, Table.BATCHES) == [] and len(_rows(before, Table.FRAMES)) == 1
    batches, channels = _rows(after, Table.BATCHES), _rows(after, Table.CHANNELS)
    assert [row["l1_number"] for row in batches] == [block.header.number for block in l1.blocks[3:5]]
    assert [row["frames"] for row in channels] == [2, 1]


async def test_a_disk_that_refuses_ends_it_with_a_line(
    new_buses: NewBuses, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / RESULT).mkdir()
    assert await _read(new_buses, _chain(), tmp_path, 0, 1, 2) == EXIT_REPORTED
    assert "cannot write the rows of L1 blocks" in capsys.readouterr().err
