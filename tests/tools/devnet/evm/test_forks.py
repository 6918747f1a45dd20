"""The fork table of the EVM: precompiles by fork, limits of input, and L1 rules by time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.forks import at


def test_l1_rules_by_time() -> None:
    config = {"shanghaiTime": 0, "cancunTime": 10, "pragueTime": 20, "osakaTime": 20, "bpo1Time": 30}
    schedule = forks.l1_rules(config)
    names = [schedule.at(time).name for time in (0, 9, 10, 19, 20, 29, 30, 99)]
    assert names == ["shanghai", "shanghai", "cancun", "cancun", "osaka", "osaka", "bpo1", "bpo1"]
    assert forks.l1_rules({}).at(5).name == "paris"
    late = forks.l1_rules({**config, "bpo2Time": 30, "amsterdamTime": 40})
    assert (late.at(39).name, late.at(40).name) == ("bpo2", "amsterdam") and late.at(40).blobs == late.at(39).blobs


@given(st.sampled_from(sorted(forks.OSAKA.precompiles)), st.binary(max_size=400))
@settings(max_examples=150)
def test_precompiles_return_bytes_or_halt(address: bytes, data: bytes) -> None:
    if address == at(9):
        data = bytes(2) + data[2:]
    precompile = forks.OSAKA.precompiles[address]
    try:
        if precompile.gas(data) < 10**7:
            assert isinstance(precompile.run(data), bytes)
    except ExceptionalHalt:
        pass
