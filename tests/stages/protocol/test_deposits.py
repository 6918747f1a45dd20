"""The encoding of deposit transactions."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import deposits
from rollup_node.stages.protocol.deposits import DepositTransaction

U256 = st.integers(0, 2**256 - 1)
DEPOSITS = st.builds(
    DepositTransaction,
    source_hash=st.binary(min_size=32, max_size=32),
    sender=st.binary(min_size=20, max_size=20),
    to=st.none() | st.binary(min_size=20, max_size=20),
    mint=U256,
    value=U256,
    gas=st.integers(0, 2**64 - 1),
    is_system=st.booleans(),
    data=st.binary(max_size=300),
)


@given(DEPOSITS)
def test_deposits_round_trip(deposit: DepositTransaction) -> None:
    encoded = deposits.encode_deposit(deposit)
    assert deposits.decode_deposit(encoded) == deposit
    assert deposits.is_deposit(encoded)
