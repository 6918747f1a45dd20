"""Which blocks are let out, and whose endpoint is set aside [LCP15 to LCP18]."""

import pytest

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1 import proof
from rollup_node.stages.l1.block_subscription import BlockSubscription
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.prefetch_window import BlockRange, PrefetchWindow
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
CHAIN = 10
URLS = ("http://127.0.0.1:1", "http://127.0.0.1:2")


@pytest.fixture(autouse=True)
def short_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "REACH", REACH)


class GatedL1:
    """The gate between `source`, the chain of the endpoint, and a model of derivation that keeps what it was sent.

    The head of `honest` is proven. test_lying_l1.py attacks the whole process."""

    def __init__(self, length: int = 40) -> None:
        self.clock = ManualClock(0.0)
        self.honest = self.source = FakeL1Chain(length)
        self.proof = Proof(self.clock, {CHAIN: None})
        self.window = PrefetchWindow(50, 1 << 30)
        self.endpoints = L1Endpoints(L1Config(URLS, (PLAIN_ROLLUP,)), Meter("l1"))
        self.gate = BlockGate(self.proof, self.endpoints, self.window, lambda: None, lambda: None)
        self.subscription = BlockSubscription(0, 20, resend_after=0.0)
        self.derived: dict[int, Hash] = {}
        self.position = 5
        self.proof.chain.advance(self.honest.ref(self.honest.head))
        self.window.update_head(self.honest.ref(self.honest.head), False, -1)

    def fetch(self) -> None:
        wanted = self.subscription.wanted(self.honest.head)
        for fetch in self.window.plan([wanted] if wanted is not None else [], 5, self.clock.now):
            block = self.source.block(fetch.number)
            if (text := self.gate.forged(block.ref, self.endpoints.all[0])) is not None:
                self.window.failed(fetch, Problem(Code.L1_UNPROVEN, "", text), self.clock.now)
            else:
                self.window.fetched(fetch, (block,), 100, self.clock.now)
        self.send()

    def derive(self) -> None:
        self.subscription.request(self.position, 3, self.clock.now)
        self.proof.catch_ups[CHAIN].requested(self.position, self.derived.get(self.position - 1))
        self.send()

    def send(self) -> None:
        for block in self.subscription.to_send(self.window.get, self.honest.head):
            ref = block.ref
            if not self.gate.admits(ref, CHAIN):
                return
            self.subscription.sent(block, self.clock.now)
            self.gate.sent(ref, CHAIN)
            if ref.number == self.position:
                self._take(ref.number, ref.hash, ref.parent_hash)

    def _take(self, number: int, block_hash: Hash, parent_hash: Hash) -> None:
        before = self.derived.get(number - 1)
        if before is not None and before != parent_hash:
            self.position = max(1, number - RESET)
            self.derived = {number: value for number, value in self.derived.items() if number < self.position}
        else:
            self.derived[number] = block_hash
            self.position = number + 1


async def test_an_honest_endpoint_closes_a_catch_up_after_a_forged_one(capsys: pytest.CaptureFixture[str]) -> None:
    """The endpoint of the forged blocks is set aside by name, derivation is reset, and finality is shown in the end."""
    l1 = GatedL1(60)
    l1.source = FakeL1Chain(60)
    l1.source.reorg(15, 15)
    for _ in range(80):
        l1.derive()
        l1.fetch()
        l1.clock.now += HIDE_SECONDS
        numbers = l1.proof.missing()
        l1.proof.chain.extend([l1.honest.ref(number) for number in numbers])
        if l1.endpoints.pool.verdicts[0] is not None:
            l1.source = l1.honest
    assert l1.endpoints.pool.verdicts[0] is not None
    assert "not" in l1.endpoints.pool.verdicts[0].reason and "L1-UNPROVEN" in capsys.readouterr().err
    assert l1.derived[l1.honest.head] == l1.honest.hash(l1.honest.head)
    assert l1.proof.shows_finality and not l1.proof.problems()
    await l1.endpoints.close()


async def test_a_forged_block_in_the_cache_is_dropped_when_the_links_reach_it() -> None:
    l1 = GatedL1()
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
