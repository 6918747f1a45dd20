"""Reasons: their declaration, texts and labels, and all of them."""

import re
from pathlib import Path
from typing import cast, get_args

import msgspec
import pytest

from rollup_node.stages.derivation.reasons.channels import ChannelEnd
from rollup_node.stages.derivation.reasons.l1 import FrameOutOfOrder, FramesEmpty, FrameTruncated
from rollup_node.stages.derivation.reasons.reason import PHRASES, Dropped, Reason, reason
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.tools.importers.drop_reasons import REASONS
from tests.conformance.kit.chain import L1Blocks

ID = b"\xab" * 16
ROOT = Path(__file__).parents[4]
RULE = re.compile(r"\*\*([A-Z]+\d+(?:\.\d+|[a-z])?)\*\*")
EXAMPLES: dict[type, int | str | bytes] = {int: 7, str: "x", bytes: b"\1\2"}


def example(declared: type[Reason]) -> Reason:
    """Return a reason of this class with some values."""
    values = [EXAMPLES[field.type] for field in msgspec.structs.fields(declared)]
    return msgspec.convert([declared.__name__, *values], declared)


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


def test_texts_show_every_field() -> None:
    for declared in REASONS:
        shown = str(example(declared))
        for field in msgspec.structs.fields(declared):
            assert "{" + field.name + "}" in declared.text
        assert "{" not in shown and shown


def test_every_module_of_reasons_is_in_the_table() -> None:
    folder = ROOT / "stages" / "derivation" / "reasons"
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "reason"}
    assert {declared.__module__.rpartition(".")[2] for declared in REASONS} == modules
    assert len(REASONS) == len(set(REASONS)) == 104


def test_every_reason_follows_a_rule_of_the_documents() -> None:
    texts = [path.read_text() for path in (ROOT / "docs" / "rules").glob("derivation*.md")]
    rules = {rule for text in texts for rule in RULE.findall(text)}
    assert {declared.rule for declared in REASONS} <= rules


def test_ends_of_channels_travel_between_processes() -> None:
    ends: tuple[type[ChannelEnd], ...] = get_args(ChannelEnd)
    assert len(ends) == 14
    for declared in ends:
        end = example(declared)
        assert isinstance(end, ChannelEnd)
        result = DecodedChannel((), end)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=DecodedChannel) == result
