"""Measures what derivation takes for data that it drops: frames by each stage that drops them, and batches."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.pipeline.outputs import NeedDecoded, NeedL1Block
from rollup_node.stages.derivation.process.derivation_log import DerivationLog
from rollup_node.stages.derivation.process.prefetch import Prefetcher
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.io.log.logger import Level, Logger, configure
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.types import InboxTransaction, L1Block
from rollup_node.tools.batcher.channels import batcher_data, frames
from rollup_node.tools.bench import synthetic_chain
from rollup_node.tools.bench.measure import Figure, show
from rollup_node.tools.fuzz import bombs

DROP_US = 15.0
MICRO = 1e6
ITEM = 5_000
"""Frames of a data item."""
CHANNEL, OTHER = b"c" * 16, b"o" * 16

Items = list[bytes]


def empty_frame(channel: bytes, number: int, last: bool = False) -> bytes:
    """Return a frame without data."""
    return channel + number.to_bytes(2, "big") + bytes(4) + bytes((last,))


def items(pieces: list[bytes]) -> Items:
    """Return data items of these frames."""
    return [b"\0" + b"".join(pieces[at : at + ITEM]) for at in range(0, len(pieces), ITEM)]


def unknown_channel(count: int) -> Items:
    """Frames of a channel that has not started."""
    return items([empty_frame(CHANNEL, at % 60_000 + 1) for at in range(count)])


def other_channel(count: int) -> Items:
    """Frames of a channel while another one is being assembled."""
    return [b"\0" + empty_frame(OTHER, 0), *unknown_channel(count)]


def repeated_frames(count: int) -> Items:
    """Return the same first frame again and again."""
    return items([empty_frame(CHANNEL, 0)] * count)


def closed_channel(count: int) -> Items:
    """Frames of a channel after its closing frame."""
    closing = b"\0" + empty_frame(CHANNEL, 0) + empty_frame(CHANNEL, 2, True)
    return [closing, *items([empty_frame(CHANNEL, 3)] * count)]


def abandoned_channels(count: int) -> Items:
    """First frames of one channel after another, none of which is closed."""
    return items([empty_frame(b"abandon" + number.to_bytes(9, "big"), 0) for number in range(count)])


def malformed_items(count: int) -> Items:
    """Return data items of a version that does not exist."""
    return [b"\1"] * count


def past_batches(count: int) -> Items:
    """Return a channel of batches of blocks that are derived long since."""
    return _channel(bombs.small_batches, count, 74)


def refused_batches(count: int) -> Items:
    """Return a channel of span batches whose transactions cannot be restored."""
    return _channel(bombs.refused_batches, count, 143)


def _channel(stream: Callable[[int], bombs.Stream], count: int, size: int) -> Items:
    return [batcher_data([piece]) for piece in frames(CHANNEL, bombs.brotli(stream(count * size)), 100_000)]


class Flood(NamedTuple):
    """What is posted; the chain has the forks before the one named, or all."""

    make: Callable[[int], Items]
    before: str | None = None

    @property
    def name(self) -> str:
        """What the figure is called."""
        return self.make.__name__.replace("_", " ") + (f" before {self.before.capitalize()}" if self.before else "")


FLOODS = (
    Flood(unknown_channel),
    Flood(other_channel),
    Flood(repeated_frames),
    Flood(abandoned_channels),
    Flood(malformed_items),
    Flood(past_batches),
    Flood(refused_batches),
    Flood(repeated_frames, "holocene"),
    Flood(closed_channel, "holocene"),
    Flood(past_batches, "holocene"),
)


class FloodRun:
    """Derives from an L1 block with a flood, as the process does: parsed ahead, stepped, logged and counted."""

    def __init__(self, flood: Flood, count: int) -> None:
        self._config = synthetic_chain.config(flood.before)
        inbox = tuple(InboxTransaction(2, synthetic_chain.BATCHER, item, ()) for item in flood.make(count))
        first = synthetic_chain.L1_GENESIS
        self._blocks = {first: _block(first, ()), first + 1: _block(first + 1, inbox)}
        self._decoded: dict[bytes, tasks.DecodedChannel] = {}
        self.drops: Counter[str] = Counter()
        self.seconds()

    def seconds(self) -> float:
        """CPU seconds of one derivation; decoding channels is done before."""
        self.drops.clear()
        safe, system = synthetic_chain.l2_ref(0), self._config.genesis.system_config
        deriver, log = Deriver(self._config, L1_CHAINS[1]), DerivationLog(Meter("derivation"), Logger("bench"))
        prefetcher = Prefetcher(self._config)
        deriver.reset(safe.l1_origin, system)
        kinds: list[Dropped] = []
        started = time.process_time()
        prefetcher.start_at(self._blocks[safe.l1_origin.number], system)
        prefetcher.add_block(self._blocks[safe.l1_origin.number + 1])
        for _ in prefetcher.complete_channels(safe.l1_origin.number):
            pass
        while True:
            output = deriver.step(safe, system)
            if isinstance(output, Dropped):
                log.dropped(output)
                kinds.append(output)
            elif isinstance(output, NeedDecoded):
                deriver.add_decoded(output.key, self._decode(output))
            elif isinstance(output, NeedL1Block) and output.number in self._blocks:
                block = self._blocks[output.number]
                deriver.add_l1_block(block, prefetcher.take_frames(block.ref))
                log.at_block(block.ref)
            elif isinstance(output, NeedL1Block):
                break
            else:
                raise RuntimeError(f"a flood is derived from: {output}")
        seconds = time.process_time() - started
        self.drops.update(drop.label for drop in kinds)
        return seconds

    def _decode(self, need: NeedDecoded) -> tasks.DecodedChannel:
        if need.key not in self._decoded:
            self._decoded[need.key] = tasks.run(need.task)
        return self._decoded[need.key]


def _block(number: int, inbox: tuple[InboxTransaction, ...]) -> L1Block:
    return L1Block(synthetic_chain.l1_header(number), inbox, (), ())


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drops", type=int, default=50_000, help="drops of a flood")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    configure("bench", Level.WARN, lambda _: None)
    runs = [FloodRun(flood, args.drops) for flood in FLOODS]
    times = [[run.seconds() / run.drops.total() * MICRO for run in runs] for _ in range(args.runs)]
    figures = [
        Figure(flood.name, "us", item, DROP_US) for flood, item in zip(FLOODS, zip(*times, strict=True), strict=True)
    ]
    return show(f"derivation, {args.drops} drops of a kind", figures)


if __name__ == "__main__":
    sys.exit(main())
