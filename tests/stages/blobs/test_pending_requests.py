"""Pending requests for blobs: repetitions, order, retries, expiry; and a cache bounded in bytes."""

import pytest

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.blobs.pending_requests import (
    EXPIRY_SECONDS,
    FIRST_PAUSE,
    MAX_INPUT_PAUSE,
    MAX_PAUSE,
    MAX_PENDING,
    URGENT_SECONDS,
    PendingInputs,
    PendingRequests,
    input_size,
)
from rollup_node.stages.messages.blobs import (
    BlobContent,
    BlobsRequest,
    BlobsResponse,
    BlobsUnavailable,
    InputRequest,
    InputResponse,
    InputTooLarge,
    InputUnavailable,
)
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.commitments import keccak_commitment
from rollup_node.stages.protocol.types import BlobRef, L1BlockRef

CLIENT = ProcessId(3, 1)


def block(number: int) -> L1BlockRef:
    return L1BlockRef(number.to_bytes(32, "big"), number, bytes(32), 12 * number)


def content(name: int, size: int = 10) -> BlobContent:
    return BlobContent(bytes([name]) * 32, bytes(size), None)


def blobs_request(number: int, names: list[int], urgent: bool = False) -> BlobsRequest:
    return BlobsRequest(block(number), tuple(BlobRef(i, bytes([n]) * 32) for i, n in enumerate(names)), urgent)


@pytest.fixture
def requests() -> PendingRequests:
    return PendingRequests(1 << 20)


def test_a_response_has_the_blobs_in_the_requested_order(requests: PendingRequests) -> None:
    pending = requests.request(CLIENT, blobs_request(1, [7, 8, 7]), 0.0)
    assert pending.response() is None
    assert [ref.hash[0] for ref in pending.missing] == [7, 8]
    pending.add([content(8), content(9)])
    assert [ref.hash[0] for ref in pending.missing] == [7]
    pending.add([content(7)])
    response = pending.response()
    assert isinstance(response, BlobsResponse)
    assert [content.hash[0] for content in response.contents] == [7, 8, 7]
    requests.remove(pending)
    assert len(requests) == 0


def test_a_repetition_is_the_same_request_and_may_make_it_urgent(requests: PendingRequests) -> None:
    first = requests.request(CLIENT, blobs_request(1, [7]), 0.0)
    again = requests.request(ProcessId(3, 2), blobs_request(1, [7], urgent=True), 1.0)
    assert again is first
    assert first.urgent
    assert first.clients == {3: ProcessId(3, 2)}
    assert requests.request(CLIENT, blobs_request(1, [8]), 1.0) is not first


def test_urgent_requests_come_first_then_the_lowest_block(requests: PendingRequests) -> None:
    for number, urgent in ((5, False), (9, True), (3, False)):
        requests.request(CLIENT, blobs_request(number, [number], urgent), 0.0)
    assert [pending.block.number for pending in requests.due(0.0)] == [9, 3, 5]
    for pending in requests:
        pending.is_fetching = pending.block.number == 3
    assert [pending.block.number for pending in requests.due(0.0)] == [9, 5]


def test_failures_are_answered_and_retried_after_growing_pauses(requests: PendingRequests) -> None:
    pending = requests.request(CLIENT, blobs_request(1, [7]), 0.0)
    now, pauses = 0.0, []
    for _ in range(8):
        pending.failed(Code.BLOB_EXPIRED, "gone", True, now)
        assert pending.response() == BlobsUnavailable(
            block(1).hash, True, f"BLOB-EXPIRED: blobs of L1 block {block(1)}: gone"
        )
        assert requests.due(now) == []
        pauses.append(requests.next_retry(now, 60.0))
        now += pauses[-1]
        assert requests.due(now) == [pending]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, MAX_PAUSE, MAX_PAUSE, MAX_PAUSE]
    assert requests.next_retry(now, 60.0) == 60.0


def test_while_a_fetch_runs_the_one_before_does_not_say_that_blobs_are_not_there(requests: PendingRequests) -> None:
    """[T8] A beacon node that was importing the block, and now does not answer, is no reason for a reset."""
    pending = requests.request(CLIENT, blobs_request(1, [7], urgent=True), 0.0)
    pending.failed(Code.BLOB_NOT_FOUND, "none", True, 0.0)
    for is_fetching in (True, False):
        pending.is_fetching = is_fetching
        response = pending.response()
        assert isinstance(response, BlobsUnavailable) and response.error
        assert response.not_found is not is_fetching


def test_what_failed_ahead_of_need_is_fetched_at_once_when_it_is_needed(requests: PendingRequests) -> None:
    """[BCN14] And after the pauses of a first failure, not of a seventh."""
    pending = requests.request(CLIENT, blobs_request(1, [7]), 0.0)
    for _ in range(6):
        pending.failed(Code.BLOB_NOT_FOUND, "none", True, 0.0)
    assert requests.due(5.0) == []
    requests.request(CLIENT, blobs_request(1, [7], urgent=True), 5.0)
    assert requests.due(5.0) == [pending]
    pending.failed(Code.BLOB_NOT_FOUND, "none", True, 5.0)
    requests.request(CLIENT, blobs_request(1, [7], urgent=True), 5.5)
    assert requests.due(5.49) == [] and requests.due(5.5) == [pending]
    pending.failed(Code.BLOB_NOT_FOUND, "none", True, 5.5)
    requests.request(CLIENT, blobs_request(1, [7], urgent=True), 6.0)
    assert requests.due(6.0) == [], "it is needed all the time"


def test_requests_that_are_not_repeated_expire(requests: PendingRequests) -> None:
    requests.request(CLIENT, blobs_request(1, [7]), 0.0)
    running = requests.request(CLIENT, blobs_request(2, [8]), 0.0)
    running.is_fetching = True
    requests.request(CLIENT, blobs_request(3, [9]), 50.0)
    requests.expire(EXPIRY_SECONDS + 1)
    assert [pending.block.number for pending in requests] == [2, 3]


def test_without_repetition_a_request_is_no_longer_urgent(requests: PendingRequests) -> None:
    requests.request(CLIENT, blobs_request(1, [7], urgent=True), 0.0)
    again = requests.request(CLIENT, blobs_request(2, [8], urgent=True), 0.0)
    requests.request(CLIENT, blobs_request(2, [8], urgent=True), 1.0)
    requests.expire(URGENT_SECONDS + 0.5)
    assert [request for request in requests if request.urgent] == [again]
    assert [pending.block.number for pending in requests] == [1, 2]


def test_pending_requests_are_bounded(requests: PendingRequests) -> None:
    for number in range(MAX_PENDING + 10):
        requests.request(CLIENT, blobs_request(number, [7], urgent=number < 3), float(number) / 1000)
    requests.expire(1.0)
    assert len(requests) == MAX_PENDING
    kept = {pending.block.number for pending in requests}
    assert {0, 1, 2} <= kept
    assert 3 not in kept


COMMITMENTS = [keccak_commitment(b"%d" % index) for index in range(2)]


@pytest.fixture
def pending() -> PendingInputs:
    return PendingInputs()


def test_the_memory_of_an_input_is_that_of_its_bytes() -> None:
    assert input_size(InputResponse(COMMITMENTS[0], bytes(700))) == 400 + 32 + 700
    assert input_size(InputTooLarge(COMMITMENTS[0], 200_000)) == 400 + 32


def test_urgent_ones_are_fetched_first_and_pauses_double(pending: PendingInputs) -> None:
    ahead, urgent = (
        pending.request(CLIENT, InputRequest(item, index == 1), 0.0) for index, item in enumerate(COMMITMENTS[:2])
    )
    assert pending.due(0.0) == [urgent, ahead]
    assert (ahead.clients, urgent.clients) == ({}, {3: (CLIENT, 0)})
    assert urgent.failed("down", False, 0.0) == InputUnavailable(COMMITMENTS[1], False, "down")
    assert pending.due(FIRST_PAUSE - 0.01) == [ahead]
    assert pending.next_retry(0.0, 60.0) == FIRST_PAUSE
    for _ in range(9):
        urgent.failed("down", False, 10.0)
    assert urgent.retry_at == 10.0 + MAX_INPUT_PAUSE
    ahead.is_fetching = True
    assert pending.due(9.0) == []
    assert pending.due(20.0) == [urgent]


def test_what_is_too_large_to_be_read_ahead_waits_until_it_is_needed(pending: PendingInputs) -> None:
    large = pending.request(CLIENT, InputRequest(COMMITMENTS[0], False), 0.0)
    large.postponed("too large")
    pending.request(CLIENT, InputRequest(COMMITMENTS[0], False), 5.0)
    assert pending.due(1000.0) == []
    pending.request(CLIENT, InputRequest(COMMITMENTS[0], True), 6.0)
    assert pending.due(6.0) == [large]
    large.postponed("it became urgent while it was read")
    assert pending.due(6.0) == [large]
