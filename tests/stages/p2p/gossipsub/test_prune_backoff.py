"""Prune backoff: never shortened, ends after its time and slack, bounded."""

from rollup_node.stages.p2p.gossipsub.prune_backoff import MAX_PER_TOPIC, PruneBackoff


def test_backoff() -> None:
    backoff = PruneBackoff(2.0)
    assert backoff.ends_at("t", b"p") is None and not backoff.blocks_graft("t", b"p")
    backoff.add("t", b"p", 60.0, 100.0)
    backoff.add("t", b"p", 10.0, 100.0)
    assert backoff.ends_at("t", b"p") == 160.0 and not backoff.blocks_graft("u", b"p")
    backoff.clear_expired(162.0)
    assert backoff.blocks_graft("t", b"p")
    backoff.clear_expired(162.1)
    assert not backoff.blocks_graft("t", b"p") and len(backoff) == 0


def test_memory_is_bounded() -> None:
    backoff = PruneBackoff(2.0)
    for number in range(MAX_PER_TOPIC + 10):
        backoff.add("t", number.to_bytes(4, "big"), 60.0, 0.0)
    assert len(backoff) == MAX_PER_TOPIC and not backoff.blocks_graft("t", bytes(4))
