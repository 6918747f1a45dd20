"""Channels come out the same whoever decodes them: this process, one worker or several, and when workers are killed."""

import json
import random
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

from rollup_node.stages.protocol import rlp
from rollup_node.tools.batcher.channels import Compression, channel_body

PROGRAM = Path(__file__).parent / "decoding_node.py"


def _generated(made: Any) -> list[bytes]:
    """Whole and damaged channels of singular and span batches, one of them longer than a result may be."""
    chance = random.Random(11)
    world = made.World(made.forks_to("holocene"))
    user = made.rlp_transaction(901)
    bodies = []
    for number in range(24):
        lists = [(user,) * chance.randrange(5) for _ in range(chance.randrange(1, 60))]
        batches = [world.span(1, *[0] * len(lists), transactions=lists)] * chance.randrange(1, 4)
        batches += [world.singular(1, 0, chance.randbytes(chance.randrange(9000))) for _ in range(3)]
        chance.shuffle(batches)
        body = bytearray(channel_body(batches, list(Compression)[number % 2]))
        if number % 3 == 1:
            body[chance.randrange(2, len(body))] ^= 1 << chance.randrange(8)
        elif number % 3 == 2:
            del body[chance.randrange(2, len(body)) :]
        bodies.append(bytes(body))
    tiny = world.singular(1, 0)
    return [*bodies, zlib.compress(rlp.encode(tiny) * 10_500), b"", b"\x02"]


def _real(shared_data: Path, recording: Any) -> list[bytes]:
    """Channel bodies of other implementations' tests, and the recorded ones of OP Sepolia."""
    from rollup_node.stages.derivation.pipeline.block_frames import blob_refs, data_items
    from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
    from rollup_node.stages.derivation.pipeline.events import PipelineEvents
    from rollup_node.stages.derivation.pipeline.ingestion import FrameIngestion

    names = ["kona_batch", *(f"hildr_batches_{number}" for number in (0, 1, 2, 3, 4, "singular"))]
    bodies = [(shared_data / "channels" / f"{name}.bin").read_bytes() for name in names]
    batcher, rules = recording.config.genesis.system_config.batcher, recording.config.schedule().l1(1724784000)
    intake = FrameIngestion(rules, PipelineEvents())
    for block in recording.l1_blocks.values():
        intake.open(block, batcher, rules)
        intake.source.add_blobs(block.header.hash, recording.contents(blob_refs(data_items(block, batcher, rules))))
        while isinstance(channel := intake.next_channel(block.ref, rules), ReadyChannel):
            bodies.append(channel.body)
    return bodies


def _run(leftovers: Any, bodies: list[bytes], workers: int, *kills: int) -> dict[str, Any]:
    folder = leftovers.folder / "bodies"
    folder.mkdir(exist_ok=True)
    for number, body in enumerate(bodies):
        (folder / f"{number:04}").write_bytes(body)
    words = [str(folder), str(leftovers.folder / "run"), str(workers), ",".join(map(str, kills))]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *words],
        cwd=leftovers.folder,
        env=leftovers.environment(),
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _compare(leftovers: Any, bodies: list[bytes]) -> dict[str, Any]:
    """The results without workers, after all others were found equal to them."""
    alone = _run(leftovers, bodies, 0)
    assert len(alone["digests"]) == 2 * len(bodies)
    for workers, kills in ((1, ()), (3, ()), (2, (0, 7, 20)), (1, (2,))):
        found = _run(leftovers, bodies, workers, *kills)
        assert found["digests"] == alone["digests"], f"{workers} workers"
        assert found["killed"] == len(kills)
        assert found["reissued"] or not kills, "workers are killed at work"
    return alone


def test_generated_channels(leftovers: Any, made: Any) -> None:
    alone = _compare(leftovers, _generated(made))
    counts = [count for count, _ in alone["digests"]]
    assert counts[-6:] == [10_500, 10_500, 0, 0, 0, 0]
    early, late = alone["digests"][0:2]
    assert early != late, "other rules, other results"
    assert sum(counts) > 21_100


def test_real_channels(leftovers: Any, shared_data: Path, recording: Any) -> None:
    bodies = _real(shared_data, recording)
    alone = _compare(leftovers, bodies)
    late = [count for count, _ in alone["digests"][1::2]]
    assert late[:7] == [1, 1, 1, 1, 1, 1, 6]
    assert sum(late[7:]) == 26
    assert len(bodies) == len(late)
