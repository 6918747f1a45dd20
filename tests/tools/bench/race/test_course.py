"""The building of a course."""

from pathlib import Path

import msgspec
import orjson
import pytest

from rollup_node.stages.protocol.hex_encoding import from_hex
from rollup_node.stages.protocol.mpt import verify_account, verify_storage
from rollup_node.tools.bench.race.course import CHANGED_GAS_LIMIT, GAS_LIMIT, SIGNER_SLOT, prepare
from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.course_size import CourseSize
from rollup_node.tools.bench.race.l1_events import BATCHER


def test_a_prepared_course_is_kept(course: CourseFiles) -> None:
    bodies = course.rollup.parent / "bodies"
    before = bodies.stat().st_mtime_ns
    assert prepare(course.rollup.parent, course.facts.size) == course.facts
    assert bodies.stat().st_mtime_ns == before


def test_what_is_in_a_course(course: CourseFiles) -> None:
    facts = course.facts
    assert (len(facts.l1_hashes), len(facts.l2_hashes)) == (13, 41)
    assert len(facts.blobs) == 2
    attributes = [orjson.loads(course.body(f"l2/{number}/attributes")) for number in range(1, 41)]
    assert {int(each["gasLimit"], 16) for each in attributes} == {GAS_LIMIT, CHANGED_GAS_LIMIT}
    deposits = [sum(raw.startswith("0x7e") for raw in each["transactions"]) - 1 for each in attributes]
    isthmus, jovian = 8, 5  # upgrade transactions in their first blocks
    assert (sum(deposits), max(deposits)) == (6 + isthmus + jovian, isthmus)
    signed = [len(each["transactions"]) - 1 - users for each, users in zip(attributes, deposits, strict=True)]
    assert sorted(signed) == [0] * 4 + [4] * 36, "the first block of a fork has none"


def test_the_signer_of_blocks_is_proven(course: CourseFiles) -> None:
    proof = orjson.loads(course.facts.signer_proof)
    header = orjson.loads(course.body(f"l1/{course.facts.l1_head}/hashes"))
    root, address = from_hex(header["stateRoot"]), course.config.l1_system_config
    account = verify_account(root, address, map(from_hex, proof["accountProof"]))
    assert account is not None
    nodes = map(from_hex, proof["storageProof"][0]["proof"])
    value = verify_storage(account.storage_root, SIGNER_SLOT, nodes)
    assert value.to_bytes(20, "big") == BATCHER.address


def test_too_few_l1_blocks_are_refused(tmp_path: Path) -> None:
    size = CourseSize(l1_blocks=1, transactions=1, deposits=0, l2_blocks=40, l2_transactions=0)
    with pytest.raises(ValueError, match="1 L1 blocks do not hold 40 L2 blocks"):
        prepare(tmp_path, size)
    with pytest.raises((OSError, msgspec.DecodeError)):
        CourseFiles(tmp_path)
