"""Measures derivation from channel bodies to payload attributes as engine JSON.

It is compared with the native calls of the same work. Measured too: the rules without decoding, memory over a long run,
and the speed-up by a second worker."""

import argparse
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import brotli
import msgspec

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.pipeline.outputs import NeedDecoded, NeedL1Block
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.attributes import prepare_attributes, system_config_after, with_transactions
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.engine_json import encode_attributes
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.tools.bench import synthetic_chain
from rollup_node.tools.bench.decode_job import worker_seconds
from rollup_node.tools.bench.measure import Figure, repeat, show

RATIO, RULES_US, SCALING, GROWTH_MIB = 2.2, 25.0, 1.5, 20.0
KECCAKS_PER_BLOCK = 2
MICRO = 1e6


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when a bound is exceeded or a floor missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("channels", type=Path, help="the folder of recorded channels (channels of the shared data)")
    parser.add_argument("--blocks", type=int, default=1200)
    parser.add_argument("--long", type=int, default=10_000, help="blocks of the memory run")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    pool = synthetic_chain.real_transactions(args.channels)
    chain = synthetic_chain.make(args.blocks, pool)
    run = DerivationRun(chain)
    full: list[float] = []
    native: list[float] = []
    for _ in range(args.runs + 1):
        native.append(native_seconds(chain, run.attributes) / chain.blocks * MICRO)
        full.append(run.seconds(decoding=True) / chain.blocks * MICRO)
    sequential = repeat(args.runs, 1, lambda: run.seconds(decoding=False) / chain.blocks * MICRO)
    building = repeat(args.runs, 1, lambda: building_seconds(chain, run.attributes) / chain.blocks * MICRO)
    growth = memory_growth(synthetic_chain.make(args.long, pool))
    bodies = chain.bodies * 4
    pairs = [(worker_seconds(bodies, 1), worker_seconds(bodies, 2)) for _ in range(args.runs)]
    gains = tuple(one.seconds / two.seconds for one, two in pairs)
    scaling = Figure("one worker's time against two's", "x", gains, floor=SCALING)
    ratios = tuple(ours / alone for ours, alone in zip(full[1:], native[1:], strict=True))
    rules = tuple(whole - part for whole, part in zip(sequential, building, strict=True))
    return show(
        f"derivation, {chain.blocks} blocks of {synthetic_chain.TRANSACTIONS} real transactions",
        [
            Figure("native calls alone", "us", tuple(native[1:])),
            Figure("channel body to attributes JSON", "us", tuple(full[1:])),
            Figure("ratio", "x", ratios, RATIO),
            Figure("rules and attributes, channels decoded before", "us", sequential),
            Figure("of it the rules alone", "us", rules, RULES_US),
            Figure(f"growth of memory, after a fifth of {args.long} blocks", "MiB", (growth,), GROWTH_MIB),
            Figure("one worker, a channel", "ms", tuple(one.seconds / len(bodies) * 1e3 for one, _ in pairs)),
            Figure("of it the dispatcher", "ms", tuple(one.dispatcher / len(bodies) * 1e3 for one, _ in pairs)),
            scaling,
        ],
    )


class DerivationRun:
    """Derives a chain with all inputs of the deriver prepared, so that a run measures only the deriver."""

    def __init__(self, chain: synthetic_chain.SyntheticChain) -> None:
        self._chain = chain
        self._config = synthetic_chain.config()
        self._blocks = {number: chain.l1_block(number) for number in range(chain.first_l1, chain.last_l1 + 1)}
        self._refs = [synthetic_chain.l2_ref(number) for number in range(chain.blocks + 1)]
        self._systems = [self._config.genesis.system_config]
        self._decoded: dict[bytes, tasks.DecodedChannel] = {}
        self.attributes: list[PayloadAttributes] = []
        for _ in self._derive(decoding=True):
            pass

    def seconds(self, decoding: bool) -> float:
        """CPU seconds of one derivation: with `decoding` from L1 blocks to engine JSON, else its sequential part."""
        started = time.process_time()
        for item in self._derive(decoding):
            if decoding:
                encode_attributes(item)
        return time.process_time() - started

    def _derive(self, decoding: bool) -> Iterator[PayloadAttributes]:
        deriver = Deriver(self._config, L1_CHAINS[1])
        safe, system = self._refs[0], self._systems[0]
        deriver.reset(safe.l1_origin, system)
        for number in range(1, self._chain.blocks + 1):
            result = self._attributes(deriver, self._refs[number - 1], self._systems[number - 1], decoding)
            if len(self._systems) == number:
                self._systems.append(system_config_after(self._config, result, number))
                self.attributes.append(result)
            yield result

    def _attributes(
        self, deriver: Deriver, safe: L2BlockRef, system: SystemConfig, decoding: bool
    ) -> PayloadAttributes:
        while True:
            output = deriver.step(safe, system)
            if isinstance(output, AttributesReady):
                return output.attributes
            if isinstance(output, NeedDecoded):
                if decoding:
                    self._decoded[output.key] = tasks.run(output.task)
                deriver.add_decoded(output.key, self._decoded[output.key])
            elif isinstance(output, NeedL1Block):
                deriver.add_l1_block(self._blocks[output.number])
            else:
                raise RuntimeError(f"the synthetic chain does not derive: {output}")


def native_seconds(chain: synthetic_chain.SyntheticChain, attributes: Sequence[PayloadAttributes]) -> float:
    """CPU seconds of decompressing, hashing, hex encoding and JSON encoding the same data."""
    started = time.process_time()
    for body in chain.bodies:
        brotli.decompress(body[1:])
    for attribute in attributes:
        for _ in range(KECCAKS_PER_BLOCK):
            keccak256(attribute.transactions[0])
        msgspec.json.encode({"transactions": [raw.hex() for raw in attribute.transactions]})
    return time.process_time() - started


def building_seconds(chain: synthetic_chain.SyntheticChain, attributes: Sequence[PayloadAttributes]) -> float:
    """CPU seconds of building the attributes alone."""
    config = synthetic_chain.config()
    system = config.genesis.system_config
    refs = [synthetic_chain.l2_ref(number) for number in range(chain.blocks + 1)]
    headers = {number: synthetic_chain.l1_header(number) for number in range(chain.first_l1, chain.last_l1 + 1)}
    started = time.process_time()
    for number, item in enumerate(attributes, start=1):
        parent, epoch = refs[number - 1], headers[refs[number].l1_origin.number]
        prepared = prepare_attributes(config, L1_CHAINS[1], parent, system, epoch, (), ())
        with_transactions(prepared.attributes, item.transactions[1:])
    return time.process_time() - started


def memory_growth(chain: synthetic_chain.SyntheticChain) -> float:
    """Growth of the peak resident memory after the first fifth of a long run, in MiB."""
    config = synthetic_chain.config()
    deriver = Deriver(config, L1_CHAINS[1])
    safe, system = synthetic_chain.l2_ref(0), config.genesis.system_config
    deriver.reset(safe.l1_origin, system)
    early = late = 0
    while safe.number < chain.blocks:
        output = deriver.step(safe, system)
        if isinstance(output, AttributesReady):
            system = system_config_after(config, output.attributes, safe.number + 1)
            safe = synthetic_chain.l2_ref(safe.number + 1)
            if safe.number > chain.blocks // 5:
                late = max(late, resident())
            else:
                early = max(early, resident())
        elif isinstance(output, NeedDecoded):
            deriver.add_decoded(output.key, tasks.run(output.task))
        elif isinstance(output, NeedL1Block):
            deriver.add_l1_block(chain.l1_block(output.number))
    return (late - early) / 2**20


def resident() -> int:
    """Return the resident set size of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    sys.exit(main())
