"""Derivation in this process, over recorded data and over a prepared chain: blocks, ends, interruptions."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rollup_node
from rollup_node.stages.derivation.process import derivation_log
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.api import run
from tests.support.servers.course_servers import ServedCourse, course_servers

FIRST, LAST = 16_491_244, 16_491_249
"""The safe head before the last span of the recording, and its last block."""
BLOCKS = 56

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCourse]:
    """Yield a chain of 56 L2 blocks from its genesis on, which crosses four forks, with garbage on L1."""
    with course_servers(tmp_path_factory.mktemp("course")) as served:
        yield served


def over(course: ServedCourse, **changes: Any) -> rollup_node.Derivation:
    """Derive the prepared chain, with other arguments."""
    chain = rollup_node.Chain.load(course.options[-1])
    arguments: dict[str, Any] = {"l1": course.urls.l1, "beacon": course.urls.beacon, "from_l2": 0}
    return rollup_node.derive(chain, **(arguments | changes))


def _recorded(folder: Path, **changes: Any) -> rollup_node.Derivation:
    arguments: dict[str, Any] = {"archive": folder, "from_l2": FIRST, "to_l2": LAST, "from_l1": 6_582_944}
    return rollup_node.derive("op-sepolia", **(arguments | changes))


def test_recorded_blocks_are_those_that_were_built(recording_folder: Path) -> None:
    derivation = _recorded(recording_folder)
    blocks = list(derivation)
    known = {block["number"]: block for block in json.loads((recording_folder / "l2_blocks.json").read_text())}
    assert [block.number for block in blocks] == list(range(FIRST + 1, LAST + 1))
    for block in blocks[:-1]:
        assert block.hash is not None and to_hex(block.hash) == known[block.number]["hash"]
        assert [raw.hex() for raw in block.attributes.transactions] == known[block.number]["txs"]
    assert blocks[-1].hash is None and derivation.last == blocks[-1]
    assert {block.l1_inclusion.number for block in blocks} == {6_582_952}
    places = [(block.l1_origin.number - 6_582_944, block.sequence_number) for block in blocks]
    assert places == [(0, 4), (0, 5), (1, 0), (1, 1), (1, 2)]
    (span,) = {block.batch for block in blocks}
    known_span = json.loads((recording_folder / "expected.json").read_text())["spans"][-1]
    assert span is not None and (span.kind, span.blocks) == ("span", 5)
    assert span.channel.hex() == known_span["channel"]
    assert [(block.timestamp - span.first_timestamp) // 2 for block in blocks] == list(range(5))
    assert len(span.l1_transactions) == 1 and span.channel_bytes > 1000
    assert all(drop.rule and drop.text for block in blocks for drop in block.drops)
    assert "reading begins at L1 block 6582944" in derivation.warnings[0]
    assert list(derivation) == [], "one loop"


def test_the_first_block_that_differs_is_the_last(recording_folder: Path, tmp_path: Path) -> None:
    known = json.loads((recording_folder / "l2_blocks.json").read_text())
    known[2]["txs"][1] = known[2]["txs"][2]
    (tmp_path / "blocks.json").write_text(json.dumps(known))
    derivation = _recorded(recording_folder, l2_blocks=tmp_path / "blocks.json")
    numbers = []
    with pytest.raises(rollup_node.BlockDiffers, match="block 16491246 differs from the source") as caught:
        numbers = [block.number for block in derivation]
    assert numbers == [] and derivation.last == caught.value.block
    assert caught.value.block.number == FIRST + 2 and caught.value.block.differences


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"to_l2": LAST + 100}, rollup_node.RangeError, "L1 is exhausted at block 6582952"),
        ({"from_l2": LAST, "to_l2": None}, rollup_node.DataError, "the L2 source has no block 16491249"),
    ],
)
def test_ranges_beyond_the_data(
    changes: dict[str, Any], kind: type[Exception], text: str, recording_folder: Path
) -> None:
    with pytest.raises(kind, match=text):
        list(_recorded(recording_folder, **changes))


def test_data_of_another_chain(recording_folder: Path) -> None:
    with pytest.raises(rollup_node.DataError, match="chain id 11155111, expected 1") as caught:
        list(rollup_node.derive("op-mainnet", archive=recording_folder, from_l2=120_000_000))
    assert caught.value.code == "L1-CHAIN"


def test_recorded_blobs_that_were_altered_are_the_reason(
    recording_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derivation_log, "LONG_WAIT", 0.0)
    for path in recording_folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    for blob in tmp_path.glob("blob_*"):
        content = bytearray(blob.read_bytes())
        content[100] ^= 1
        blob.unlink()
        blob.write_bytes(content)
    text = r"has waited \d+ s for \d blobs of L1 block .*: BLOB-WRONG: blobs of L1 block .*, which was not requested"
    with pytest.raises(rollup_node.DataError, match=text):
        list(_recorded(tmp_path, timeout=4.0))


def test_with_and_without_an_l2_source_and_from_an_archive(
    course: ServedCourse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "FOLDER_SECONDS", 2.0)
    alone = list(over(course))
    assert len(alone) == BLOCKS and sum(len(block.drops) for block in alone) > 20
    assert {block.hash for block in alone} == {None}
    archive = tmp_path / "archive"
    compared = list(over(course, l2=course.urls.engine, archive=archive))
    assert [to_hex(block.hash or b"") for block in compared] == course.facts.l2_hashes[1:]
    assert [block.attributes for block in compared] == [block.attributes for block in alone]
    # Without any endpoint, and without those data that were damaged or removed.
    assert list(over(course, l1=None, beacon=None, archive=archive)) == alone
    blob = next((archive / "blobs").glob("*/*/*"))
    blob.write_bytes(blob.read_bytes()[:-1])
    with pytest.raises(rollup_node.DataError, match=r"blobs of L1 block .* not in the archive"):
        list(over(course, l1=None, beacon=None, archive=archive))
    shutil.rmtree(archive / "l1-1" / "receipts")
    with pytest.raises(rollup_node.DataError, match=r"L1 block \d+ is missing in the archive .*, or damaged"):
        list(over(course, l1=None, beacon=None, archive=archive))


def test_an_endpoint_that_does_not_answer() -> None:
    url = "http://127.0.0.1:1"
    with pytest.raises(rollup_node.EndpointError) as caught:
        list(rollup_node.derive("op-sepolia", l1=url, beacon=url, l2=url, from_l2=5, timeout=0.5))
    assert (caught.value.code, "l1" in str(caught.value)) == ("L1-UNREACHABLE", True)


def test_the_batches_of_a_range(recording_folder: Path) -> None:
    """Of the last three channels."""
    listing = rollup_node.batches("op-sepolia", archive=recording_folder, from_l1=6_582_929, to_l1=6_582_952)
    listed = list(listing)
    spans = json.loads((recording_folder / "expected.json").read_text())["spans"]
    expected = [(span["inclusion"], span["blocks"]) for span in spans if span["inclusion"] >= 6_582_929]
    assert [(batch.inclusion, batch.blocks) for batch in listed] == expected
    assert listing.last == listed[-1] and listing.drops == ()


def test_batches_of_a_chain_with_garbage_and_beyond_its_end(course: ServedCourse) -> None:
    chain = rollup_node.Chain.load(course.options[-1])
    arguments: dict[str, Any] = {"l1": course.urls.l1, "beacon": course.urls.beacon, "from_l1": course.first - 1}
    listing = rollup_node.batches(chain, to_l1=course.last, **arguments)
    assert sum(batch.blocks for batch in listing) >= BLOCKS and {drop.rule for drop in listing.drops}
    beyond = rollup_node.batches(chain, to_l1=course.last + 9, timeout=4.0, **arguments)
    with pytest.raises(rollup_node.EndpointError, match=f"L1 block {course.last + 1} does not exist yet"):
        list(beyond)


@pytest.fixture
def hanging() -> Iterator[rollup_node.Derivation]:
    """Yield a derivation over endpoints that take a connection and answer nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        yield rollup_node.derive("op-sepolia", l1=url, beacon=url, l2=url, from_l2=5, timeout=None)


async def test_an_event_loop_takes_blocks(course: ServedCourse, hanging: rollup_node.Derivation) -> None:
    assert [block.number async for block in over(course)] == list(range(1, BLOCKS + 1))
    async with over(course) as derivation:
        async for block in derivation:
            assert block.number == 1
            break
    waiting = asyncio.ensure_future(anext(aiter(hanging)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_a_loop_that_is_left_ends_the_derivation(course: ServedCourse) -> None:
    for block in over(course):
        if block.number == 2:
            break
    with contextlib.suppress(KeyError):
        for block in over(course):
            raise KeyError(block.number)
    with over(course) as derivation:
        next(derivation)
    assert list(derivation) == [] and len(list(over(course, to_l2=4))) == 4


def test_ctrl_c_ends_it_and_a_second_call_works(course: ServedCourse, hanging: rollup_node.Derivation) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        next(hanging)
    timer.join()
    assert list(hanging) == [] and len(list(over(course, to_l2=3))) == 3
