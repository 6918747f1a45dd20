"""From channel body to payload attributes in engine JSON, against the native calls of the same work alone; the rules
without decoding; memory over a long run; and what a second worker brings."""

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import brotlicffi
import msgspec

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.deriver import Deriver
from rollup_node.stages.derivation.needs import Attributes, NeedDecoded, NeedL1Block
from rollup_node.stages.derivation.span_batch import SpanRules
from rollup_node.stages.messages import PipelineStart
from rollup_node.stages.protocol.attributes import config_after
from rollup_node.stages.protocol.engine_json import encode_attributes
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.tools.bench import chain as made
from rollup_node.tools.bench.decode_job import worker_seconds
from rollup_node.tools.bench.measure import Figure, repeat, show

RATIO, RULES_US, SCALING, GROWTH_MIB = 2.2, 25.0, 1.5, 20.0
KECCAKS_A_BLOCK = 2
MICRO = 1e6


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("channels", type=Path, help="the folder of recorded channels (channels of the shared data)")
    parser.add_argument("--blocks", type=int, default=1200)
    parser.add_argument("--long", type=int, default=10_000, help="blocks of the memory run")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(sys.argv[1:] if argv is None else argv)
    pool = made.real_transactions(given.channels)
    chain = made.make(given.blocks, pool)
    attributes = derive(chain, decoded(chain), keep=True)[1]
    full: list[float] = []
    native: list[float] = []
    for _ in range(given.runs + 1):
        native.append(native_seconds(chain, attributes) / chain.blocks * MICRO)
        full.append(full_seconds(chain) / chain.blocks * MICRO)
    cache = decoded(chain)
    sequential = repeat(given.runs, 1, lambda: derive(chain, cache, keep=False)[0] / chain.blocks * MICRO)
    growth = memory_growth(made.make(given.long, pool))
    one, two = (worker_seconds(chain.bodies * 4, workers) for workers in (1, 2))
    ratios = tuple(ours / alone for ours, alone in zip(full[1:], native[1:], strict=True))
    return show(
        f"derivation, {chain.blocks} blocks of {made.TRANSACTIONS} real transactions",
        [
            Figure("native calls alone", "us", tuple(native[1:])),
            Figure("channel body to attributes JSON", "us", tuple(full[1:])),
            Figure("ratio", "x", ratios, RATIO),
            Figure("rules and attributes, channels decoded before", "us", sequential),
            Figure("of it the rules alone", "us", (rules_only(chain, cache, attributes, sequential),), RULES_US),
            Figure(f"growth of memory, blocks 2,000 to {given.long}", "MiB", (growth,), GROWTH_MIB),
            Figure("one worker's time against two's", "x", (one / two,)),
        ],
    ) | (0 if one / two >= SCALING else 1)


def rules_of(config: object = None) -> SpanRules:
    """How the made-up chain's spans are read."""
    return SpanRules(10, made.GENESIS_TIME, made.BLOCK_TIME)


def decoded(chain: made.MadeChain) -> dict[bytes, tasks.DecodedChannel]:
    """All channels, decoded, by body."""
    return {body: tasks.run(tasks.DecodeChannel(body, made.MAX_BYTES, True, rules_of())) for body in chain.bodies}


def derive(
    chain: made.MadeChain, cache: dict[bytes, tasks.DecodedChannel] | None, keep: bool
) -> tuple[float, list[PayloadAttributes]]:
    """Seconds to derive the whole chain, and its attributes if they are kept. Without a cache channels are decoded
    on the way and attributes are encoded as JSON."""
    config = made.config()
    deriver = Deriver(config, L1_CHAINS[1])
    safe, system = made.l2_ref(0), config.genesis.system_config
    deriver.reset(PipelineStart(1, safe, system, safe.l1_origin, system))
    blocks = [chain.l1_block(number) for number in range(chain.first_l1, chain.last_l1 + 1)]
    refs = [made.l2_ref(number) for number in range(chain.blocks + 1)]
    kept: list[PayloadAttributes] = []
    spent, started = 0.0, time.process_time()
    while safe.number < chain.blocks:
        output = deriver.step(safe, system)
        if isinstance(output, Attributes):
            if cache is None:
                encode_attributes(output.attributes)
            if keep:
                kept.append(output.attributes)
            pause = time.process_time()
            system = config_after(config, output.attributes, safe.number + 1)
            safe = refs[safe.number + 1]
            spent += time.process_time() - pause
        elif isinstance(output, NeedDecoded):
            deriver.add_decoded(output.key, tasks.run(output.task) if cache is None else cache[output.task.body])
        elif isinstance(output, NeedL1Block):
            deriver.add_l1_block(blocks[output.number - chain.first_l1])
        else:
            raise RuntimeError(f"the made-up chain does not derive: {output}")
    return time.process_time() - started - spent, kept


def full_seconds(chain: made.MadeChain) -> float:
    """Everything between the L1 blocks and the engine's JSON."""
    return derive(chain, None, keep=False)[0]


def native_seconds(chain: made.MadeChain, attributes: Sequence[PayloadAttributes]) -> float:
    """Decompression, hashing, hexadecimal and JSON of the same data."""
    started = time.process_time()
    for body in chain.bodies:
        brotlicffi.decompress(body[1:])
    for each in attributes:
        for _ in range(KECCAKS_A_BLOCK):
            keccak256(each.transactions[0])
        msgspec.json.encode({"transactions": [raw.hex() for raw in each.transactions]})
    return time.process_time() - started


def rules_only(
    chain: made.MadeChain,
    cache: dict[bytes, tasks.DecodedChannel],
    attributes: Sequence[PayloadAttributes],
    sequential: Sequence[float],
) -> float:
    """The sequential part less the building of attributes, in microseconds a block."""
    from rollup_node.stages.protocol.attributes import prepare_attributes, with_transactions

    config = made.config()
    system = config.genesis.system_config
    refs = [made.l2_ref(number) for number in range(chain.blocks + 1)]
    headers = {number: made.l1_header(number) for number in range(chain.first_l1, chain.last_l1 + 1)}
    started = time.process_time()
    for number, each in enumerate(attributes, start=1):
        parent, epoch = refs[number - 1], headers[refs[number].l1_origin.number]
        prepared = prepare_attributes(config, L1_CHAINS[1], parent, system, epoch, (), ())
        with_transactions(prepared.attributes, each.transactions[1:])
    building = (time.process_time() - started) / chain.blocks * MICRO
    return sorted(sequential)[len(sequential) // 2] - building


def memory_growth(chain: made.MadeChain) -> float:
    """How much the peak memory rises after the first 2,000 blocks of a long run, in MiB."""
    config = made.config()
    deriver = Deriver(config, L1_CHAINS[1])
    safe, system = made.l2_ref(0), config.genesis.system_config
    deriver.reset(PipelineStart(1, safe, system, safe.l1_origin, system))
    settled = 0
    while safe.number < chain.blocks:
        output = deriver.step(safe, system)
        if isinstance(output, Attributes):
            system = config_after(config, output.attributes, safe.number + 1)
            safe = made.l2_ref(safe.number + 1)
            if safe.number == min(2_000, chain.blocks // 2):
                settled = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        elif isinstance(output, NeedDecoded):
            deriver.add_decoded(output.key, tasks.run(output.task))
        elif isinstance(output, NeedL1Block):
            deriver.add_l1_block(chain.l1_block(output.number))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - settled) / 1024


if __name__ == "__main__":
    sys.exit(main())
