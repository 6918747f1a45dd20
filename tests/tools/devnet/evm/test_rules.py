"""The rules of a fork."""

import pytest

from rollup_node.tools.devnet.evm.rules import BLOB_GAS, BlobRules, blob_fee, next_base_fee, next_excess_blob_gas
from rollup_node.tools.devnet.evm.state_transition import forks


def test_all_precompiles_are_warm() -> None:
    for rules in forks.L1_FORKS:
        assert rules.warm_addresses() == set(rules.precompiles)
    assert forks.P256_VERIFY in forks.OSAKA.warm_addresses()
    assert forks.P256_VERIFY not in forks.PRAGUE.warm_addresses()


def blobs(name: str) -> BlobRules:
    result: BlobRules = getattr(forks, name).blobs
    return result


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
    cancun, osaka = blobs("CANCUN"), blobs("OSAKA")
    assert next_excess_blob_gas(cancun, 0, 3 * BLOB_GAS, 7) == 0
    assert next_excess_blob_gas(cancun, 0, 6 * BLOB_GAS, 7) == 3 * BLOB_GAS
    assert next_excess_blob_gas(cancun, 5 * BLOB_GAS, 0, 7) == 2 * BLOB_GAS
    assert next_excess_blob_gas(osaka, 10 * BLOB_GAS, 6 * BLOB_GAS, 1) == 10 * BLOB_GAS
    assert next_excess_blob_gas(osaka, 10 * BLOB_GAS, 6 * BLOB_GAS, 17) == 12 * BLOB_GAS


def test_blob_fee_grows_with_the_excess() -> None:
    cancun = blobs("CANCUN")
    assert blob_fee(cancun, 0) == 1 and blob_fee(cancun, 3_338_477) == 2
    assert blob_fee(cancun, 10 * 3_338_477) == 22_026
    assert blob_fee(blobs("PRAGUE"), 10 * 3_338_477) < 22_026
