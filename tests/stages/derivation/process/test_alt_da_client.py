"""The derivation process on a chain with Alt-DA, with simulated l1, blobs and engine processes."""

from pathlib import Path
from typing import cast

import pytest

from rollup_node.ipc.bus.bus import Client, ProcessId
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.process import alt_da_client, stage
from rollup_node.stages.derivation.process.alt_da_client import AltDaClient
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.metrics.tables import PREFIX
from rollup_node.stages.messages.base import Health, Message
from rollup_node.stages.messages.blobs import InputRequest, InputResponse, InputTooLarge, InputUnavailable
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import AttributesOutcome, AttributesReady, AttributesResult, PipelineStart
from rollup_node.stages.messages.l1 import L1BlocksRequest, L1Heads
from rollup_node.stages.protocol.commitments import ChallengeStatus, Commitment
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import BlockId, L1Block
from tests.conformance.kit.alt_da import WINDOW, AltDaChain, challenge_log
from tests.conformance.kit.chain import FIRST_L1, GENESIS, L1_CHAIN, SYSTEM_CONFIG, forks_until
from tests.conformance.kit.planning import channel, plan, refs, singulars
from tests.stages.derivation.process.test_requests import Sent
from tests.stages.derivation.process.test_stage import Neighbours

PLAN = plan(GENESIS, 4)
ITEMS = channel("a", *singulars(PLAN), pieces=2)


class AltDaNode(Neighbours):
    """The stage on a chain with Alt-DA.

    An answer that an input is missing `is_late` if its fetch began before the request."""

    def __init__(self, chain: AltDaChain, directory: Path) -> None:
        super().__init__(DerivationConfig(chain.config, L1_CHAIN, window=3), directory)
        self.chain = chain
        self.too_large: set[Commitment] = set()
        self.error = "down"
        self.is_late = False
        self.l1_status = self.buses["l1"].publish("status.l1")

    @property
    def inputs(self) -> list[InputRequest]:
        """The requests for inputs."""
        return [request for request in self.requests if isinstance(request, InputRequest)]

    @property
    def health(self) -> tuple[str, ...]:
        health = self.state(Health)
        return () if health is None else tuple(map(str, health.problems))

    @property
    def status(self) -> DerivationStatus:
        return self.state(DerivationStatus) or DerivationStatus(0, None, False)

    def l1_block(self, number: int) -> L1Block | None:
        return self.chain.l1[number] if number <= self.chain.head else None

    def _on_blobs(self, peer: ProcessId, request: InputRequest) -> None:
        self.requests.append(request)
        commitment = request.commitment
        if not request.urgent:
            return
        if commitment in self.too_large:
            self._blobs.send(peer, InputTooLarge(commitment, 200_000))
        elif self.chain.is_down or commitment not in self.chain.inputs:
            number = 0 if self.is_late else request.number
            self._blobs.send(peer, InputUnavailable(commitment, not self.chain.is_down, self.error, number))
        else:
            self._blobs.send(peer, InputResponse(commitment, self.chain.inputs[commitment]))

    def _on_engine(self, peer: ProcessId, message: Message) -> None:
        chain = self.chain
        if isinstance(message, AttributesReady):
            if message.parent == chain.safe:
                chain._build(
                    AttributesReady(0, 0, message.parent, message.attributes, message.derived_from, message.concluding)
                )
            block = chain.l2[message.parent.number + 1]
            outcome = AttributesOutcome.ACCEPTED
            result = AttributesResult(
                message.reset, message.sequence, outcome, block.ref, block.config, message.derived_from
            )
            self._engine.send(peer, result)
        else:
            base = BlockId(FIRST_L1, chain.l1[FIRST_L1].header.hash)
            self._engine.send(peer, PipelineStart(self.reset, chain.safe, SYSTEM_CONFIG, base, SYSTEM_CONFIG))


def repeat_every(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Request are repeated at this pace."""
    for module in (alt_da_client, stage):
        monkeypatch.setattr(module, "REPEAT_SECONDS", seconds)


async def test_inputs_are_requested_ahead_and_when_they_are_needed(tmp_path: Path) -> None:
    chain = AltDaChain(forks_until("granite"))
    first, second = chain.commit(*ITEMS)
    chain.mine_commitments(first)
    chain.mine_commitments(second)
    node = AltDaNode(chain, tmp_path)

    async with node.running():
        await node.until(lambda: len(chain.l2) == len(PLAN) + 1)
        assert refs(chain.l2[1:]) == refs(PLAN)
        await node.until(lambda: node.status.idle)
        of_second = [request.urgent for request in node.inputs if request.commitment == second]
        assert of_second[0] is False and True in of_second, "ahead of need, and then for the need"
        assert {request.start for request in node.inputs} == {node.reset}
        await node.until(lambda: node.health == ())


async def test_challenges_are_read_beyond_the_window_of_blocks_and_the_blocks_again(tmp_path: Path) -> None:
    chain = AltDaChain(forks_until("granite"))
    lost, second = chain.commit(*ITEMS)
    del chain.inputs[lost]
    included = chain.mine_commitments(lost)
    chain.mine_commitments(second)
    chain.mine_until(included + WINDOW - 1)
    node = AltDaNode(chain, tmp_path)

    async with node.running():
        await node.until(
            lambda: chain.head + 1 in (item.first for item in node.requests if isinstance(item, L1BlocksRequest))
        )
        await node.until(lambda: node.status.current_l1 == chain.l1[included].ref)
        assert not node.status.idle
        chain.mine_challenges(challenge_log(lost, included))
        chain.mine_challenges(challenge_log(lost, included, ChallengeStatus.RESOLVED, ITEMS[0]))
        await node.until(lambda: len(chain.l2) == len(PLAN) + 1)
        await node.until(lambda: node.status.idle)
        assert node.status.current_l1 == chain.l1.last.ref
        await node.until(lambda: node.health == ())
        text = node.meter.text().decode()
        assert f'{PREFIX}challenges_head{{type="latest"}} {float(chain.head)}' in text
        assert f'{PREFIX}challenges_status{{status="active"}} 1.0' in text
        assert f'{PREFIX}challenges_status{{status="resolved"}} 1.0' in text
        assert f'{PREFIX}challenges_status{{status="expired"}} 0.0' in text


@pytest.mark.sign("ALTDA-UNREACHABLE", readyz=True)
async def test_an_input_that_stays_away_is_a_health_problem_that_names_its_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alt_da_client, "LONG_WAIT", 0.05)
    chain = AltDaChain(forks_until("granite"))
    (lost,) = chain.commit(*ITEMS[:1], stored=False)
    included = chain.mine_commitments(lost)
    chain.is_down = True
    node = AltDaNode(chain, tmp_path)

    def problem() -> str:
        return next((item for item in node.health if "input of commitment" in item), "")

    async with node.running():
        await node.until(lambda: problem().endswith(": down"))
        assert problem().startswith("ALTDA-UNREACHABLE: ")
        assert f"s for the input of commitment {lost} of L1 block " in problem()
        assert f", which can be challenged until L1 block {included + WINDOW}; challenges are known up to" in problem()
        chain.is_down = False
        node.error = "gone"
        chain.mine_challenges(challenge_log(lost, included))
        await node.until(lambda: "whose challenge can be resolved until L1 block" in problem())
        await node.until(lambda: problem().endswith(": gone"))
        chain.inputs[lost] = ITEMS[0]
        await node.until(lambda: not problem())


async def test_what_is_settled_follows_l1_finality(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "IDLE_SECONDS", 0.5)
    chain = AltDaChain(forks_until("granite"))
    included = chain.mine_commitments(*chain.commit(*ITEMS))
    chain.mine_until(included + 2)
    node = AltDaNode(chain, tmp_path)

    async with node.running():
        await node.until(lambda: node.status.idle)
        assert node.status.settled_l1 is None
        head = chain.l1.last.ref
        node.l1_status.set(L1Heads(head, head, head))
        await node.until(lambda: node.status.settled_l1 == included - 1)
        chain.mine_until(included + WINDOW)
        finalized, head = head, chain.l1.last.ref
        node.l1_status.set(L1Heads(head, head, finalized))
        await node.until(lambda: node.status.current_l1 == head)
        assert node.status.settled_l1 == included - 1
        node.l1_status.set(L1Heads(head, head, head))
        await node.until(lambda: node.status.settled_l1 == included)


async def test_an_input_that_nobody_can_challenge_any_more_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers to requests from before say nothing about it."""
    monkeypatch.setattr(alt_da_client, "LOST_SECONDS", 0.2)
    repeat_every(0.03, monkeypatch)
    chain = AltDaChain(forks_until("granite"))
    (lost,) = chain.commit(*ITEMS[:1], stored=False)
    end = chain.mine_commitments(lost) + WINDOW + 1
    chain.mine_until(end - 1)
    node = AltDaNode(chain, tmp_path)
    node.is_late = True

    def asked() -> int:
        return sum(request.urgent for request in node.inputs)

    async with node.running():
        assert node.task is not None
        resolver = node.stage.deriver.alt_da
        assert resolver is not None
        await node.until(lambda: asked() > 10)
        assert resolver.challenges.next_number == end - WINDOW, "no challenges are read ahead"
        node.is_late = False
        await node.until(lambda: resolver.challenges.next_number == end)
        node.is_late = True
        chain.mine()
        await node.until(lambda: resolver.is_last_chance)
        before = asked()
        await node.until(lambda: asked() > before + 10)
        assert not node.task.done()
        node.is_late = False
        with pytest.raises(CriticalError, match="no DA server has the input of commitment"):
            await node.task


@pytest.mark.condition("C14")
async def test_an_outage_of_the_da_server_during_a_sync_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole window is read in less than a second, and the server has the input again a minute later [ADA15]."""
    repeat_every(0.03, monkeypatch)
    chain = AltDaChain(forks_until("granite"))
    (lost,) = chain.commit(*channel("a", *singulars(PLAN)), stored=False)
    chain.mine_until(chain.mine_commitments(lost) + WINDOW + 1)
    node = AltDaNode(chain, tmp_path)

    async with node.running():
        assert node.task is not None
        await node.until(lambda: len(node.inputs) > 30)
        assert not node.task.done()
        chain.inputs[lost] = channel("a", *singulars(PLAN))[0]
        await node.until(lambda: len(chain.l2) == len(PLAN) + 1)


def test_an_input_is_lost_after_several_answers_over_a_minute() -> None:
    """Neither of the two is enough, nor a minute in which the server did not answer at all."""
    for down, answers, seconds, is_lost in (
        (0, 4, 60.0, False),
        (0, 5, 59.9, False),
        (0, 5, 60.0, True),
        (90, 5, 59.9, False),
        (90, 5, 60.0, True),
    ):
        chain = AltDaChain(forks_until("granite"))
        (lost,) = chain.commit(*ITEMS[:1], stored=False)
        chain.mine_until(chain.mine_commitments(lost) + WINDOW)
        chain.run()
        resolver, sent = chain.deriver.alt_da, Sent()
        assert resolver is not None
        assert not resolver.is_last_chance
        assert chain.deriver.add_challenges(chain.mine())
        assert resolver.is_last_chance
        client = AltDaClient(resolver, cast(Client, sent), Meter("derivation"), Logger("test"))
        client.request((), None, 1000.0 - down)
        sent.take()
        client.on_input(InputUnavailable(lost, False, "down", 1), 1000.0 - down)
        for index in range(answers):
            now = 1000.5 + seconds * index / (answers - 1)
            client.request((), None, now)
            assert resolver.next() == resolver.needed
            (request,) = sent.take()
            assert isinstance(request, InputRequest)
            client.on_input(InputUnavailable(lost, True, "gone", request.number), now)
        if is_lost:
            with pytest.raises(CriticalError):
                resolver.next()
        else:
            assert resolver.next() == resolver.needed


@pytest.mark.fault("F61")
async def test_an_input_that_is_too_large_is_passed_over(tmp_path: Path) -> None:
    chain = AltDaChain(forks_until("granite"))
    (large, *rest) = chain.commit(b"large", *ITEMS)
    chain.mine_commitments(large, *rest)
    node = AltDaNode(chain, tmp_path)
    node.too_large.add(large)

    async with node.running():
        await node.until(lambda: len(chain.l2) == len(PLAN) + 1)
