"""The table of all reasons."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from rollup_node.stages.derivation.reasons import table
from rollup_node.stages.derivation.reasons.channels import ChannelEnd
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.derivation.reasons.table import MODULES, REASONS
from rollup_node.stages.derivation.tasks import DecodedChannel

ROOT = Path(__file__).parents[4]
RULE = re.compile(r"\*\*([A-Z]+\d+(?:\.\d+|[a-z])?)\*\*")
EXAMPLES: dict[type, int | str | bytes] = {int: 7, str: "x", bytes: b"\1\2"}


def example(reason: type[Reason]) -> Reason:
    """Return a reason of this class with some values."""
    values = [EXAMPLES[field.type] for field in msgspec.structs.fields(reason)]
    return msgspec.convert([reason.__name__, *values], reason)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.name)
def test_texts_show_every_field(reason: type[Reason]) -> None:
    shown = str(example(reason))
    for field in msgspec.structs.fields(reason):
        assert "{" + field.name + "}" in reason.text
    assert "{" not in shown and shown


def test_every_module_of_reasons_is_in_the_table() -> None:
    folder = Path(str(table.__file__)).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "reason", "table"}
    assert {module.__name__.rpartition(".")[2] for module in MODULES} == modules
    assert len(REASONS) == len(set(REASONS)) == 104


def test_every_reason_follows_a_rule_of_the_documents() -> None:
    texts = [path.read_text() for path in (ROOT / "docs" / "rules").glob("derivation*.md")]
    rules = {rule for text in texts for rule in RULE.findall(text)}
    assert {reason.rule for reason in REASONS} <= rules


def test_ends_of_channels_travel_between_processes() -> None:
    ends: tuple[type[ChannelEnd], ...] = get_args(ChannelEnd)
    assert len(ends) == 14
    for reason in ends:
        end = example(reason)
        assert isinstance(end, ChannelEnd)
        result = DecodedChannel((), end)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=DecodedChannel) == result
