"""Ping between two hosts."""

import pytest

from rollup_node.stages.p2p.host.io.host_api import StreamError
from rollup_node.stages.p2p.host.io.streams import Stream
from tests.support.p2p.hosts import RecordingHost, two_hosts


async def reset(stream: Stream) -> None:
    """A handler that answers nothing."""
    stream.reset()


async def test_ping_measures_latency() -> None:
    async with two_hosts() as (ours, theirs):
        assert 0 < await ours.ping.ping(theirs.peer_id) < 5
        await theirs.ping.measure_latency(ours.peer_id)
        info = ours.connection(theirs.peer_id)
        assert info is not None and info.latency is not None and 0 < info.latency < 5
        theirs.set_stream_handler("/ipfs/ping/1.0.0", reset)
        with pytest.raises(StreamError):
            await ours.ping.ping(theirs.peer_id)
        await ours.ping.measure_latency(theirs.peer_id)


def test_latency_is_a_moving_average() -> None:
    ping = RecordingHost(1).ping
    assert ping.latency(b"peer") is None
    ping.add_latency(b"peer", 1.0)
    assert ping.latency(b"peer") == 1.0
    ping.add_latency(b"peer", 2.0)
    assert ping.latency(b"peer") == pytest.approx(1.1)
