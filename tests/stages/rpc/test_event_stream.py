"""Events for a supervisor, subscribed to or pulled [IOP5, IOP6, IOP21, IOP22]."""

from typing import Any

import pytest

from rollup_node.stages.messages.interop import DerivedPair, InteropEvent, Replacement
from rollup_node.stages.protocol.types import BlockRef
from rollup_node.stages.rpc.event_stream import MAX_QUEUED, EventStream, shown_event
from rollup_node.stages.rpc.jsonrpc import JsonRpcError

REF = BlockRef(b"\x01" * 32, 7, b"\x02" * 32, 70)
SHOWN = {"hash": "0x" + "01" * 32, "number": 7, "parentHash": "0x" + "02" * 32, "timestamp": 70}
PAIR = DerivedPair(REF, REF)


def reset(text: str) -> InteropEvent:
    return InteropEvent(reset=text)


def test_events_are_pulled_in_their_order() -> None:
    stream = EventStream()
    for number in (5, 6, 6, 4):
        stream.add(number, reset(str(number)))
    assert stream.last == 6
    assert [stream.pull(), stream.pull()] == [{"reset": "5"}, {"reset": "6"}], "each is taken once"
    with pytest.raises(JsonRpcError, match="out of events") as caught:
        stream.pull()
    assert caught.value.code == -39001


def test_the_oldest_events_are_dropped() -> None:
    stream = EventStream()
    for number in range(1, MAX_QUEUED + 3):
        stream.add(number, reset(str(number)))
    assert stream.pull() == {"reset": "3"}


def test_a_repeated_event_takes_one_place() -> None:
    stream = EventStream()
    stream.add(1, InteropEvent(unsafe_block=REF))
    for number in range(2, 2 * MAX_QUEUED):
        stream.add(number, reset("again"))
    assert stream.last == 2 * MAX_QUEUED - 1
    assert [stream.pull(), stream.pull()] == [{"unsafeBlock": SHOWN}, {"reset": "again"}]
    with pytest.raises(JsonRpcError, match="out of events"):
        stream.pull()
    stream.add(2 * MAX_QUEUED, reset("again"))
    assert stream.pull() == {"reset": "again"}, "it is sent again once it was taken"


def test_a_subscriber_gets_what_comes_after() -> None:
    stream = EventStream()
    first: list[dict[str, Any]] = []
    second: list[dict[str, Any]] = []
    stream.add(1, reset("1"))
    stream.subscribe(take_first := first.append)
    stream.add(2, reset("2"))
    stream.subscribe(take_second := second.append)
    stream.unsubscribe(take_first)
    stream.add(3, reset("3"))
    assert (first, second) == ([{"data": {"reset": "2"}}], [{"data": {"reset": "3"}}])
    with pytest.raises(JsonRpcError):
        stream.pull()
    assert second[-1] == {"data": None, "close": True}, "whoever pulls ends the subscription"
    stream.add(4, reset("4"))
    stream.unsubscribe(take_second)
    assert stream.pull() == {"reset": "4"}


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (InteropEvent(unsafe_block=REF), {"unsafeBlock": SHOWN}),
        (InteropEvent(exhaust_l1=PAIR), {"exhaustL1": {"source": SHOWN, "derived": SHOWN}}),
        (
            InteropEvent(derivation_update=PAIR, derivation_origin_update=REF),
            {"derivationUpdate": {"source": SHOWN, "derived": SHOWN}, "derivationOriginUpdate": SHOWN},
        ),
        (
            InteropEvent(replace_block=Replacement(REF, b"\x03" * 32)),
            {"replaceBlock": {"replacement": SHOWN, "invalidated": "0x" + "03" * 32}},
        ),
    ],
)
def test_events_as_json(event: InteropEvent, shown: dict[str, Any]) -> None:
    assert shown_event(event) == shown
