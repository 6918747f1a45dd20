"""Requests that wait for their answers: once each, in order, bounded."""

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.calls.requests import MAX_ADMIN_REQUESTS, AdminRequests, ReadQueue
from rollup_node.stages.messages.control import OutputRequest

RPC, P2P = ProcessId(6, 1), ProcessId(5, 1)


def test_reads_are_taken_in_order_and_once() -> None:
    queue = ReadQueue[OutputRequest](3)
    assert queue.next() is None
    first, second = OutputRequest(1, 7), OutputRequest(2, 7)
    for peer, request in ((RPC, first), (RPC, second), (RPC, first), (P2P, first)):
        queue.add(peer, request)
    assert len(queue) == 3, "the same number of another process is another request"
    queue.add(RPC, OutputRequest(3, 7))
    assert len(queue) == 3, "there is no more room"
    assert queue.next() == first == queue.next()
    queue.add(RPC, first)
    assert queue.answered() == RPC and queue.next() == second
    assert [queue.answered(), queue.answered()] == [RPC, P2P] and queue.next() is None


def test_admin_requests_are_done_together() -> None:
    requests = AdminRequests()
    requests.add_stop((RPC, 1))
    requests.add_stop((RPC, 2))
    assert requests.take_stops() == [(RPC, 1), (RPC, 2)] and requests.take_stops() == []
    assert requests.add_reset((RPC, 3)) and not requests.add_reset((RPC, 3))
    assert requests.take_resets() == [(RPC, 3)] and requests.add_reset((RPC, 3))


def test_admin_requests_are_bounded() -> None:
    requests = AdminRequests()
    for number in range(2 * MAX_ADMIN_REQUESTS):
        requests.add_stop((RPC, number))
        assert requests.add_reset((RPC, number)) == (number < MAX_ADMIN_REQUESTS)
    assert len(requests.stops) == len(requests.resets) == MAX_ADMIN_REQUESTS
