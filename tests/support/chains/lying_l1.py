"""An L1 with its beacon chain that grows and reorganises, and endpoints of both that lie at random.

Every lie is counted by its kind, if it is another answer than the honest one."""

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rollup_node.stages.l1.light_client.network import BeaconNetwork
from rollup_node.stages.protocol.hex_encoding import to_hex
from tests.support.chains.fake_beacon_chain import FakeBeaconChain, beacon_network, with_root
from tests.support.chains.fake_l1_chain import BLOCK_TIME, FakeL1Chain

FIRST_HEAD = 58
"""The slot of the first moment: in the second sync committee period."""

HANGS = object()
"""In the place of an answer that never comes."""


class Asked(NamedTuple):
    """A request to a Beacon API."""

    path: str
    query: dict[str, str]


class LyingL1:
    """`now` returns Unix seconds; the endpoints lie with a probability of `rate` while it is above 0.

    `ever` are the hashes of all blocks that have been on the honest chain: a committee has signed the replaced ones
    too."""

    def __init__(self, chance: random.Random, now: Callable[[], float], gloas: int, rate: float) -> None:
        self.random, self.rate, self._now = chance, rate, now
        genesis = int(now()) - BLOCK_TIME * FIRST_HEAD
        self.network = beacon_network(genesis, gloas=gloas)
        self.chain = FakeL1Chain(FIRST_HEAD + 1, genesis)
        self.ever = set(self.chain._hashes)
        self.beacon = FakeBeaconChain(self.network, self.chain.hash)
        self.forged: list[FakeL1Chain] = [self._forgery()]
        self.lies = Counter[str]()
        self._updates: dict[tuple[object, ...], Any] = {}
        self.grow()

    # --- the chains ------------------------------------------------------------------------------------------------

    def grow(self) -> None:
        """Have a block in each slot up to now, perhaps after a reorg of up to three blocks, which returns its fork."""
        slot = self.network.slot_at(self._now())
        if slot > self.chain.head and self.random.random() < 0.15:
            depth = self.random.randrange(1, 4)
            self.chain.reorg(depth, depth)
            self.beacon.forget(self.chain.head - depth)
            self._updates.clear()
        self.chain.extend(slot - self.chain.head)
        self.ever.update(self.chain._hashes[-8:])
        self.beacon.head = slot - 1
        if self.random.random() < 0.3:
            self.forged = [*self.forged[-3:], self._forgery()]

    def _forgery(self) -> FakeL1Chain:
        """Return a chain of valid headers that leaves the honest one somewhere, and is longer."""
        chain = FakeL1Chain(1)
        chain.headers, chain._hashes = list(self.chain.headers), list(self.chain._hashes)
        chain._genesis_time = self.network.genesis_time
        chain._branch = self.random.randrange(1 << 60)
        depth = self.random.randrange(1, 50)
        chain.reorg(depth, depth + 50)
        return chain

    def _lies(self) -> bool:
        return self.random.random() < self.rate

    # --- Beacon APIs -----------------------------------------------------------------------------------------------

    def beacon_answer(self, asked: Asked, is_hostile: bool) -> Any:
        """Return a body, None for a 404, or HANGS."""
        honest = self._true(self.beacon, asked)
        if not (is_hostile and self._lies()):
            return None if honest is None else json.dumps(honest).encode()
        kind = self.random.choice(sorted(_BEACON_LIES))
        lie = _BEACON_LIES[kind](self, asked, copy.deepcopy(honest))
        if lie != honest:
            self.lies[f"beacon {kind}"] += 1
        return lie if lie is None or lie is HANGS or isinstance(lie, bytes) else json.dumps(lie).encode()

    def _true(self, beacon: FakeBeaconChain, asked: Asked) -> Any:
        key = (beacon.seed, beacon.participants, id(beacon), asked.path, str(asked.query), beacon.head)
        if key not in self._updates:
            self._updates[key] = beacon._answer(asked)  # type: ignore[arg-type]
        return self._updates[key]

    def _of_fork(self, asked: Asked, participants: int, seed: bytes, network: BeaconNetwork | None = None) -> Any:
        """Return what a beacon chain above a forged L1 answers, which so many sign with keys of a seed."""
        fork = FakeBeaconChain(network or self.network, self.random.choice(self.forged).hash, seed)
        fork.head, fork.participants, fork.bootstrap_of = self.beacon.head, participants, self.beacon
        return fork._answer(asked)  # type: ignore[arg-type]

    def _old(self, asked: Asked) -> Any:
        """Return the answer of a time that is gone."""
        head = self.beacon.head
        self.beacon.head = self.random.randrange(40, head)
        try:
            return self._true(self.beacon, asked)
        finally:
            self.beacon.head = head

    def _leaves(self, value: Any) -> list[tuple[Any, Any]]:
        """Return the places of all strings in a JSON value."""
        pairs = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
        here = [(value, key) for key, item in pairs if isinstance(item, str)]
        return here + [leaf for _, item in pairs for leaf in self._leaves(item)]

    def _edited(self, value: Any, edit: Callable[[str], str], wanted: Callable[[Any, str], bool]) -> Any:
        """Return a JSON value of which one string is changed."""
        places = [(item, key) for item, key in self._leaves(value) if wanted(key, item[key])]
        if places:
            item, key = self.random.choice(places)
            item[key] = edit(item[key])
        return value

    def _flipped(self, text: str) -> str:
        place = self.random.randrange(2, len(text))
        return text[:place] + format(int(text[place], 16) ^ self.random.randrange(1, 16), "x") + text[place + 1 :]

    def _forged_hash(self, text: str) -> str:
        return to_hex(self.random.choice(self.forged).hash(self.beacon.head))

    # --- L1 endpoints ----------------------------------------------------------------------------------------------

    def rpc_answer(
        self, calls: Sequence[dict[str, Any]], chain_id: int, is_hostile: bool, is_forger: bool
    ) -> list[Any] | bytes | object:
        """Return the answers to JSON-RPC calls, garbage, or HANGS.

        A hostile forger has the right blocks of hashes, and by numbers those of the forged chain, always."""
        honest = [_result(self.chain, call, chain_id) for call in calls]
        if not (is_hostile and self.rate and (is_forger or self._lies())):
            return _answers(calls, honest)
        kind = "forger" if is_forger else self.random.choice(sorted(_RPC_LIES))
        lie = self._forger(calls, chain_id) if is_forger else _RPC_LIES[kind](self, calls, chain_id, honest)
        if lie != honest:
            self.lies[f"l1 {kind}"] += 1
        return _answers(calls, lie) if isinstance(lie, list) else lie

    def _from_forged(self, calls: Sequence[dict[str, Any]], chain_id: int) -> list[Any]:
        chain = self.random.choice(self.forged)
        return [_result(chain, call, chain_id) for call in calls]

    def _forger(self, calls: Sequence[dict[str, Any]], chain_id: int) -> list[Any]:
        chains = [self.chain if call["method"] == "eth_getBlockByHash" else self.forged[-1] for call in calls]
        return [_result(chain, call, chain_id) for chain, call in zip(chains, calls, strict=True)]

    def _some_forged(self, calls: Sequence[dict[str, Any]], chain_id: int, honest: list[Any]) -> list[Any]:
        lies = self._from_forged(calls, chain_id)
        return [self.random.choice(pair) for pair in zip(honest, lies, strict=True)]

    def _instead(self, calls: Sequence[dict[str, Any]], chain_id: int, honest: list[Any]) -> list[Any]:
        """Return a forged block, or an older one, in the place of each."""
        chain = self.random.choice([*self.forged, self.chain])
        return [
            chain.block_json(self.random.randrange(chain.head + 1)) if isinstance(item, dict) else item
            for item in honest
        ]

    def _edited_header(self, calls: Sequence[dict[str, Any]], chain_id: int, honest: list[Any]) -> list[Any]:
        """Change a field under the right hash."""
        return [
            self._edited(dict(item), self._flipped, lambda key, text: key != "hash" and len(text) > 2)
            if isinstance(item, dict)
            else item
            for item in honest
        ]


def _result(chain: FakeL1Chain, call: dict[str, Any], chain_id: int) -> Any:
    """Return the result of a call by a chain; of a hash that it does not have, the block at its height."""
    method, params = call["method"], call["params"]
    if method == "eth_chainId":
        return hex(chain_id)
    if method == "eth_getBlockByHash":
        number = next((n for n in range(chain.head, -1, -1) if to_hex(chain.hash(n)) == params[0]), None)
        return None if number is None else chain.block_json(number)
    assert method == "eth_getBlockByNumber", method
    return chain.block_by_name(params[0])


def _answers(calls: Sequence[dict[str, Any]], results: Sequence[Any]) -> list[Any]:
    return [{"jsonrpc": "2.0", "id": call["id"], "result": item} for call, item in zip(calls, results, strict=True)]


_IS_HEX = lambda key, text: text.startswith("0x") and len(text) > 2  # noqa: E731
_BEACON_LIES: dict[str, Callable[[LyingL1, Asked, Any], Any]] = {
    "minority": lambda l1, asked, _: l1._of_fork(asked, l1.random.randrange(0, 6), b"honest"),
    "foreign keys": lambda l1, asked, _: l1._of_fork(asked, 16, b"foreign"),
    "other domain": lambda l1, asked, _: l1._of_fork(asked, 16, b"honest", with_root(l1.network, b"\x33" * 32)),
    "flipped": lambda l1, _, honest: l1._edited(honest, l1._flipped, _IS_HEX),
    "number": lambda l1, _, honest: l1._edited(
        honest, lambda _: str(l1.random.randrange(1 << l1.random.randrange(1, 70))), lambda _, text: text.isdecimal()
    ),
    "forged hash": lambda l1, _, honest: l1._edited(
        honest, l1._forged_hash, lambda key, _: key in ("block_hash", "execution_block_hash")
    ),
    "emptied": lambda l1, _, honest: l1._edited(honest, lambda _: "", lambda _, __: True),
    "old": lambda l1, asked, _: l1._old(asked),
    "absent": lambda l1, _, __: None,
    "garbage": lambda l1, _, __: l1.random.randbytes(40),
    "hangs": lambda l1, _, __: HANGS,
}
_RPC_LIES: dict[str, Callable[[LyingL1, Sequence[dict[str, Any]], int, list[Any]], Any]] = {
    "forged": lambda l1, calls, chain_id, _: l1._from_forged(calls, chain_id),
    "partly forged": lambda l1, calls, chain_id, honest: l1._some_forged(calls, chain_id, honest),
    "another block": lambda l1, calls, chain_id, honest: l1._instead(calls, chain_id, honest),
    "edited": lambda l1, calls, chain_id, honest: l1._edited_header(calls, chain_id, honest),
    "shuffled": lambda l1, _, __, honest: l1.random.sample(honest, len(honest)),
    "absent": lambda l1, _, __, honest: [None] * len(honest),
    "other chain": lambda l1, calls, chain_id, _: l1._from_forged(calls, chain_id + 1),
    "garbage": lambda l1, _, __, ___: l1.random.randbytes(40),
    "hangs": lambda l1, _, __, ___: HANGS,
}
