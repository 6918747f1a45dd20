"""The rules of a fork."""

import pytest

from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.rules import BLOB_GAS, BlobRules, blob_fee, next_base_fee, next_excess_blob_gas

CANCUN, PRAGUE, OSAKA = (rules.blobs or BlobRules(0, 0, 1) for rules in (forks.CANCUN, forks.PRAGUE, forks.OSAKA))


@pytest.mark.parametrize(
    ("used", "expected"), [(10_000_000, 10**9), (20_000_000, 1_125_000_000), (0, 875_000_000), (10_000_001, 10**9 + 12)]
)
def test_base_fee_steps(used: int, expected: int) -> None:
    assert next_base_fee(20_000_000, used, 10**9, 2, 8) == expected


def test_a_small_base_fee_rises_by_one_and_is_never_negative() -> None:
    assert next_base_fee(20_000_000, 10_000_001, 1, 2, 8) == 2
    assert next_base_fee(20_000_000, 0, 1, 2, 8) == 1
    assert next_base_fee(100, 0, 10, 1, 1) == 0


def test_excess_blob_gas() -> None:
    assert next_excess_blob_gas(CANCUN, 0, 3 * BLOB_GAS, 7) == 0
    assert next_excess_blob_gas(CANCUN, 0, 6 * BLOB_GAS, 7) == 3 * BLOB_GAS
    assert next_excess_blob_gas(CANCUN, 5 * BLOB_GAS, 0, 7) == 2 * BLOB_GAS
    assert next_excess_blob_gas(OSAKA, 10 * BLOB_GAS, 6 * BLOB_GAS, 1) == 10 * BLOB_GAS
    assert next_excess_blob_gas(OSAKA, 10 * BLOB_GAS, 6 * BLOB_GAS, 17) == 12 * BLOB_GAS


def test_blob_fee_grows_with_the_excess() -> None:
    assert blob_fee(CANCUN, 0) == 1 and blob_fee(CANCUN, 3_338_477) == 2
    assert blob_fee(CANCUN, 10 * 3_338_477) == 22_026
    assert blob_fee(PRAGUE, 10 * 3_338_477) < 22_026
