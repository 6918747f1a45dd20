"""The alt_bn128 precompiles by known results."""

import sys
from types import ModuleType

import pytest

from rollup_node.tools.devnet.evm import bn254
from rollup_node.tools.devnet.evm.bn254 import add, multiply, pairing, pairing_gas
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from tests.support.chains.precompile_vectors import PrecompileVector, vectors_of


@pytest.mark.parametrize("vector", vectors_of(0x06, 0x07, 0x08), ids=lambda item: item.name)
def test_known_results(vector: PrecompileVector) -> None:
    vector.check()


class RaisingLimits(ModuleType):
    """As py-ecc is when it is imported."""

    def __getattr__(self, name: str) -> ModuleType:
        sys.setrecursionlimit(100_000)
        return self


def test_the_recursion_limit_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py_ecc", RaisingLimits("py_ecc"))
    before = sys.getrecursionlimit()
    assert isinstance(bn254._curve(), RaisingLimits)
    assert sys.getrecursionlimit() == before


def test_short_input_is_zero_padded() -> None:
    assert add(b"") == multiply(b"") == bytes(64)
    generator = (1).to_bytes(32, "big") + (2).to_bytes(32, "big")
    assert add(generator) == generator
    assert multiply(generator + bytes(31) + b"\x01") == generator


@pytest.mark.parametrize("data", [b"\xff" * 64, (1).to_bytes(32, "big") * 2])
def test_points_off_the_curve_halt(data: bytes) -> None:
    with pytest.raises(ExceptionalHalt):
        add(data)


def test_a_pairing_takes_whole_pairs() -> None:
    assert pairing_gas(bytes(192 * 2)) == 45_000 + 2 * 34_000
    with pytest.raises(ExceptionalHalt, match="pairs"):
        pairing(bytes(191))
