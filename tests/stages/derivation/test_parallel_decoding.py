"""Channels are decoded the same by this process, one worker or several, and when workers are killed."""

import json
import random
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from rollup_node.stages.derivation.pipeline.block_frames import blob_refs, data_items
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion
from rollup_node.stages.protocol import rlp
from rollup_node.tools.batcher.channels import Compression, channel_body
from tests.conformance.kit.chain import GENESIS
from tests.conformance.kit.planning import Planned, child, plan, span
from tests.conformance.kit.span_fields import Tx
from tests.support.chains.op_sepolia import SepoliaRecording
from tests.support.processes.leftovers import Leftovers

ROOT = Path(__file__).parents[3]
MODULE = "tests.stages.derivation.decoding_node"
USER = Tx(2, (b"\x05", b"\x01", b"\x09", b"", [])).full()


class Decoded(msgspec.Struct, frozen=True):
    """What a node that only decodes writes: for each channel, under the rules of the first and of the last fork, the
    number of batches and a digest; how many workers it killed, and how many tasks went to another worker."""

    digests: list[tuple[int, str]]
    killed: int
    reissued: int


class Scenario(NamedTuple):
    """A number of workers, and the channels after which one of them is killed."""

    workers: int
    kills: tuple[int, ...] = ()


def _generated() -> list[bytes]:
    """Whole and damaged channels of singular and span batches, one of them longer than a result may be."""
    chance = random.Random(11)
    bodies = []
    for number in range(24):
        blocks: list[Planned] = []
        for _ in range(chance.randrange(1, 60)):
            blocks.append(child(blocks[-1].ref if blocks else GENESIS, (USER,) * chance.randrange(5)))
        batches = [span(blocks)] * chance.randrange(1, 4)
        batches += [child(GENESIS, (chance.randbytes(chance.randrange(9000)),)).singular for _ in range(3)]
        chance.shuffle(batches)
        body = bytearray(channel_body(batches, list(Compression)[number % 2]))
        if number % 3 == 1:
            body[chance.randrange(2, len(body))] ^= 1 << chance.randrange(8)
        elif number % 3 == 2:
            del body[chance.randrange(2, len(body)) :]
        bodies.append(bytes(body))
    (tiny,) = plan(GENESIS, 1, ())
    return [*bodies, zlib.compress(rlp.encode(tiny.singular) * 10_500), b"", b"\x02"]


def _real(shared_data: Path, recording: SepoliaRecording) -> list[bytes]:
    """Channel bodies of other implementations' tests, and the recorded ones of OP Sepolia."""
    names = ["kona_batch", *(f"hildr_batches_{number}" for number in (0, 1, 2, 3, 4, "singular"))]
    bodies = [(shared_data / "channels" / f"{name}.bin").read_bytes() for name in names]
    batcher, rules = recording.config.genesis.system_config.batcher, recording.config.schedule().l1(1724784000)
    ingestion = FrameIngestion(rules, PipelineEvents())
    for block in recording.l1_blocks.values():
        ingestion.open(block, batcher, rules)
        contents = recording.contents(blob_refs(data_items(block, batcher, rules)))
        ingestion.source.add_blobs(block.header.hash, contents)
        while isinstance(channel := ingestion.next_channel(block.ref, rules), ReadyChannel):
            bodies.append(channel.body)
    return bodies


def _run(leftovers: Leftovers, bodies: list[bytes], scenario: Scenario) -> Decoded:
    folder = leftovers.folder / "bodies"
    folder.mkdir(exist_ok=True)
    for number, body in enumerate(bodies):
        (folder / f"{number:04}").write_bytes(body)
    kills = ",".join(map(str, scenario.kills))
    words = [str(folder), str(leftovers.folder / "run"), str(scenario.workers), kills]
    done = subprocess.run(
        [sys.executable, "-m", MODULE, *words],
        cwd=leftovers.folder,
        env=leftovers.environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return msgspec.convert(json.loads(done.stdout), Decoded)


GENERATED = 27
SCENARIOS = (Scenario(2), Scenario(1, (2, 60)), Scenario(3, (0, 7, 20, 70)))
"""Without kills; the first kills are at generated channels, the last at real ones."""


@pytest.fixture(scope="module")
def decoded(module_leftovers: Leftovers, request: pytest.FixtureRequest) -> dict[Scenario, Decoded]:
    """Return the generated channels and the real ones, if they are there, decoded by this process and in each
    scenario."""
    bodies = _generated()
    with suppress(pytest.skip.Exception):
        bodies += _real(request.getfixturevalue("shared_data"), request.getfixturevalue("recording"))
    result = {scenario: _run(module_leftovers, bodies, scenario) for scenario in (Scenario(0), *SCENARIOS)}
    assert all(len(item.digests) == 2 * len(bodies) for item in result.values())
    return result


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_workers_are_killed_at_work(decoded: dict[Scenario, Decoded], scenario: Scenario) -> None:
    channels = len(decoded[scenario].digests)
    assert decoded[scenario].killed == sum(kill < channels for kill in scenario.kills)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_generated_channels(decoded: dict[Scenario, Decoded], scenario: Scenario) -> None:
    alone, result = (decoded[item].digests[: 2 * GENERATED] for item in (Scenario(0), scenario))
    counts = [count for count, _ in alone]
    assert counts[-6:] == [10_500, 10_500, 0, 0, 0, 0]
    early, late = alone[0:2]
    assert early != late, "other rules, other results"
    assert sum(counts) > 21_100
    assert result == alone


@pytest.mark.usefixtures("shared_data")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_real_channels(decoded: dict[Scenario, Decoded], scenario: Scenario) -> None:
    alone, result = (decoded[item].digests[2 * GENERATED :] for item in (Scenario(0), scenario))
    late = [count for count, _ in alone[1::2]]
    assert late[:7] == [1, 1, 1, 1, 1, 1, 6]
    assert sum(late[7:]) == 26
    assert result == alone
