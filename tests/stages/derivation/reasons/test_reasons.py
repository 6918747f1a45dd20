"""Every reason can be told, and says which rule it follows."""

import re

import msgspec
import pytest

from rollup_node.stages.derivation.reasons.reasons import Dropped, Effect, Reason, Why
from rollup_node.stages.protocol.types import L1BlockRef


@pytest.mark.parametrize("why", list(Why), ids=lambda why: why.name)
def test_every_reason_can_be_told(why: Why) -> None:
    places = re.findall(r"{(\w+)}", why.value.text)
    reason = why(**{place: b"\x01\x02" for place in places})
    assert reason.why is why
    assert str(reason).count("0x0102") == len(places)
    dropped = Dropped(Effect.DROPPED, reason, L1BlockRef(bytes(32), 5, bytes(32), 7))
    assert f"(rule {why.value.id})" in str(dropped)
    assert dropped.label.startswith(why.value.id)


def test_members_are_distinct() -> None:
    assert len(Why.__members__) == len(list(Why)), "two members with the same rule and text are one"


def test_reasons_travel() -> None:
    dropped = Dropped(Effect.PAST, Why.TIME_OLD(timestamp=5, next=7), None)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(dropped), type=Dropped) == dropped
    assert isinstance(dropped.reason, Reason)
