"""What batches ahead of derivation name as their parents [UPG24]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.derivation.codec.batches import DecodedBatch, RejectedBatch, SingularBatch, SpanBatch
from rollup_node.stages.derivation.process.batch_parents import MANY_REPEATS, MAX_CHANNELS, MAX_PARENTS, BatchParents
from rollup_node.stages.derivation.reasons.channels import SpanTransactionInvalid
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.messages.engine import AttributesAhead, AttributesReady, BatchParent
from tests.support.chains.chain_fixture import ALL_FORKS, GENESIS_TIME, ChainFixture, chain_with


@pytest.fixture
def chain() -> ChainFixture:
    """Lagoon activates in its first block."""
    return chain_with({**dict.fromkeys((*ALL_FORKS, "karst"), 0), "lagoon": GENESIS_TIME + 2})


def ready(chain: ChainFixture) -> AttributesReady:
    attributes = chain.attributes(chain.genesis, 100)
    return AttributesReady(1, 1, chain.genesis, attributes, chain.l1_ref(101), True)


def singular(number: int, parent: bytes, off: int = 0) -> SingularBatch:
    return SingularBatch(parent, 100, bytes(32), GENESIS_TIME + 2 * number + off, ())


def span(number: int, parent: bytes) -> SpanBatch:
    return SpanBatch(parent, bytes(20), GENESIS_TIME + 2 * number, 2, 1, 100, 100, b"\0", b"\0", ())


def named(chain: ChainFixture, *channels: tuple[DecodedBatch, ...]) -> Any:
    result = {bytes([index]): DecodedChannel(batches, None) for index, batches in enumerate(channels)}
    parents = BatchParents(chain.rollup, result.get)
    for key in (*result, b"not decoded yet"):
        parents.add(key)
        parents.add(key)
    (message,) = parents.attach([ready(chain)])
    assert isinstance(message, AttributesReady)
    return message.parents


def test_hashes_and_checks_from_the_activation_block_on(chain: ChainFixture) -> None:
    result = named(
        chain,
        (span(1, b"\x01" * 20), span(9, b"\x09" * 20), RejectedBatch(SpanTransactionInvalid(0, "of type 5"))),
        (singular(2, b"\x02" * 32), singular(2, b"\x02" * 32)),
    )
    assert result == (BatchParent(1, b"\x02" * 32), BatchParent(8, b"\x09" * 20))


def test_times_between_blocks_and_before_the_chain_name_nothing(chain: ChainFixture) -> None:
    assert named(chain, (singular(4, b"\x01" * 32, off=1), singular(0, b"\x01" * 32), singular(-3, b"\x01" * 32))) == ()


def test_they_are_bounded(chain: ChainFixture) -> None:
    many = tuple(singular(number, b"\x01" * 32) for number in range(2, 2 * MAX_PARENTS))
    assert [item.number for item in named(chain, many)] == list(range(1, MAX_PARENTS + 1))
    parents = BatchParents(chain.rollup, lambda key: DecodedChannel((singular(2, key),), None))
    for index in range(MAX_CHANNELS + 5):
        parents.add(index.to_bytes(32, "big"))
    (message,) = parents.attach([ready(chain)])
    assert isinstance(message, AttributesReady) and len(message.parents) == MAX_PARENTS
    assert message.parents[0].hash == (5).to_bytes(32, "big")


def test_other_messages_and_blocks_are_left_alone(chain: ChainFixture) -> None:
    parents = BatchParents(chain.rollup, lambda key: DecodedChannel((singular(2, key),), None))
    parents.add(b"\x01" * 32)
    later = msgspec.structs.replace(ready(chain).attributes, timestamp=GENESIS_TIME + 4)
    messages = [msgspec.structs.replace(ready(chain), attributes=later), AttributesAhead((ready(chain),))]
    assert parents.attach(messages) == messages


def test_a_new_start_forgets_the_channels_before(chain: ChainFixture) -> None:
    parents = BatchParents(chain.rollup, lambda key: DecodedChannel((singular(2, key),), None))
    parents.add(b"\x01" * 32)
    parents.restart()
    assert parents.attach([ready(chain)]) == [ready(chain)]


def test_attributes_that_are_repeated_for_long_are_waited_for(chain: ChainFixture) -> None:
    parents, derived = BatchParents(chain.rollup, lambda key: None), ready(chain)
    for _ in range(MANY_REPEATS - 1):
        parents.attach([derived])
    assert not parents.waits(derived) and not parents.waits(None)
    parents.attach([derived])
    assert parents.waits(derived) and not parents.waits(msgspec.structs.replace(derived, sequence=2))
    parents.restart()
    assert not parents.waits(derived)


def test_channels_before_the_one_that_is_read_count_no_more(chain: ChainFixture) -> None:
    """[UPG24] After an L1 reorg its first blocks have batches of blocks that the sequencer has replaced."""
    parents = BatchParents(chain.rollup, lambda key: DecodedChannel((singular(2, key * 32),), None))

    def names() -> list[bytes]:
        (message,) = parents.attach([ready(chain)])
        assert isinstance(message, AttributesReady)
        return [parent.hash[:1] for parent in message.parents]

    for key in (b"1", b"2", b"3"):
        parents.add(key)
    parents.read(b"0")
    assert names() == [b"0", b"1", b"2", b"3"], "it was open before the others were followed"
    parents.read(b"2")
    assert names() == [b"2", b"3"]
    parents.read(b"4")
    assert names() == [b"3", b"4"]
