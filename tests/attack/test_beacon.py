"""What a Beacon API can do to the blobs process: it lies about slots, has no blobs, or its answers are far too large or
misshapen. The process under attack is a real one; docs/security.md has the bounds."""

import gzip
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from rollup_node.stages.blobs import kzg
from rollup_node.stages.blobs.config import BlobsConfig
from tests.support.attacked_stage import AttackedStage, attacked_stage
from tests.support.fake_beacon import GENESIS, SLOT, FakeBeacon, RecordedBlob
from tests.support.http_listener import app_for_every_path, listening
from tests.support.plain_rollup import PLAIN_ROLLUP
from tests.support.stage_runner import run_within

HEAL_SECONDS = 35
TIME = GENESIS + 12 * SLOT


class HostileBeacon:
    """A Beacon API. While `attack` is set, it answers instead, with a body for the route's name."""

    def __init__(self, blobs: list[RecordedBlob]) -> None:
        self.beacon = FakeBeacon(blobs)
        self.attack: Callable[[str], bytes | None] | None = None
        self.attacks = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One HTTP request."""
        body = self.attack(request.path) if self.attack is not None else None
        if body is None:
            return await self.beacon.respond(request)
        self.attacks += 1
        headers = {"Content-Encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
        return web.Response(body=body, content_type="application/json", headers=headers)


@pytest.fixture(scope="module")
def blobs() -> list[RecordedBlob]:
    """Two blobs whose commitments are right; their contents are no batches."""
    made = []
    for number in range(2):
        blob = bytes(31) + bytes([number + 1]) + bytes(kzg.BLOB_SIZE - 32)
        commitment = kzg.blob_to_commitment(blob)
        made.append(RecordedBlob(kzg.versioned_hash(commitment), blob, commitment))
    return made


def attack_blobs(
    scenario: Callable[[AttackedStage, list[HostileBeacon]], Awaitable[None]], *beacons: HostileBeacon
) -> None:
    """Runs a scenario against a blobs process with these endpoints; the process must outlive it within its bounds."""

    async def main() -> None:
        async with listening(*(app_for_every_path(beacon.handle) for beacon in beacons)) as urls:
            config = BlobsConfig(urls[0], PLAIN_ROLLUP, fallbacks=urls[1:], timeout=20.0)
            async with attacked_stage("blobs", config) as stage:
                with stage.within_bounds():
                    await scenario(stage, list(beacons))

    run_within(58, main)


def wanted(blobs: list[RecordedBlob], number: int = 1, urgent: bool = True, at: int = TIME) -> list[Any]:
    """A request for all blobs of an L1 block."""
    return [number, at, [each.hash.hex() for each in blobs], urgent]


async def receives(stage: AttackedStage, blobs: list[RecordedBlob], number: int) -> None:
    """Requests the blobs of another L1 block and waits for them."""
    stage.request(wanted(blobs, number))
    await stage.until(lambda: stage.last("blobs") == number, f"the blobs of block {number}", HEAL_SECONDS)


@pytest.mark.parametrize("wrong", ["genesis", "spec"])
def test_a_wrong_clock_is_corrected_without_a_restart(wrong: str, blobs: list[RecordedBlob]) -> None:
    async def scenario(stage: AttackedStage, beacons: list[HostileBeacon]) -> None:
        answers = {"genesis": b'{"data":{"genesis_time":"40"}}', "spec": b'{"data":{"SECONDS_PER_SLOT":"6"}}'}
        beacons[0].attack = lambda path: answers[wrong] if path.endswith(wrong) else None
        stage.request(wanted(blobs))
        await stage.until(lambda: stage.last("error"), "the blobs are unavailable")
        error = stage.last("error")
        beacons[0].attack = None
        await receives(stage, blobs, 1)
        assert "genesis time" in error

    attack_blobs(scenario, HostileBeacon(blobs))


def test_a_wrong_clock_of_one_source_is_outvoted_by_the_l1_clock(blobs: list[RecordedBlob]) -> None:
    async def scenario(stage: AttackedStage, beacons: list[HostileBeacon]) -> None:
        beacons[0].attack = lambda path: b'{"data":{"genesis_time":"1001"}}' if path.endswith("genesis") else None
        await receives(stage, blobs, 1)
        assert "contradict each other" in stage.log

    attack_blobs(scenario, HostileBeacon(blobs), HostileBeacon(blobs))


def test_missing_blobs_that_are_only_prefetched_are_logged_once_a_minute(blobs: list[RecordedBlob]) -> None:
    async def scenario(stage: AttackedStage, beacons: list[HostileBeacon]) -> None:
        beacons[0].attack = lambda path: b'{"data":[]}' if "/blob" in path else None
        stage.request(*(wanted(blobs, number, False, TIME + 12 * number) for number in range(64)))
        await stage.until(lambda: beacons[0].attacks >= 250, "250 answers without blobs")
        assert stage.log.count("could not fetch blobs") <= 2
        beacons[0].attack = None
        await receives(stage, blobs, 100)

    attack_blobs(scenario, HostileBeacon(blobs))


def lists(size: int) -> bytes:
    return b"[" + b"[]," * (size // 3) + b"[]]"


BODIES: dict[str, Callable[[], bytes]] = {
    "60 MB of lists": lambda: lists(60_000_000),
    "30 MB of empty texts": lambda: b'{"data":[' + b'"",' * 10_000_000 + b'""]}',
    "30 MB of empty objects": lambda: b'{"data":[' + b"{}," * 10_000_000 + b"{}]}",
    "a gzip bomb of 120 MB": lambda: gzip.compress(b'{"data":' + lists(120_000_000) + b"}", 6),
    "a deep nest": lambda: b'{"data":' + b"[" * 2_000_000,
    "126 foreign blobs": lambda: b'{"data":["0x' + b'","0x'.join([b"00" * kzg.BLOB_SIZE] * 126) + b'"]}',
    "a number of a million digits": lambda: b'{"data":{"genesis_time":' + b"9" * 900_000 + b"}}",
}


@pytest.mark.parametrize("name", BODIES)
def test_huge_answers_on_every_route(name: str, blobs: list[RecordedBlob]) -> None:
    async def scenario(stage: AttackedStage, beacons: list[HostileBeacon]) -> None:
        await receives(stage, blobs, 1)
        body = BODIES[name]()
        beacons[0].attack = lambda path: body
        others = [RecordedBlob(bytes([1, number]) + bytes(30), b"", b"") for number in range(8)]
        stage.request(*(wanted([other], 10 + index, index == 0) for index, other in enumerate(others)))
        await stage.until(lambda: beacons[0].attacks >= 12, "12 answers of the attack")
        await stage.until(lambda: stage.last("error"), "the blobs are unavailable")
        beacons[0].attack = None
        await receives(stage, blobs, 2)

    attack_blobs(scenario, HostileBeacon(blobs))


def test_sigterm_ends_the_process_while_every_call_hangs(blobs: list[RecordedBlob]) -> None:
    async def scenario(stage: AttackedStage, beacons: list[HostileBeacon]) -> None:
        beacons[0].beacon.delay = 30.0
        stage.request(wanted(blobs))
        await stage.until(lambda: beacons[0].beacon.requested, "a call")
        began = time.monotonic()
        assert await stage.stop() == 0
        assert time.monotonic() - began < 3

    async def main() -> None:
        hostile = HostileBeacon(blobs)
        async with (
            listening(app_for_every_path(hostile.handle)) as urls,
            attacked_stage("blobs", BlobsConfig(urls[0], PLAIN_ROLLUP, timeout=20.0)) as stage,
        ):
            await scenario(stage, [hostile])

    run_within(58, main)
