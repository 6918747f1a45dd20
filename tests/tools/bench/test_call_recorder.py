"""Calls through the names of our modules are recorded while the context lasts."""

from rollup_node.stages.protocol import keccak, l1_chains, rlp
from rollup_node.tools.bench.call_recorder import recording, seconds_of


def test_calls_are_recorded_and_names_restored() -> None:
    original = rlp.encode
    with recording(rlp.encode, l1_chains.blob_base_fee) as calls:
        assert rlp.encode is not original
        assert rlp.encode([b"a"]) == b"\xc1a"
        assert l1_chains.blob_base_fee(0, 1) == 1
    assert rlp.encode is original
    assert [(function.__name__, arguments) for function, arguments, _ in calls] == [
        ("encode", ([b"a"],)),
        ("blob_base_fee", (0, 1)),
    ]
    assert seconds_of(calls) >= 0


def test_calls_from_other_modules_count_as_well() -> None:
    with recording(keccak.keccak256) as calls:
        from rollup_node.tools.bench.synthetic_chain import l1_hash

        l1_hash(5)
    assert len(calls) == 1


def test_names_are_restored_after_an_error() -> None:
    original = rlp.encode
    try:
        with recording(rlp.encode):
            raise KeyError
    except KeyError:
        pass
    assert rlp.encode is original
