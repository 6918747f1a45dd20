"""What a Beacon API can do to the blobs process: it lies about slots, has no blobs, or its answers are far too large or
misshapen. The process under attack is a real one, the same for most tests; docs/security.md has the bounds."""

import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from aiohttp import web
from py_arkworks_bls12381 import G1Point, Scalar

from rollup_node.stages.blobs import kzg
from rollup_node.stages.blobs.config import BlobsConfig
from tests.support.processes.attacked_stage import AttackedStage, SharedStage
from tests.support.processes.leftovers import Leftovers
from tests.support.servers.fake_beacon import GENESIS, SLOT, FakeBeacon, KnownBlob
from tests.support.servers.hostile_bodies import gzip_bomb, lists, send_body
from tests.support.servers.http_listener import app_for_every_path, listening

HEAL_SECONDS = 35
TIME = GENESIS + 12 * SLOT
NUMBERS = itertools.count(1)
"""L1 blocks and blobs that no other test has."""
INFINITY = b"\xc0" + bytes(47)

ROUTES = frozenset({"genesis", "spec", "blobs"})
FAST = {
    "rollup_node.stages.blobs.process.beacon_clock.RECHECK_SECONDS": 1.0,
    "rollup_node.stages.blobs.pending_requests.MAX_PAUSE": 1.0,
    "rollup_node.stages.blobs.pending_requests.EXPIRY_SECONDS": 2.0,
}
"""Failed requests are repeated sooner, and forgotten sooner, than in a node."""


class HostileBeacon:
    """A Beacon API.

    While `attack` is set, it answers instead, with a body for a path; `attacked` has the names of the routes that it
    answered."""

    def __init__(self) -> None:
        self.beacon = FakeBeacon([])
        self.attack: Callable[[str], bytes | None] | None = None
        self.attacks = 0
        self.attacked: set[str] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One HTTP request."""
        body = self.attack(request.path) if self.attack is not None else None
        if body is None:
            return await self.beacon.respond(request)
        self.attacks += 1
        self.attacked |= {*request.path.split("/")} & ROUTES
        return await send_body(request, body)


def new_blobs() -> list[KnownBlob]:
    """Two blobs whose commitments are right; their contents are no batches.

    The polynomial of a blob that repeats one number is that number, so that its commitment is a multiple of the
    generator, and its proof the point at infinity."""
    made = []
    for number in (next(NUMBERS), next(NUMBERS)):
        commitment = bytes((G1Point() * Scalar(number)).to_compressed_bytes())
        blob = number.to_bytes(32, "big") * (kzg.BLOB_SIZE // 32)
        made.append(KnownBlob(kzg.versioned_hash(commitment), blob, commitment, INFINITY))
    return made


def wanted(number: int, hashes: list[bytes], urgent: bool = True, at: int = TIME) -> list[Any]:
    """Return a request for all blobs of an L1 block."""
    return [number, at, [hash_.hex() for hash_ in hashes], urgent]


async def receives(stage: AttackedStage, *beacons: HostileBeacon) -> None:
    """Request blobs that the process has not had before, and waits for them."""
    number, blobs = next(NUMBERS), new_blobs()
    for beacon in beacons:
        beacon.beacon.blobs[:] = blobs
    stage.request(wanted(number, [blob.hash for blob in blobs]))
    await stage.until(lambda: stage.last("blobs") == number, f"the blobs of block {number}", HEAL_SECONDS)


def errors(stage: AttackedStage, number: int) -> list[str]:
    """Why the blobs of an L1 block are unavailable, each time the process said so."""
    return [message["error"] for message in stage.messages if message.get("unavailable") == number]


@pytest.fixture(scope="module")
def shared(module_leftovers: Leftovers) -> Iterator[SharedStage]:
    """Yield the process under attack."""
    with closing(SharedStage(module_leftovers, "blobs", lambda url: BlobsConfig(url, timeout=20.0), FAST)) as stage:
        yield stage


def attack_blobs(shared: SharedStage, scenario: Callable[[AttackedStage, HostileBeacon], Awaitable[None]]) -> None:
    """Run a scenario against the blobs process with a new endpoint."""
    beacon = HostileBeacon()
    shared.attack(beacon.handle, lambda stage: scenario(stage, beacon))


WRONG_CLOCKS = {
    "genesis": (b'{"data":{"genesis_time":"40"}}', "genesis time 40"),
    "spec": (b'{"data":{"SECONDS_PER_SLOT":"6"}}', "6000 ms a slot"),
}


@pytest.mark.fault("F19")
@pytest.mark.parametrize("wrong", WRONG_CLOCKS)
def test_a_wrong_clock_is_corrected_without_a_restart(shared: SharedStage, wrong: str) -> None:
    async def scenario(stage: AttackedStage, beacon: HostileBeacon) -> None:
        body, shown = WRONG_CLOCKS[wrong]
        beacon.attack = lambda path: body if path.endswith(wrong) else None
        number = next(NUMBERS)
        # The slot after the only one that has blobs: a clock that was right is doubted.
        stage.request(wanted(number, [bytes(32)], at=TIME + 12))
        await stage.until(lambda: any(shown in error for error in errors(stage, number)), "the wrong clock is used")
        beacon.attack = None
        await receives(stage, beacon)

    attack_blobs(shared, scenario)


async def test_a_wrong_clock_of_one_source_is_outvoted_by_the_l1_clock(leftovers: Leftovers) -> None:
    beacons = HostileBeacon(), HostileBeacon()
    beacons[0].attack = lambda path: b'{"data":{"genesis_time":"1001"}}' if path.endswith("genesis") else None
    async with listening(*(app_for_every_path(beacon.handle) for beacon in beacons)) as urls:
        config = BlobsConfig(urls[0], fallbacks=urls[1:], timeout=20.0)
        with AttackedStage(leftovers, "blobs", config) as stage, stage.within_bounds():
            await receives(stage, *beacons)
            assert "contradict each other" in stage.log


def test_missing_blobs_that_are_only_prefetched_are_logged_once_a_minute(shared: SharedStage) -> None:
    async def scenario(stage: AttackedStage, beacon: HostileBeacon) -> None:
        beacon.attack = lambda path: b'{"data":[]}' if "/blob" in path else None
        hashes = [blob.hash for blob in new_blobs()]
        stage.request(*(wanted(next(NUMBERS), hashes, False, TIME + 12 * number) for number in range(64)))
        await stage.until(lambda: beacon.attacks >= 250, "250 answers without blobs")
        assert stage.log.count("could not fetch blobs") <= 2
        beacon.attack = None
        await receives(stage, beacon)

    attack_blobs(shared, scenario)


BODIES: dict[str, Callable[[], bytes]] = {
    "60 MB of lists": lambda: lists(60_000_000),
    "30 MB of empty objects": lambda: b'{"data":[' + b"{}," * 10_000_000 + b"{}]}",
    "a gzip bomb of 120 MB": lambda: gzip_bomb(b'{"data":', 120_000_000, b"}"),
    "a deep nest": lambda: b'{"data":' + b"[" * 2_000_000,
    "126 foreign blobs": lambda: b'{"data":["0x' + b'","0x'.join([b"00" * kzg.BLOB_SIZE] * 126) + b'"]}',
    "a number of a million digits": lambda: b'{"data":{"genesis_time":' + b"9" * 900_000 + b"}}",
}


@pytest.mark.parametrize("name", BODIES)
def test_huge_answers_on_every_route(shared: SharedStage, name: str) -> None:
    async def scenario(stage: AttackedStage, beacon: HostileBeacon) -> None:
        await receives(stage, beacon)
        body = BODIES[name]()
        beacon.attack = lambda path: body
        numbers = [next(NUMBERS) for _ in range(8)]
        hashes = [bytes([1]) + number.to_bytes(31, "big") for number in numbers]
        requests = zip(numbers, hashes, strict=True)
        stage.request(*(wanted(number, [item], number == numbers[0]) for number, item in requests))
        await stage.until(lambda: beacon.attacks >= 12, "12 answers of the attack")
        await stage.until(lambda: beacon.attacked == ROUTES, "an answer on every route")
        await stage.until(lambda: errors(stage, numbers[0]), "the blobs are unavailable")
        beacon.attack = None
        await receives(stage, beacon)

    attack_blobs(shared, scenario)


async def test_sigterm_ends_the_process_while_every_call_hangs(leftovers: Leftovers) -> None:
    hostile = HostileBeacon()
    async with listening(app_for_every_path(hostile.handle)) as urls:
        with AttackedStage(leftovers, "blobs", BlobsConfig(urls[0], timeout=20.0)) as stage:
            hostile.beacon.delay = 30.0
            stage.request(wanted(1, [bytes(32)]))
            await stage.until(lambda: hostile.beacon.requested, "a call")
            assert stage.stop().code == 0, "within the bound of stop, which is half of a call's"
