"""Chains with messages on one L1 that may change, and a judge that reads all of their blocks for each round.

The content of a block follows from a seed and, for one L1 block of four, from the L1 block with which it becomes safe.
So after a change of L1 some chains have the same blocks and others have not. A denied block is replaced by one without
logs. A chain knows L1 up to its last `follow`, and denied blocks up to its last restart."""

import functools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.rounds import NO_L1_BLOCK, ChainBlock, L1Hashes, WaitReason
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import BlockId, BlockRef, Hash
from tests.support.interop.values import Claim, block, logs_of

Denied = frozenset[tuple[int, int, Hash]]
"""Chain, number and hash of denied blocks."""
Logs = tuple[bytes | Claim, ...]
COMMON = b""
L1_STEP = 3
"""Seconds of L2 in one L1 block."""


class Block(NamedTuple):
    """A block as it is derived: what its logs say, and its L1 block."""

    ref: BlockRef
    logs: Logs
    l1: BlockId


def answer(blocks: Sequence[Block] | None) -> ChainBlock | WaitReason:
    """Return what a chain with these blocks says about a round."""
    if not blocks:
        return WaitReason.NOT_READY
    last = blocks[-1]
    return ChainBlock(logs_of(last.ref, last.logs), b"\x01" * 32, b"\x02" * 32, last.l1)


class World:
    """`l1` are the hashes of L1's chain by number; `seen` is what each chain knows of it."""

    def __init__(self, config: InteropConfig, seed: int) -> None:
        self.config, self._seed = config, seed
        self.l1: list[Hash] = [keccak256(b"l1 %d" % seed)]
        self.seen: dict[int, list[Hash]] = {chain_id: list(self.l1) for chain_id in config.chains}
        self.denied: dict[int, Denied] = {chain_id: frozenset() for chain_id in config.chains}
        self._branch = 0
        self._known: dict[tuple[int, int, bytes], Logs] = {}
        self._block = functools.cache(self._new_block)

    def grow(self, blocks: int = 1, drop: int = 0) -> None:
        """Remove the last L1 blocks, but never the first, and add new ones."""
        del self.l1[max(1, len(self.l1) - drop) :]
        for _ in range(blocks):
            self._branch += drop > 0
            self.l1.append(keccak256(self.l1[-1] + b"%d" % self._branch))

    def follow(self, chain_id: int) -> None:
        """Let a chain read L1."""
        self.seen[chain_id] = list(self.l1)

    def hashes(self, numbers: Iterable[int]) -> L1Hashes:
        """Return the hashes of L1's chain as it is now."""
        return {number: self.l1[number] if number < len(self.l1) else None for number in numbers}

    def derived(self, chain_id: int, timestamp: int) -> list[Block] | None:
        """Return the blocks that a chain has up to a time, None if it does not have the last one."""
        return self.derive(chain_id, timestamp, self.seen[chain_id], self.denied[chain_id])

    def derive(self, chain_id: int, timestamp: int, l1: Sequence[Hash], denied: Denied) -> list[Block] | None:
        """Return the blocks of a chain up to a time, None if the last one is not derived yet."""
        last = self.config.heights_at(timestamp)[chain_id]
        if self.source(chain_id, last) >= len(l1):
            return None
        result: list[Block] = []
        parent = bytes(32)
        for number in range(last + 1):
            place = chain_id, number, l1[self.source(chain_id, number)], parent
            block = self._block(*place)
            if (chain_id, number, block.ref.hash) in denied:
                block = self._block(*place, is_denied=True)
            result.append(block)
            parent = block.ref.hash
        return result

    def _new_block(self, chain_id: int, number: int, source: Hash, parent: Hash, is_denied: bool = False) -> Block:
        """Return a block, of deposits alone where it is denied."""
        logs = () if is_denied else self.content(chain_id, number, source if source[0] % 4 == 0 else COMMON)
        time = self.config.chains[chain_id].timestamp_of(number)
        hash_ = self.seal(number, time, parent, None if is_denied else logs)
        origin = BlockId(self.source(chain_id, number), source) if number else NO_L1_BLOCK
        return Block(BlockRef(hash_, number, parent, time), logs, origin)

    def seal(self, number: int, time: int, parent: Hash, logs: Logs | None) -> Hash:
        """Return the hash of a block; its logs are None for one of deposits alone."""
        return keccak256(parent + (b"deposits of %d" % number if logs is None else repr(logs).encode()))

    def source(self, chain_id: int, number: int) -> int:
        """Return the number of the L1 block with which a block becomes safe."""
        chain = self.config.chains[chain_id]
        return 1 + (chain.timestamp_of(number) - chain.genesis.l2_time) // L1_STEP + chain_id % 2

    def content(self, chain_id: int, number: int, variant: bytes) -> Logs:
        """Return the logs of a block, by what its L1 block makes of it."""
        key = chain_id, number, variant
        if key not in self._known:
            time = self.config.chains[chain_id].timestamp_of(number)
            chance, is_plain = self._kinds(chain_id, number, variant)
            self._known[key] = tuple(
                _payload(chain_id, number, index, variant) if plain else self._claim(chance, time)
                for index, plain in enumerate(is_plain)
            )
        return self._known[key]

    def _kinds(self, chain_id: int, number: int, variant: bytes) -> tuple[random.Random, list[bool]]:
        """Return which logs of a block are not executing messages."""
        chance = random.Random(f"{self._seed} {chain_id} {number} {variant.hex()}")
        return chance, [chance.random() < 0.6 for _ in range(chance.randrange(5) if number else 0)]

    def _claim(self, chance: random.Random, time: int) -> Claim:
        """Return a message of a recent second, often of the same one; once in a while it is not as it says.

        It is of the content that most L1 blocks lead to."""
        for _ in range(20):
            source_id = chance.choice(list(self.config.chains))
            at = time - chance.choice((0, 0, 0, 1, 2, 3, self.config.expiry_window, self.config.expiry_window + 1))
            number = self.config.heights_at(at)[source_id]
            is_plain = self._kinds(source_id, number, COMMON)[1] if number > 0 else []
            if any(is_plain):
                break
        else:
            return Claim(source_id, 1, 0, time, b"nothing")
        index = chance.choice([place for place, plain in enumerate(is_plain) if plain])
        at = self.config.chains[source_id].timestamp_of(number)
        claim = Claim(source_id, number, index, at, _payload(source_id, number, index, COMMON))
        changes = {
            0: {"log_index": index + 1},
            1: {"number": number + 1},
            2: {"timestamp": at - 1},
            3: {"timestamp": time + 1},
            4: {"chain_id": 99},
            5: {"payload": b"other"},
            6: {"origin": b"\x0b" * 20},
        }
        return claim._replace(**changes.get(chance.randrange(60), {}))  # type: ignore[arg-type]


def _payload(chain_id: int, number: int, index: int, variant: bytes) -> bytes:
    return b"%d %d %d " % (chain_id, number, index) + variant[:4]


@functools.cache
def _hashes(logs: Logs) -> list[Hash]:
    result = logs_of(block(0, 0), logs)
    return [result.log_hash(index) or b"" for index in range(len(logs))]


def judge(config: InteropConfig, timestamp: int, chains: Mapping[int, Sequence[Block]], first: int) -> set[int]:
    """Return the chains whose last block is invalid, by all logs of all blocks up to the last ones.

    A block of before the first round, at the time `first`, is not judged."""
    known = {
        (chain_id, block.ref.number, index): (block.ref.timestamp, hashed)
        for chain_id, blocks in chains.items()
        for block in blocks
        for index, hashed in enumerate(_hashes(block.logs))
    }
    invalid = set()
    for chain_id, blocks in chains.items():
        time = blocks[-1].ref.timestamp
        if time < first > config.activation:
            continue
        for claim in blocks[-1].logs:
            if isinstance(claim, bytes):
                continue
            begins = {id_: config.activation + chain.block_time for id_, chain in config.chains.items()}
            is_valid = (
                claim.chain_id in config.chains
                and time >= begins[chain_id]
                and begins[claim.chain_id] <= claim.timestamp <= time <= claim.timestamp + config.expiry_window
                and known.get((claim.chain_id, claim.number, claim.log_index)) == (claim.timestamp, claim.log_hash)
            )
            if not is_valid:
                invalid.add(chain_id)
    return invalid | _in_cycles(timestamp, chains)


def _in_cycles(timestamp: int, chains: Mapping[int, Sequence[Block]]) -> set[int]:
    """Return the chains with a message that can be reached from one that can be reached from itself."""
    messages = {
        (chain_id, index): (claim.chain_id, claim.log_index)
        for chain_id, blocks in chains.items()
        if blocks[-1].ref.timestamp == timestamp
        for index, claim in enumerate(blocks[-1].logs)
        if isinstance(claim, Claim) and claim.timestamp == timestamp
    }
    ahead: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for node, target in messages.items():
        before = [other for other in messages if other[0] == node[0] and other[1] < node[1]]
        named = [other for other in messages if other[0] == target[0] and other[1] <= target[1]]
        ahead[node] = {max(nodes) for nodes in (before, named) if nodes}

    def reach(start: tuple[int, int]) -> set[tuple[int, int]]:
        seen: set[tuple[int, int]] = set()
        left = list(ahead[start])
        while left:
            node = left.pop()
            if node not in seen:
                seen.add(node)
                left += ahead[node]
        return seen

    reached = {node: reach(node) for node in messages}
    return {other[0] for node in messages if node in reached[node] for other in reached[node] | {node}}


Truth = tuple[BlockId, dict[int, BlockId]]
"""The L1 block and the heads of a round."""


def truth(world: World, first: int, last: int) -> dict[int, Truth]:
    """Return all rounds from a time on, as a node finds them that sees only L1 as it is at the end."""
    denied: Denied = frozenset()
    result: dict[int, Truth] = {}
    l1 = NO_L1_BLOCK
    config = world.config
    for timestamp in range(first, last + 1):
        while True:
            chains = {}
            for chain_id in config.begun_at(timestamp):
                blocks = world.derive(chain_id, timestamp, world.l1, denied)
                assert blocks is not None
                chains[chain_id] = blocks
            invalid = judge(config, timestamp, chains, first)
            if not invalid:
                break
            denied |= {(chain, chains[chain][-1].ref.number, chains[chain][-1].ref.hash) for chain in invalid}
        heads = {chain_id: blocks[-1].ref.id for chain_id, blocks in chains.items()}
        l1 = max(l1, *(blocks[-1].l1 for blocks in chains.values()), key=lambda block: block.number)
        result[timestamp] = l1, heads
    return result
