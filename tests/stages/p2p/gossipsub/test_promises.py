"""Promises: fulfilled by any peer, broken after the follow-up time, counted once."""

from rollup_node.stages.p2p.gossipsub.promises import GossipPromises

A, B = b"a" * 20, b"b" * 20


def test_promises() -> None:
    promises = GossipPromises(3.0)
    promises.add(b"p", A, 10.0)
    promises.add(b"p", A, 12.0)
    promises.add(b"q", A, 12.0)
    promises.add(b"p", B, 10.0)
    promises.fulfill(B)
    promises.fulfill(b"never promised")
    assert len(promises) == 2
    assert promises.broken(13.0) == {}
    assert promises.broken(13.1) == {b"p": 1}
    assert promises.broken(16.0) == {b"q": 1}
    assert promises.broken(99.0) == {} and len(promises) == 0
