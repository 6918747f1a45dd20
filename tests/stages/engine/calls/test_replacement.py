"""The replacement of a block that is invalid across chains [IOP18, IOP24]."""

import msgspec
import pytest

from rollup_node.stages.engine.calls.replacement import ReplacementError, replaced_output, replacement_attributes
from rollup_node.stages.protocol.deposits import decode_deposit, is_deposit
from rollup_node.stages.protocol.output_root import output_preimage
from rollup_node.stages.protocol.types import ZERO_ADDRESS
from tests.support.chains.chain_fixture import ChainFixture


def test_the_deposits_and_one_more(chain: ChainFixture) -> None:
    payload = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100, [chain.user]))
    found = replacement_attributes(payload)
    *kept, added = found.transactions
    assert kept == [raw for raw in payload.transactions if is_deposit(raw)] and chain.user not in kept
    assert (found.timestamp, found.gas_limit, found.no_tx_pool) == (payload.timestamp, payload.gas_limit, True)
    assert found.parent_beacon_root == payload.parent_beacon_root and found.prev_randao == payload.prev_randao
    assert found.eip1559_params == payload.extra_data[1:9]
    assert (found.min_base_fee is None) == (len(payload.extra_data) == 9)
    deposit = decode_deposit(added)
    assert (deposit.to, deposit.mint, deposit.value, deposit.gas, deposit.is_system) == (
        ZERO_ADDRESS,
        0,
        0,
        36_000,
        False,
    )
    assert payload.withdrawals_root is not None
    assert deposit.data == output_preimage(payload.state_root, payload.withdrawals_root, payload.block_hash)
    replaced = chain.seal(chain.genesis, found)
    assert replaced_output(replaced) == (payload.state_root, payload.withdrawals_root, payload.block_hash)
    assert replaced_output(payload) is None


def test_blocks_that_are_no_replacements(chain: ChainFixture) -> None:
    payload = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100))
    assert replaced_output(payload) is None, "its last transaction is an ordinary deposit"
    with pytest.raises(ReplacementError, match="expected block-replacement tx"):
        replaced_output(msgspec.structs.replace(payload, transactions=()))
    with pytest.raises(ReplacementError, match="failed to unmarshal invalidated-block"):
        replaced_output(msgspec.structs.replace(payload, transactions=(b"\x7e\x01",)))
    with pytest.raises(ReplacementError, match="withdrawals-root is nil"):
        replacement_attributes(msgspec.structs.replace(payload, withdrawals_root=None))
