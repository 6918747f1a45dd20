"""Histories of rounds against a judge that reads all blocks again for each of them.

L1 grows and changes, chains lag behind and restart, the verifier is restarted at any step. Each decision is the judge's
about the same heads. In the end all rounds are those of a node that has seen nothing but the last L1 chain."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.process.store import InteropStore
from rollup_node.stages.interop.rounds import (
    AddLogs,
    Advance,
    AskChains,
    AskL1,
    AskStored,
    Change,
    Deliver,
    Finished,
    InvalidateHeads,
    Observed,
    Rewind,
    Wait,
    WaitReason,
    backfill,
    next_step,
    next_time,
)
from rollup_node.stages.io.files.sqlite_file import MEMORY
from tests.support.interop.running_stage import LATER, THREE, TWO
from tests.support.interop.store_model import StoreModel
from tests.support.interop.values import GENESIS_TIME, logs_of
from tests.support.interop.world import Block, World, answer, judge, truth

MOST_STEPS = 3000


class Run:
    """A verifier in a world, with a first round at that time.

    `acks` are the chains that have carried out the pending transition, `chains` the blocks that the round is about."""

    def __init__(self, config: InteropConfig, seed: int, first: int) -> None:
        self.first, self.config, self.world = first, config, World(config, seed)
        self.store, self.model = InteropStore(MEMORY, config), StoreModel(config)
        self.state, self.observed = self.store.state(), Observed()
        self.acks: set[int] = set()
        self.chains: dict[int, list[Block] | None] = {}
        self.decisions: list[Change] = []
        self.waits: list[Wait] = []

    def restart(self) -> None:
        """Forget all but what is on disk."""
        self.state, self.observed, self.acks = self.store.state(), Observed(), set()

    def restart_chain(self, chain_id: int) -> None:
        """Let a chain derive again, with the denied blocks of now."""
        denied = self.store.decided().denied.get(chain_id, ())
        self.world.denied[chain_id] = frozenset((chain_id, block.number, block.hash) for block in denied)

    def step(self) -> None:
        """Do what the next step says."""
        world, observed = self.world, self.observed
        match next_step(self.config, self.state, observed):
            case AskChains(timestamp=timestamp):
                self.chains = {chain_id: world.derived(chain_id, timestamp) for chain_id in self.config.chains}
                answers = {chain_id: answer(blocks) for chain_id, blocks in self.chains.items()}
                self.observed = msgspec.structs.replace(observed, blocks=answers)
            case AskL1(numbers=numbers):
                self.observed = msgspec.structs.replace(observed, l1=world.hashes(numbers))
            case AskStored(places=places):
                self.observed = msgspec.structs.replace(observed, stored=self.store.stored(places))
            case Wait() as wait:
                self.observed = Observed()
                self.waits.append(wait)
            case Deliver(chains=chains):
                left = [chain_id for chain_id in chains if chain_id not in self.acks]
                if left:
                    self.restart_chain(left[0])
                    self.acks.add(left[0])
                else:
                    self.write(Finished())
            case change:
                self.check(change)
                self.write(change)

    def write(self, change: Change) -> None:
        """Make a change, and begin the next round."""
        self.decisions.append(change)
        self.state = self.store.write(change)
        assert self.state == self.model.write(change)
        self.observed, self.acks = Observed(), set()

    def check(self, change: Advance | InvalidateHeads | Rewind) -> None:
        """Check a decision against the judge's about the same heads."""
        if isinstance(change, Rewind):
            return
        chains = {chain_id: blocks for chain_id, blocks in self.chains.items() if blocks}
        invalid = {head.chain_id for head in change.heads} if isinstance(change, InvalidateHeads) else set()
        assert invalid == judge(self.config, change.timestamp, chains, self.first)

    def finish(self) -> None:
        """Let all chains follow L1, and the rounds go on until there is no block for the next one."""
        for chain_id in self.config.chains:
            self.world.follow(chain_id)
        self.waits.clear()
        self.observed = Observed()  # a round that has begun waits for what is there by now
        for _ in range(MOST_STEPS):
            self.step()
            if self.waits and self.waits[-1].reason is WaitReason.NOT_READY:
                break
            assert not self.waits, self.waits
        else:
            raise AssertionError("the rounds do not end")

    def assert_true(self) -> int:
        """Check all rounds against the truth; returns how many there are."""
        last = next_time(self.config, self.state) - 1
        rounds = truth(self.world, self.first, last)
        for timestamp, wanted in rounds.items():
            result = self.store.round_at(timestamp)
            assert result is not None and (result.l1, result.heads) == wanted, timestamp
        self.model.assert_same(self.store)
        return len(rounds)


ACTIONS = st.one_of(
    st.tuples(st.just("step"), st.integers(1, 12)),
    st.tuples(st.just("step"), st.integers(1, 12)),
    st.tuples(st.just("step"), st.integers(20, 60)),
    st.tuples(st.just("grow"), st.integers(1, 2)),
    st.tuples(st.just("grow"), st.integers(1, 2)),
    st.tuples(st.just("follow"), st.integers(1, 3)),
    st.tuples(st.just("follow"), st.integers(1, 3)),
    st.tuples(st.just("reorg"), st.integers(1, 6)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("restart chain"), st.integers(1, 3)),
)


def act(run: Run, kind: str, value: int) -> None:
    """Do one thing of a history."""
    chain_id = value if value in run.config.chains else 1
    match kind:
        case "step":
            for _ in range(value):
                run.step()
        case "grow":
            run.world.grow(value)
        case "follow":
            run.world.follow(chain_id)
        case "reorg":
            run.world.grow(max(1, value - 1), drop=value)
        case "restart":
            run.restart()
        case "restart chain":
            # A chain that derives again asks for its denied blocks; so it also carries out what is pending.
            run.restart_chain(chain_id)


@pytest.mark.parametrize("config", [TWO, THREE], ids=["two", "three"])
@given(seed=st.integers(0, 2**32), history=st.lists(ACTIONS, min_size=5, max_size=60))
@settings(max_examples=20)
def test_every_round_is_the_judges(config: InteropConfig, seed: int, history: list[tuple[str, int]]) -> None:
    """[VR1 to VR11, EM1 to EM11, CY1 to CY5, RA1, RA2, IV2, IV8]"""
    run = Run(config, seed, config.first_round)
    run.world.grow(4)
    for kind, value in history:
        act(run, kind, value)
    run.world.grow(max(2, 8 - len(run.world.l1)))
    run.finish()
    assert run.assert_true() >= 6
    run.store.close()


@pytest.mark.parametrize("config", [THREE, LATER], ids=["three", "later"])
@given(seed=st.integers(0, 2**32), safe=st.integers(2, 12), depth=st.integers(8, 20), reorg=st.integers(0, 2))
@settings(max_examples=20)
def test_rounds_go_on_from_logs_of_before(config: InteropConfig, seed: int, safe: int, depth: int, reorg: int) -> None:
    """[VR1, VR2, VR10]: with logs of the expiry window no message is undecided, and a chain may begin after them."""
    run = Run(config, seed, GENESIS_TIME + safe + 1)
    run.world.grow(10)
    for chain_id in config.chains:
        run.world.follow(chain_id)
    for chain_id, logs in backfill(config, run.state, GENESIS_TIME + safe, depth, {}).items():
        blocks = run.world.derive(chain_id, GENESIS_TIME + safe, run.world.l1, frozenset())
        assert blocks is not None
        if added := tuple(logs_of(block.ref, block.logs) for block in blocks[logs.first : logs.last + 1]):
            run.write(AddLogs(chain_id, added, logs.keep))
    for _ in range(60):
        run.step()
    run.world.grow(reorg + 1, drop=reorg)
    run.finish()
    assert run.assert_true() >= 6
    run.store.close()


def test_denials_are_void_once_l1_has_left_their_round() -> None:
    """[RA2]: L1 changes between a denial and the next round, but not below the last round."""
    left = 0
    for seed in range(6):
        run = Run(THREE, seed, THREE.first_round)
        run.world.grow(20)
        for chain_id in THREE.chains:
            run.world.follow(chain_id)
        for _ in range(10 + 7 * seed):
            run.step()
        for _ in range(100):
            run.step()
            state = run.state
            last = 0 if state.verified is None else state.verified.l1.number
            if state.decided is not None and state.decided.number > last and state.pending is None:
                count = len(run.world.l1) - state.decided.number
                run.world.grow(count, drop=count)
                left += 1
                break
        run.finish()
        run.assert_true()
        run.store.close()
    assert left == 6


def test_histories_have_all_kinds_of_decisions() -> None:
    """What the walks above meet: one long history has it all."""
    kinds: set[str] = set()
    reasons: set[str] = set()
    for seed in range(6):
        run = Run(THREE, seed, THREE.first_round)
        run.world.grow(5)
        for number in range(12):
            run.world.grow(1, drop=2 if number % 5 == 4 else 0)
            for chain_id in THREE.chains:
                run.world.follow(chain_id)
            for _ in range(25):
                run.step()
        run.finish()
        run.assert_true()
        kinds |= {type(change).__name__ for change in run.decisions}
        for change in run.decisions:
            if isinstance(change, InvalidateHeads):
                reasons |= {head.reason[-5:].strip(" []") for head in change.heads}
        run.store.close()
    assert kinds == {"Advance", "InvalidateHeads", "Rewind", "Finished"}
    assert reasons >= {"EM1", "EM6", "EM8", "EM10", "CY3"}
