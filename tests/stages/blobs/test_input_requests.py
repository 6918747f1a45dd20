"""Bookkeeping of inputs that are requested and of those that are there."""

import pytest

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.blobs.blob_requests import FIRST_PAUSE, URGENT_SECONDS
from rollup_node.stages.blobs.input_requests import (
    EXPIRY_SECONDS,
    MAX_PAUSE,
    MAX_PENDING,
    InputCache,
    PendingInputs,
)
from rollup_node.stages.messages.blobs import InputRequest, InputResponse, InputTooLarge, InputUnavailable
from rollup_node.stages.protocol.commitments import Commitment, keccak_commitment

CLIENT, LATER = ProcessId(3, 1), ProcessId(3, 2)
COMMITMENTS = [keccak_commitment(b"%d" % index) for index in range(MAX_PENDING + 10)]


@pytest.fixture
def pending() -> PendingInputs:
    return PendingInputs()


def test_the_cache_is_bounded_in_bytes_and_drops_the_least_used() -> None:
    cache = InputCache(max_bytes=2500)
    for commitment in COMMITMENTS[:2]:
        cache.put(InputResponse(commitment, bytes(700)))
    assert cache.get(COMMITMENTS[0]) == InputResponse(COMMITMENTS[0], bytes(700))
    cache.put(InputTooLarge(COMMITMENTS[2], 200_000))
    assert cache.get(COMMITMENTS[1]) is None
    assert [cache.get(item) is not None for item in (COMMITMENTS[0], COMMITMENTS[2])] == [True, True]
    cache.put(InputResponse(COMMITMENTS[3], bytes(9000)))
    kept = [commitment for commitment in COMMITMENTS[:4] if cache.get(commitment) is not None]
    assert kept == [COMMITMENTS[3]], "one that is larger than the bound is kept alone"


def test_an_input_that_was_not_verified_is_valid_for_one_start() -> None:
    cache, wrong, right = (
        InputCache(),
        InputResponse(COMMITMENTS[0], b"wrong"),
        InputResponse(COMMITMENTS[0], b"right!"),
    )
    cache.put(wrong, 1)
    assert (cache.get(COMMITMENTS[0], 1), cache.get(COMMITMENTS[0], 2)) == (wrong, None)
    cache.put(right, 2)
    assert (cache.get(COMMITMENTS[0], 1), cache.get(COMMITMENTS[0], 2)) == (None, right)
    cache.put(right)
    assert cache.get(COMMITMENTS[0], 3) == right


def test_the_last_request_of_each_client_counts(pending: PendingInputs) -> None:
    for number in (7, 8):
        result = pending.request(CLIENT, InputRequest(COMMITMENTS[0], True, 3, number), 0.0)
    assert (result.start, result.clients) == (3, {3: (CLIENT, 8)})
    pending.request(CLIENT, InputRequest(COMMITMENTS[0], False, 4), 0.0)
    assert (result.start, result.clients) == (4, {3: (CLIENT, 8)})


def test_urgent_ones_are_fetched_first_and_pauses_double(pending: PendingInputs) -> None:
    ahead, urgent = (
        pending.request(CLIENT, InputRequest(item, index == 1), 0.0) for index, item in enumerate(COMMITMENTS[:2])
    )
    assert pending.due(0.0) == [urgent, ahead]
    assert (ahead.clients, urgent.clients) == ({}, {3: (CLIENT, 0)})
    assert urgent.failed("down", False, 0.0) == InputUnavailable(COMMITMENTS[1], False, "down")
    assert pending.due(FIRST_PAUSE - 0.01) == [ahead]
    assert pending.next_retry(0.0) == FIRST_PAUSE
    for _ in range(9):
        urgent.failed("down", False, 10.0)
    assert urgent.retry_at == 10.0 + MAX_PAUSE
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


def test_a_new_incarnation_of_a_client_replaces_the_one_before(pending: PendingInputs) -> None:
    for client in (CLIENT, LATER):
        result = pending.request(client, InputRequest(COMMITMENTS[0], True), 0.0)
    assert (len(pending), result.clients) == (1, {3: (LATER, 0)})


def test_requests_that_are_not_repeated_end(pending: PendingInputs) -> None:
    first = pending.request(CLIENT, InputRequest(COMMITMENTS[0], True), 0.0)
    fetching = pending.request(CLIENT, InputRequest(COMMITMENTS[1], False), 0.0)
    fetching.is_fetching = True
    pending.expire(URGENT_SECONDS + 0.1)
    assert (first.urgent, len(pending)) == (False, 2)
    pending.expire(EXPIRY_SECONDS + 0.1)
    assert list(pending) == [fetching]


def test_the_number_of_requests_is_bounded_and_urgent_ones_stay(pending: PendingInputs) -> None:
    pending.request(CLIENT, InputRequest(COMMITMENTS[0], True), 0.0)
    for index, item in enumerate(COMMITMENTS[1:]):
        pending.request(CLIENT, InputRequest(item, False), 0.001 * index)
    pending.expire(1.0)
    assert len(pending) == MAX_PENDING
    assert COMMITMENTS[0] in {item.key for item in pending}
    pending.remove(next(iter(pending)))
    assert len(pending) == MAX_PENDING - 1


def test_commitments_of_both_kinds_are_apart(pending: PendingInputs) -> None:
    for kind in (0, 1):
        pending.request(CLIENT, InputRequest(Commitment(kind, bytes(32)), True), 0.0)
    assert len(pending) == 2
