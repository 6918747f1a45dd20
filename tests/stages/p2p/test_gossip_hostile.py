"""What a hostile peer can do to a router: nothing to its memory, little to its time, and it is scored for it."""

import random
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from rollup_node.stages.p2p.blocks.signing import UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.validation import BlockValidator, ValidationFailure
from rollup_node.stages.p2p.encoding import varint
from rollup_node.stages.p2p.encoding.snappy import MAX_BYTES
from rollup_node.stages.p2p.gossipsub.message import ValidationResult
from rollup_node.stages.p2p.gossipsub.router import MalformedRpc
from rollup_node.stages.p2p.gossipsub.rpc import (
    ControlMessage,
    IHave,
    Prune,
    PubsubMessage,
    Rpc,
    Subscription,
    encode_rpc,
)
from tests.support.gossip_routers import TOPIC, RouterHarness, compressed, id_of
from tests.support.p2p_blocks import SIGNER, block, chain_config, signed

GOOD, BAD = b"000", b"bad"


def attacked() -> RouterHarness:
    harness = RouterHarness()
    assert harness.add_members(8)[0] == GOOD
    harness.add_peer("bad")
    return harness


def still_serves(harness: RouterHarness, content: bytes = b"good block") -> bool:
    """Whether a good peer's block is judged, and passed on to the other good ones."""
    return harness.accept(GOOD, content) >= 7


def test_a_flood_of_grafts() -> None:
    harness = attacked()
    harness.receive_control(BAD, graft=[TOPIC])
    harness.heartbeats(60)
    harness.receive_control(BAD, prune=[Prune(TOPIC, 60)])
    totals = []
    for _ in range(10):
        harness.receive_control(BAD, graft=[TOPIC])
        totals.append(harness.scorer.score(BAD))
    assert BAD not in harness.mesh
    assert totals == [0.0, 0.0, 0.0, -64.0, -64.0, -64.0, -64.0, -64.0, -64.0, -64.0]
    assert harness.scorer.score(BAD) < harness.scorer.thresholds.graylist, "it is not even listened to any more"
    assert still_serves(harness)
    harness.heartbeats(240)
    assert harness.scorer.score(BAD) == 0.0, "it decays"


def test_a_flood_of_promises() -> None:
    harness = attacked()
    for round_number in range(20):
        for number in range(100):
            start = (round_number * 100 + number) * 50
            harness.receive_control(
                BAD, ihave=[IHave(TOPIC, [(start + each).to_bytes(20, "big") for each in range(50)])]
            )
        harness.sent_to(BAD)
        harness.heartbeats()
        assert len(harness.router.lazy_gossip.promises) <= 10 * 7
    assert harness.scorer.score(BAD) < -40.0
    assert not harness.receive_message(BAD, b"anything")
    assert still_serves(harness)


def test_a_flood_of_iwant() -> None:
    harness = attacked()
    harness.accept(GOOD, b"block")
    for _ in range(1000):
        harness.receive_control(BAD, iwant=[id_of(b"block")] * 20)
    assert len(harness.sent_to(BAD).messages) == 3
    assert still_serves(harness)


def test_a_flood_of_idontwant() -> None:
    harness = attacked()
    for number in range(300):
        harness.receive_control(BAD, idontwant=[(number * 100 + each).to_bytes(20, "big") for each in range(100)])
    assert len(harness.router.peers.states[BAD].unwanted) == 1000
    harness.heartbeats(3)
    assert not harness.router.peers.states[BAD].unwanted
    assert still_serves(harness)


def test_a_peer_that_does_not_read() -> None:
    harness = attacked()
    harness.receive_control(BAD, graft=[TOPIC])
    assert BAD in harness.mesh
    for number in range(600):
        harness.accept(GOOD, number.to_bytes(40, "big") * 50)
        if number % 10 == 0:
            harness.heartbeats()
        for peer in harness.mesh:
            if peer != BAD:
                harness.sent_to(peer)
    outbox = harness.router.peers.states[BAD].rpc_queue
    assert len(outbox) <= 256 and outbox.bytes <= 20 << 20
    assert still_serves(harness)


def test_replays_within_and_beyond_the_seen_time() -> None:
    harness = attacked()
    signers = UnsafeBlockSigners()
    signers.update(SIGNER.address, 0.0)
    validator = BlockValidator(chain_config(), signers)
    payload = block()
    content = signed(payload)

    def arrives(after: float) -> list[ValidationFailure | None]:
        harness.now = start + after
        found = harness.receive_message(BAD, content)
        judged = [validator.validate(4, each.content, payload.timestamp + after, harness.now) for each in found]
        for each, judgement in zip(found, judged, strict=True):
            harness.router.report_validation_result(each.id, judgement.result, harness.now)
        return [judgement.failure for judgement in judged]

    start = harness.now
    assert arrives(0.0) == [None]
    assert [arrives(after) for after in (0.1, 1.0, 30.0, 64.9)] == [[]] * 4
    assert arrives(65.1) == [ValidationFailure.TOO_OLD]
    patient = BlockValidator(chain_config(), signers, max_age=1000.0)
    for after, expected in ((131.0, None), (197.0, ValidationFailure.SEEN), (263.0, ValidationFailure.SEEN)):
        harness.now = start + after
        (incoming,) = harness.receive_message(BAD, content)
        assert patient.validate(4, incoming.content, payload.timestamp + after, harness.now).failure is expected
        harness.router.report_validation_result(incoming.id, ValidationResult.IGNORE, harness.now)


def junk(chance: random.Random) -> Iterator[bytes]:
    """Wild messages: some well-formed with odd values, some cut, changed or random."""
    good = encode_rpc(
        Rpc(
            [Subscription(TOPIC, True)],
            [PubsubMessage(TOPIC, compressed(b"some block")), PubsubMessage("/else", b"")],
            ControlMessage([IHave(TOPIC, [b"a" * 20])], [b"b" * 20], [TOPIC], [Prune(TOPIC, 60)], [b"c" * 20]),
        )
    )
    while True:
        data = bytearray(good if chance.random() < 0.8 else chance.randbytes(chance.randint(0, 60)))
        for _ in range(chance.randint(0, 4)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        yield bytes(data[: chance.randint(0, len(data))] if chance.random() < 0.2 else data)


def test_any_bytes_decode_or_raise() -> None:
    harness, chance = attacked(), random.Random(7)
    wild = junk(chance)
    for number in range(800):
        found = harness.router.receive_rpc(BAD, next(wild), harness.now)
        for incoming in [] if isinstance(found, MalformedRpc) else found:
            harness.router.report_validation_result(incoming.id, chance.choice(list(ValidationResult)), harness.now)
        if number % 50 == 0:
            harness.heartbeats()
            for peer in list(harness.router.peers.states):
                harness.sent_to(peer)
    assert still_serves(harness)


def floods() -> dict[str, Callable[[int], Rpc]]:
    """Messages without end, by number."""

    def message(data: bytes) -> Rpc:
        return Rpc(messages=[PubsubMessage(TOPIC, data)])

    def ids(number: int) -> list[bytes]:
        return [number.to_bytes(8, "big") + bytes([each]) * 56 for each in range(20)]

    return {
        "subscriptions": lambda n: Rpc([Subscription(f"/t/{n}/{each}", True) for each in range(10)]),
        "junk": lambda n: message(compressed(n.to_bytes(8, "big") * 200)),
        "bombs": lambda n: message(compressed(n.to_bytes(8, "big") + bytes(MAX_BYTES // 8))),
        "claims": lambda n: message(varint.encode(MAX_BYTES) + n.to_bytes(8, "big")),
        "ids": lambda n: Rpc(control=ControlMessage([IHave(TOPIC, ids(n))], ids(n), idontwant=ids(n))),
        "grafts": lambda n: Rpc(control=ControlMessage(graft=[TOPIC, f"/t/{n}"], prune=[Prune(f"/t/{n}", n)])),
    }


@pytest.mark.parametrize("kind", list(floods()))
def test_memory_stays_bounded(kind: str) -> None:
    harness, make = attacked(), floods()[kind]

    def attack(numbers: range) -> None:
        for number in numbers:
            found = harness.router.receive_rpc(BAD, encode_rpc(make(number)), harness.now)
            for incoming in [] if isinstance(found, MalformedRpc) else found:
                harness.router.report_validation_result(incoming.id, ValidationResult.REJECT, harness.now)
            if number % 25 == 0:
                harness.heartbeats()
                for peer in harness.router.peers.states:
                    while harness.router.next_frame(peer) is not None:
                        pass

    tracemalloc.start()
    try:
        attack(range(200))
        before = tracemalloc.get_traced_memory()[0]
        attack(range(200, 500))
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 300_000
    assert still_serves(harness)
