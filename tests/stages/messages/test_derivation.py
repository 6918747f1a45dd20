"""Drops as JSON objects."""

from rollup_node.stages.messages.derivation import Drop, DropEffect
from tests.conformance.kit.chain import L1Blocks


def test_a_drop_as_json() -> None:
    origin = L1Blocks().last.ref
    drop = Drop("P1", "frames ignored: no bytes [P1]", origin, False, DropEffect.IGNORED, "frames_empty", {"a": 1})
    assert drop.shown() == {
        "l1_block": {"hash": f"0x{origin.hash.hex()}", "number": origin.number},
        "effect": "ignored",
        "rule": "P1",
        "reason": "frames_empty",
        "text": "frames ignored: no bytes [P1]",
        "values": {"a": 1},
    }


def test_a_drop_without_an_l1_block() -> None:
    assert Drop("AQ3", "", None, False, DropEffect.DISCARDED, "", {}).shown()["l1_block"] is None
