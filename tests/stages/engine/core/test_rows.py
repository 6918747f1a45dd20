"""What rows have in common: reads that wait for their answers, failures, builds that are given up."""

import pytest

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.calls.actions import Send
from rollup_node.stages.engine.calls.calls import CallPurpose, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import Unavailable
from rollup_node.stages.engine.core.rows import ReadRow, TaskBackoff
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.messages.control import OutputRequest, OutputResponse
from rollup_node.stages.protocol.types import ZERO_HASH
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.core_harness import config_of

NOW = Instant(1_000.0, 50.0)
RPC, P2P = ProcessId(6, 1), ProcessId(5, 1)


@pytest.fixture
def core(chain: ChainFixture) -> CoreState:
    return CoreState(config_of(chain))


def test_reads_are_answered_in_order_and_once(core: CoreState) -> None:
    row = ReadRow(core, CallPurpose.OUTPUT, bound=3)
    assert row.due(NOW) is None
    first, second = OutputRequest(1, 7), OutputRequest(2, 7)
    for peer, request in ((RPC, first), (RPC, second), (RPC, first), (P2P, first), (RPC, OutputRequest(3, 7))):
        row.add(peer, request)
    core.actions.clear()
    for peer, request in ((RPC, first), (RPC, second), (P2P, first)):
        assert row.due(NOW) == request == row.due(NOW), "the same number of another process is another request"
        pending = PendingCall(1, row.purpose, request, 0, 0.0)
        response = OutputResponse(request.id, None, None, ZERO_HASH, ZERO_HASH, ZERO_HASH, None)
        row.answer(pending, response, NOW)
        assert core.actions.pop() == Send(peer, response)
    assert row.due(NOW) is None, "there was no more room"


def test_a_read_without_an_answer_is_left_to_its_process(core: CoreState) -> None:
    row = ReadRow(core, CallPurpose.OUTPUT)
    row.add(RPC, OutputRequest(1, 7))
    row.unavailable(PendingCall(1, row.purpose, OutputRequest(1, 7), 0, 0.0), Unavailable("away"), NOW)
    assert row.due(NOW) is None and not any(isinstance(action, Send) for action in core.actions)


def test_a_reset_pauses_only_from_the_second_failure_on() -> None:
    backoff = TaskBackoff()
    assert [backoff.reset("drive", 100.0) for _ in range(3)] == [0.0, 1.0, 2.0]
    assert backoff.fail("drive", 100.0) == 8.0
    backoff = TaskBackoff(jitter=lambda: 0.25, first=0.05)
    assert [backoff.fail("drive", 0.0) for _ in range(2)] == [0.3, 0.35]
