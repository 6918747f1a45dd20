"""Genesis and slot time: asked for, compared, doubted."""

import asyncio

import pytest

from rollup_node.stages.blobs.beacon_api import BeaconResponseError
from rollup_node.stages.blobs.process import beacon_clock
from rollup_node.stages.blobs.process.beacon_clock import BeaconClock
from rollup_node.stages.io.http.endpoint_errors import EndpointError

TIME = 1000 + 7 * 12


class Source:
    """An endpoint that states these values, or raises them, after `delay` seconds."""

    def __init__(self, genesis: int | Exception = 1000, slot_ms: int | Exception = 12_000, delay: float = 0.0) -> None:
        self.name = "source"
        self.genesis, self.slot_ms, self.delay = genesis, slot_ms, delay
        self.asked = 0

    async def genesis_time(self) -> int:
        self.asked += 1
        await asyncio.sleep(self.delay)
        return _value(self.genesis)

    async def slot_milliseconds(self) -> int:
        return _value(self.slot_ms)


def _value(value: int | Exception) -> int:
    if isinstance(value, Exception):
        raise value
    return value


async def test_sources_are_asked_once_and_compared_with_l1(capsys: pytest.CaptureFixture[str]) -> None:
    sources = [Source(1001), Source()]
    clock = BeaconClock(sources, None)
    assert [await clock.slot_at(TIME + 12 * n) for n in range(3)] == [7, 8, 9]
    assert [source.asked for source in sources] == [1, 1]
    assert str(clock) == "genesis time 1000, 12000 ms a slot"
    assert capsys.readouterr().err.count("contradict each other") == 1


async def test_a_doubted_clock_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[BCN16]"""
    source = Source(940)
    clock = BeaconClock([source], None)
    assert await clock.slot_at(TIME) == 12
    source.genesis = 1000
    clock.doubt()
    assert await clock.slot_at(TIME) == 12, "too soon"
    monkeypatch.setattr(beacon_clock, "RECHECK_SECONDS", 0.0)
    assert await clock.slot_at(TIME) == 7
    assert source.asked == 2
    await clock.slot_at(TIME)
    assert source.asked == 2, "not doubted"
    clock.doubt()
    source.genesis = EndpointError("source", "is away")
    assert await clock.slot_at(TIME) == 7, "the clock known before stays"
    assert "corrected themselves code=BEACON-CHAIN before=genesis time 940" in capsys.readouterr().err


@pytest.mark.fault("F19")
async def test_statements_of_several_sources_complete_each_other() -> None:
    broken = BeaconResponseError("no number")
    clock = BeaconClock([Source(slot_ms=broken), Source(genesis=broken)], None)
    assert await clock.slot_at(TIME) == 7
    with pytest.raises(EndpointError, match="source: no number"):
        await BeaconClock([Source(genesis=broken)], None).slot_at(TIME)
    assert await BeaconClock([Source(slot_ms=broken)], 6).slot_at(TIME) == 14


@pytest.mark.fault("F20")
async def test_a_slow_source_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beacon_clock, "COMPARE_SECONDS", 0.05)
    assert await BeaconClock([Source(988, delay=60.0), Source()], None).slot_at(TIME) == 7


async def test_a_time_between_slots_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    assert await BeaconClock([Source()], None).slot_at(TIME + 5) == 7
    assert "no slot starts at the time of an L1 block" in capsys.readouterr().err
