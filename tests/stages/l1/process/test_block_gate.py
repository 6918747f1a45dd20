"""No forged L1 block is derived from at the tip, and none is ever finalized [LCP15 to LCP18]."""

import random
from collections import Counter

import pytest

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1 import proof, proven_chain
from rollup_node.stages.l1.block_subscription import BlockSubscription
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.prefetch_window import BlockRange, Fetch, PrefetchWindow
from rollup_node.stages.l1.process.block_gate import BlockGate
from rollup_node.stages.l1.process.client import L1Endpoints
from rollup_node.stages.l1.proof import HIDE_SECONDS, Proof
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.types import Hash
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.timing.manual_clock import ManualClock

REACH, RESET = 12, 8
URLS = ("http://127.0.0.1:1", "http://127.0.0.1:2")


@pytest.fixture(autouse=True)
def short_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (proven_chain, proof):
        monkeypatch.setattr(module, "REACH", REACH)


CHAIN = 10


class AttackedL1:
    """The gate between an L1 whose endpoint lies at random, and a model of derivation that keeps what it was sent.

    `attacks` counts the lies by kind, `far` the blocks that were used unproven."""

    def __init__(self, seed: int) -> None:
        self.random, self.clock = random.Random(seed), ManualClock(0.0)
        self.honest = FakeL1Chain(40)
        self.forged: list[FakeL1Chain] = []
        self.proof = Proof(self.clock, {CHAIN: None})
        self.window = PrefetchWindow(50, 1 << 30)
        self.endpoints = L1Endpoints(L1Config(URLS, (PLAIN_ROLLUP,)), Meter("l1"))
        self.gate = BlockGate(self.proof, self.endpoints, self.window, lambda: None, lambda: None)
        self.subscription = BlockSubscription(0, 20, resend_after=0.0)
        self.derived: dict[int, Hash] = {}
        self.position = self.random.randrange(3, 38)
        self.is_honest = False
        self.attacks, self.far = Counter[str](), 0
        self.prove()

    def prove(self, reorged: bool = False) -> None:
        """Take the honest chain's head as proven."""
        head = self.honest.ref(self.honest.head)
        self.proof.chain.advance(head)
        self.window.update_head(head, reorged, -1)

    def step(self) -> None:
        """Do anything that may happen next."""
        self.random.choice(
            (self.grow, self.link, self.link, self.fetch, self.fetch, self.fetch, self.derive, self.derive)
        )()
        self.clock.now += self.random.choice((0.1, HIDE_SECONDS))
        self.check()

    def grow(self) -> None:
        reorged = self.random.random() < 0.2
        if reorged:
            depth = self.random.randrange(1, 4)
            # A real reorg resets derivation, which may have had the blocks that it replaces.
            self.honest.reorg(depth, depth + 1)
            fork = len(self.honest.headers) - depth - 1
            self.reset(fork)
        else:
            self.honest.extend(self.random.randrange(1, 3))
        if self.random.random() < 0.3:
            self.forged = [*self.forged[-3:], self._forgery()]
        self.prove(reorged)

    def _forgery(self) -> FakeL1Chain:
        """Return a chain of valid headers that leaves the honest one somewhere."""
        chain = FakeL1Chain(1)
        chain.headers, chain._hashes = list(self.honest.headers), list(self.honest._hashes)
        chain._branch = self.random.randrange(1 << 60)
        chain.reorg(self.random.randrange(1, 30), 40)
        return chain

    def _source(self, kind: str) -> FakeL1Chain:
        """Return the chain that the endpoint answers from."""
        if self.is_honest or not self.forged or self.random.random() < 0.3:
            return self.honest
        self.attacks[kind] += 1
        return self.random.choice(self.forged)

    def link(self) -> None:
        numbers = self.proof.gaps.get(CHAIN) or self.proof.missing()
        source = self._source("headers")
        refs = [source.ref(number) for number in numbers if number < len(source.headers)]
        if not self.is_honest and self.random.random() < 0.1:
            self.random.shuffle(refs)
        if refs and self.proof.gaps.get(CHAIN):
            self.proof.catch_ups[CHAIN].fill(refs)
        elif refs:
            self.proof.chain.extend(refs)

    def fetch(self) -> None:
        wanted = self.subscription.wanted(self.honest.head)
        for fetch in self.window.plan([wanted] if wanted is not None else [], 5, self.clock.now):
            self._answer(fetch)
        self.send()

    def _answer(self, fetch: Fetch) -> None:
        source = self._source("blocks")
        block = source.block(min(fetch.number, source.head))
        if block.header.number != fetch.number:
            self.window.failed(fetch, None, self.clock.now)
        elif (text := self.gate.forged(block.ref, self.endpoints.all[0])) is not None:
            self.window.failed(fetch, Problem(Code.L1_UNPROVEN, "", text), self.clock.now)
        else:
            self.window.fetched(fetch, (block,), 100, self.clock.now)

    def derive(self) -> None:
        if self.random.random() < 0.05:
            self.reset(self.position - self.random.randrange(RESET))
        self.subscription.request(self.position, 3, self.clock.now)
        self.send()

    def reset(self, position: int) -> None:
        """Derivation goes back: it is sent the blocks again from there, and what it made of them is made anew."""
        self.position = max(1, min(self.position, position))
        self.derived = {number: value for number, value in self.derived.items() if number < self.position}

    def send(self) -> None:
        for block in self.subscription.to_send(self.window.get, self.honest.head):
            ref = block.ref
            if not self.gate.admits(ref, CHAIN):
                return
            if ref.number >= self.honest.head - REACH:
                assert ref.hash == self.honest.hash(ref.number), "a forged block at the tip"
            elif ref.number == self.position:
                self.far += 1
            self.subscription.sent(block, self.clock.now)
            self.gate.sent(ref, CHAIN)
            if ref.number == self.position:
                self._take(ref.number, ref.hash, ref.parent_hash)

    def _take(self, number: int, block_hash: Hash, parent_hash: Hash) -> None:
        before = self.derived.get(number - 1)
        if before is not None and before != parent_hash:
            self.reset(number - RESET)
        else:
            self.derived[number] = block_hash
            self.position = number + 1

    def check(self) -> None:
        """Finality is hidden as long as anything is derived from a forged block."""
        forged = [number for number, value in self.derived.items() if value != self.honest.hash(number)]
        assert not forged or not self.proof.shows_finality, f"finality while {forged} are forged"


async def test_no_attack_moves_what_is_derived_at_the_tip_or_finalizes_a_forged_block() -> None:
    """And once the endpoint is honest, derivation arrives at the head, and finality is shown."""
    attacks, far, shown, hidden = Counter[str](), 0, 0, 0
    for seed in range(150):
        l1 = AttackedL1(seed)
        for _ in range(250):
            l1.step()
            shown, hidden = shown + l1.proof.shows_finality, hidden + (not l1.proof.shows_finality)
        attacks += l1.attacks
        l1.is_honest = True
        for _ in range(600):
            l1.step()
            if l1.proof.shows_finality and l1.position > l1.honest.head:
                break
        assert l1.proof.shows_finality and l1.derived[l1.honest.head] == l1.honest.hash(l1.honest.head), seed
        far += l1.far
        await l1.endpoints.close()
    assert sum(attacks.values()) > 10_000 and min(attacks.values()) > 1000
    assert far > 100 and shown > 1000 and hidden > 1000


async def test_an_honest_endpoint_closes_a_catch_up_after_a_forged_one(capsys: pytest.CaptureFixture[str]) -> None:
    """The endpoint of the forged blocks is set aside by name, derivation is reset, and finality is shown in the end."""
    l1 = AttackedL1(0)
    l1.position, l1.honest = 5, FakeL1Chain(60)
    l1.prove()
    forged = l1._forgery()
    while forged.block(47).header.hash == l1.honest.hash(47) or forged.hash(42) != l1.honest.hash(42):
        forged = l1._forgery()
    l1.forged = [forged]
    l1.random.random = lambda: 0.9  # type: ignore[method-assign]
    for _ in range(80):
        l1.derive()
        l1.fetch()
        l1.clock.now += HIDE_SECONDS
        numbers = l1.proof.missing()
        l1.proof.chain.extend([l1.honest.ref(number) for number in numbers])
        if l1.endpoints.pool.verdicts[0] is not None:
            l1.forged = []
    assert l1.endpoints.pool.verdicts[0] is not None
    assert "not" in l1.endpoints.pool.verdicts[0].reason and "L1-UNPROVEN" in capsys.readouterr().err
    assert l1.derived[l1.honest.head] == l1.honest.hash(l1.honest.head)
    assert l1.proof.shows_finality and not l1.proof.problems()
    await l1.endpoints.close()


async def test_a_forged_block_in_the_cache_is_dropped_when_the_links_reach_it() -> None:
    l1 = AttackedL1(0)
    block = FakeL1Chain(40)
    block.reorg(39, 39)
    (fetch,) = l1.window.plan([BlockRange(35, 35)], 1, 0.0)
    assert l1.gate.forged(block.ref(35), l1.endpoints.all[1]) is None
    l1.window.fetched(fetch, (block.block(35),), 100, 0.0)
    assert not l1.gate.admits(block.ref(35), None) and l1.window.get(35) is not None
    l1.proof.chain.extend([l1.honest.ref(number) for number in l1.proof.missing()])
    assert not l1.gate.admits(block.ref(35), None) and l1.window.get(35) is None
    verdict = l1.endpoints.pool.verdicts[1]
    assert verdict is not None and verdict.fault.words == "has blocks that are not proven"
    await l1.endpoints.close()
