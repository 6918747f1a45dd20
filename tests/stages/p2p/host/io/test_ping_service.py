"""Ping between two hosts."""

import pytest

from rollup_node.stages.p2p.host.io.host_api import (
    Stream,
    StreamError,
)
from rollup_node.stages.p2p.host.io.ping_service import Latency
from tests.support.p2p.hosts import RecordingHost, with_two_hosts


async def reset(stream: Stream) -> None:
    """A handler that answers nothing."""
    stream.reset()


def test_ping_measures_latency() -> None:
    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        assert 0 < await ours.ping.ping(theirs.peer_id) < 5
        await theirs.ping.measure_latency(ours.peer_id)
        info = ours.connection(theirs.peer_id)
        assert info is not None and info.latency is not None and 0 < info.latency < 5
        theirs.set_stream_handler("/ipfs/ping/1.0.0", reset)
        with pytest.raises(StreamError):
            await ours.ping.ping(theirs.peer_id)
        await ours.ping.measure_latency(theirs.peer_id)

    with_two_hosts(test)


def test_latency_is_a_moving_average() -> None:
    latency = Latency()
    assert latency.average is None
    latency.add(1.0)
    assert latency.average == 1.0
    latency.add(2.0)
    assert latency.average == pytest.approx(1.1)
