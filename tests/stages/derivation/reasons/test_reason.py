"""Reasons: their declaration, texts and labels, and all of them."""

import re
from pathlib import Path
from typing import Any, get_args

import msgspec

from rollup_node.stages.derivation.reasons.batches import L1WindowEmpty
from rollup_node.stages.derivation.reasons.l1 import FrameOutOfOrder, FramesEmpty, FrameTruncated
from rollup_node.stages.derivation.reasons.reason import PHRASES, Dropped, Reason
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.tools.importers.drop_reasons import REASONS
from tests.conformance.kit.chain import L1Blocks

ID = b"\xab" * 16
ROOT = Path(__file__).parents[4]
RULE = re.compile(r"\*\*([A-Z]+\d+(?:\.\d+|[a-z])?)\*\*")
EXAMPLES: dict[type, int | str | bytes] = {int: 7, str: "x", bytes: b"\1\2"}


def example(kind: Any) -> Reason:
    """Return a reason of this kind with some values of the types that it is declared with."""
    result = kind(*(EXAMPLES[declared] for declared in get_args(kind.__orig_class__)))
    assert isinstance(result, Reason) and result.kind is kind
    return result


def test_the_text_comes_first_and_the_rule_last() -> None:
    dropped = Dropped(DropEffect.IGNORED, FrameTruncated(1, 30, "length"), None)
    assert str(dropped) == "frames ignored: frame 1 at offset 30 is cut off in its length [P5]"


def test_bytes_are_shown_in_hex() -> None:
    out_of_order = FrameOutOfOrder(3, ID, 1)
    assert out_of_order.values == {"number": 3, "channel": f"0x{ID.hex()}", "previous": 1}
    assert f"channel 0x{ID.hex()} follows frame 1" in str(out_of_order)


def test_the_label_is_rule_and_name() -> None:
    assert Dropped(DropEffect.IGNORED, FramesEmpty(), L1Blocks().last.ref).label == "P1 frames_empty"
    assert L1WindowEmpty.name == "l1_window_empty"


def test_every_effect_has_a_phrase() -> None:
    assert PHRASES.keys() == set(DropEffect)


def test_every_kind_has_a_value_for_each_field() -> None:
    for kind in REASONS:
        assert "{" not in str(example(kind)) and len(kind.fields) == len(set(kind.fields))
    assert len({kind.name for kind in REASONS}) == len(REASONS) == 104


def test_every_reason_follows_a_rule_of_the_documents() -> None:
    texts = [path.read_text() for path in (ROOT / "docs" / "rules").glob("derivation*.md")]
    rules = {rule for text in texts for rule in RULE.findall(text)}
    assert {kind.rule for kind in REASONS} <= rules


def test_ends_of_channels_travel_between_processes() -> None:
    for kind in REASONS:
        result = DecodedChannel((), example(kind))
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=DecodedChannel) == result
