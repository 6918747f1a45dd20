"""The cache of results is bounded."""

from rollup_node.stages.derivation.process.decoded_channels import DecodedChannelCache
from rollup_node.stages.derivation.tasks import DecodedChannel


def test_results_are_bounded() -> None:
    cache = DecodedChannelCache(3000)
    for number in range(8):
        cache.put(b"%d" % number, DecodedChannel((), None))
        cache.get(b"0")
    assert b"0" in cache
    assert b"1" not in cache
    assert cache.bytes <= 3000
