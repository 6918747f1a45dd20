"""The transactions of a course that concern its rollup."""

from rollup_node.stages.blobs import kzg
from rollup_node.stages.protocol.blob_codec import decode_blob
from rollup_node.stages.protocol.deposits import decode_deposit, user_deposits
from rollup_node.stages.protocol.hex_encoding import from_hex
from rollup_node.stages.protocol.system_config import apply_updates
from rollup_node.stages.protocol.types import Log
from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.l1_events import (
    BLOBS_PER_TRANSACTION,
    batcher_transactions,
    deposit,
    gas_limit_change,
)
from rollup_node.tools.devnet.l1.sidecars import Blob


def test_a_deposit_decodes(course: CourseFiles) -> None:
    included = deposit(course.config, 3)
    encoded, failures = user_deposits([Log(*included.logs[0], 5)], b"\x01" * 32)
    assert failures == ()
    found = decode_deposit(encoded[0])
    assert (found.sender, found.mint, found.gas) == (included.sender, 10**15 + 3, 100_000)


def test_a_gas_limit_change_applies(course: CourseFiles) -> None:
    config, log = course.config, Log(*gas_limit_change(course.config, 31_000_000).logs[0], 0)
    found, skipped = apply_updates(config.genesis.system_config, [log], config.schedule().l1(config.genesis.l2_time))
    assert (found.gas_limit, skipped) == (31_000_000, ())


def test_blobs_carry_a_channel_and_have_proofs(course: CourseFiles) -> None:
    for hashes in course.facts.blobs.values():
        commitments = [course.body(f"sidecar/{name}") for name in hashes]
        assert all(b"kzg_proof" in each for each in commitments)
        blobs = [from_hex(course.body(f"blob/{name}")[1:-1].decode()) for name in hashes]
        assert [kzg.versioned_hash(kzg.blob_to_commitment(blob)).hex() for blob in blobs] == [
            name[2:] for name in hashes
        ]
        assert all(decode_blob(blob)[0] == 0 for blob in blobs)


def test_many_blobs_are_spread_over_transactions() -> None:
    blobs = [Blob(b"", bytes((number,)) * 48, b"") for number in range(BLOBS_PER_TRANSACTION + 2)]
    included = batcher_transactions(b"\xff" * 20, 4, blobs)
    assert [len(each.transaction.blob_hashes) for each in included] == [BLOBS_PER_TRANSACTION, 2]
    assert [each.transaction.nonce for each in included] == [4, 5]
