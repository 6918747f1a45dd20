"""Signatures of sync committees [LCP2]."""

import pytest

from rollup_node.stages.l1.light_client.bls import fast_aggregate_verify, public_keys
from rollup_node.tools.devnet.l1.sync_committee import CommitteeKeys

KEYS = CommitteeKeys(b"seed", 4)
ROOT = b"\x07" * 32


def test_an_aggregate_is_that_of_exactly_its_signers() -> None:
    points = public_keys(KEYS.committee.pubkeys)
    some = KEYS.sign(ROOT, (True, False, True, True)).signature
    assert fast_aggregate_verify([points[0], points[2], points[3]], ROOT, some)
    assert not fast_aggregate_verify(points, ROOT, some)
    assert not fast_aggregate_verify([points[0], points[2], points[3]], b"\x08" * 32, some)
    assert fast_aggregate_verify(public_keys([KEYS.committee.aggregate_pubkey]), ROOT, KEYS.sign(ROOT).signature)


@pytest.mark.parametrize("signature", [bytes(96), b"\xc0" + bytes(95), b"\xff" * 96, b"", b"\1" * 95])
def test_what_is_no_signature_verifies_nothing(signature: bytes) -> None:
    """Among them the point at infinity, which is the sum of no signatures."""
    assert not fast_aggregate_verify(public_keys(KEYS.committee.pubkeys), ROOT, signature)
    assert not fast_aggregate_verify([], ROOT, b"\xc0" + bytes(95))


@pytest.mark.parametrize("key", [b"\xc0" + bytes(47), b"\xff" * 48, bytes(48), b"\x80" * 47])
def test_what_is_no_key_is_an_error(key: bytes) -> None:
    with pytest.raises(ValueError):
        public_keys([key])
