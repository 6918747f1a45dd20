"""Reasons: their declaration, texts and labels."""

from typing import cast

import msgspec
import pytest

from rollup_node.stages.derivation.reasons.l1 import FrameOutOfOrder, FramesEmpty, FrameTruncated
from rollup_node.stages.derivation.reasons.reason import PHRASES, Dropped, Reason, reason
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.chain import L1Blocks

ID = b"\xab" * 16


def test_the_text_comes_first_and_the_rule_last() -> None:
    dropped = Dropped(DropEffect.IGNORED, FrameTruncated(frame=1, offset=30, field="length"), None)
    assert str(dropped) == "frames ignored: frame 1 at offset 30 is cut off in its length [P5]"


def test_bytes_are_shown_in_hex() -> None:
    out_of_order = FrameOutOfOrder(number=3, channel=ID, previous=1)
    assert out_of_order.values == {"number": 3, "channel": f"0x{ID.hex()}", "previous": 1}
    assert f"channel 0x{ID.hex()} follows frame 1" in str(out_of_order)


def test_the_label_is_rule_and_name() -> None:
    assert Dropped(DropEffect.IGNORED, FramesEmpty(), L1Blocks().last.ref).label == "P1 frames_empty"
    assert FrameOutOfOrder.name == "frame_out_of_order"


def test_every_effect_has_a_phrase() -> None:
    assert PHRASES.keys() == set(DropEffect)


def test_a_text_names_fields_only() -> None:
    with pytest.raises(ValueError, match="Misspelt has no fields"):

        @reason("P5", "frames", "frame {frame}")
        class Misspelt(Reason, frozen=True):
            fram: int


def test_a_name_is_declared_once() -> None:
    declare = reason("P1", "frames", "no bytes")
    with pytest.raises(ValueError, match="two reasons have the name frames_empty"):
        declare(cast(type[Reason], msgspec.defstruct("FramesEmpty", [], bases=(Reason,), frozen=True)))
