"""Events for a supervisor, subscribed to or pulled [IOP5, IOP6, IOP21, IOP22]. The `interop` namespace:
parameters, and what goes to the engine process [IOP5 to IOP19]."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.messages.interop import (
    DerivedPair,
    InteropEvent,
    InteropEvents,
    InteropEventsRequest,
    InteropRequest,
    InteropResponse,
    Replacement,
)
from rollup_node.stages.protocol.types import BlockId, BlockRef
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.parameters import parse_params
from rollup_node.stages.rpc.process.interop_methods import (
    MAX_QUEUED,
    EventStream,
    InteropClient,
    interop_methods,
    shown_event,
)
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses

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


BLOCK = {"hash": "0x" + "01" * 32, "number": 7}
ID = BlockId(7, b"\x01" * 32)


class Engine:
    """The engine process: it keeps the calls, and fails those of `failing` methods."""

    def __init__(self, directory: Path) -> None:
        self.buses = in_process_buses(CHANNELS, directory, {"engine": 1, "rpc": 1})
        self.calls: list[InteropRequest] = []
        self.failing: set[str] = set()
        self._server = self.buses["engine"].serve("engine.interop", self._take)
        self.client = InteropClient(self.buses["rpc"])
        self.methods = {method.name: method for method in interop_methods(self.client)}

    def _take(self, peer: ProcessId, message: InteropEventsRequest | InteropRequest) -> None:
        if isinstance(message, InteropEventsRequest):
            events = tuple((number, InteropEvent(reset=str(number))) for number in (1, 2) if number > message.after)
            self._server.send(peer, InteropEvents(events))
            return
        self.calls.append(message)
        if message.method in self.failing:
            self._server.send(peer, InteropResponse(message.id, b"null", "conflicting block", -39002, b'{"number":3}'))
        else:
            self._server.send(peer, InteropResponse(message.id, b'"done"'))

    async def call(self, name: str, *params: Any) -> Any:
        """Return a call as the server makes it, without a node."""
        method = self.methods[f"interop_{name}"]
        return await method.run(None, *parse_params(list(params), method.parsers))


async def test_calls_go_to_the_engine_process(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    async with running_buses(engine.buses), asyncio.timeout(10):
        provided = {**BLOCK, "parentHash": "0x" + "02" * 32, "timestamp": 70}
        calls: list[tuple[str, tuple[Any, ...], InteropRequest]] = [
            ("updateCrossUnsafe", (BLOCK,), InteropRequest(0, "updateCrossUnsafe", (ID,))),
            ("updateCrossSafe", (BLOCK, BLOCK), InteropRequest(0, "updateCrossSafe", (ID, ID))),
            ("invalidateBlock", ({**BLOCK, "timestamp": 9},), InteropRequest(0, "invalidateBlock", (ID,))),
            ("reset", (BLOCK,) * 5, InteropRequest(0, "reset", (ID,) * 5)),
            ("resetPreInterop", (), InteropRequest(0, "resetPreInterop")),
            ("fetchReceipts", (BLOCK["hash"],), InteropRequest(0, "fetchReceipts", (BlockId(0, ID.hash),))),
            ("outputV0AtTimestamp", (70,), InteropRequest(0, "outputV0AtTimestamp", number=70)),
            ("provideL1", (provided,), InteropRequest(0, "provideL1", l1=BlockRef(ID.hash, 7, b"\x02" * 32, 70))),
        ]
        for number, (name, params, request) in enumerate(calls, 1):
            assert orjson.dumps(await engine.call(name, *params)) == b'"done"'
            assert engine.calls[-1] == InteropRequest(number, name, request.blocks, request.l1, request.number)
        engine.failing.add("reset")
        with pytest.raises(JsonRpcError, match="conflicting block") as caught:
            await engine.call("reset", *(BLOCK,) * 5)
        assert caught.value.code == -39002 and orjson.dumps(caught.value.data) == b'{"number":3}'


@pytest.mark.parametrize(
    ("name", "params", "text"),
    [
        ("outputV0AtTimestamp", ("0x46",), "cannot unmarshal string into Go value of type uint64"),
        ("provideL1", ([],), "cannot unmarshal array into Go value of type eth.BlockRef"),
        ("invalidateBlock", (7,), "cannot unmarshal number into Go value of type types.BlockSeal"),
        ("reset", (BLOCK,) * 4, "missing value for required argument 4"),
    ],
)
async def test_malformed_parameters(tmp_path: Path, name: str, params: tuple[Any, ...], text: str) -> None:
    engine = Engine(tmp_path)
    async with running_buses(engine.buses):
        with pytest.raises(JsonRpcError, match=text):
            await engine.call(name, *params)


async def test_events_are_asked_for_and_pulled(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    async with running_buses(engine.buses), asyncio.timeout(10):
        while engine.client.stream.last < 2:
            await engine.client.periodic_task.step()
            await asyncio.sleep(0.01)
        assert [await engine.call("pullEvent"), await engine.call("pullEvent")] == [{"reset": "1"}, {"reset": "2"}]
        with pytest.raises(JsonRpcError, match="out of events"):
            await engine.call("pullEvent")
        with pytest.raises(JsonRpcError, match="notifications not supported"):
            await engine.call("subscribe", "events")
