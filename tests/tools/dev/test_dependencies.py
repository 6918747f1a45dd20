"""What the base installation consists of."""

from importlib.metadata import distribution

from rollup_node.tools.dev.dependencies import base_dependencies, pinned_versions
from tests.conftest import ROOT

MUSLLINUX = """
aiohttp brotli btclib-libsecp256k1 cffi ckzg cramjam cryptography cytoolz frozenlist httptools isal msgspec multidict
orjson propcache py-arkworks-bls12381 pydantic-core pyyaml pyzmq safe-pysha3 setproctitle yarl
"""
"""Those with compiled code, whose pinned versions have musllinux wheels of x86-64 for Python 3.11 and 3.14."""


def test_needs_of_needs_are_there_and_extras_are_not() -> None:
    needs = base_dependencies(ROOT)
    assert "cffi" in needs["rollup-node"] and "pycparser" in needs["cffi"] and "pycparser" in needs
    assert not {"web3", "pytest", "pyarrow"} & needs.keys()
    assert all(name in needs for names in needs.values() for name in names)


def test_every_one_of_them_has_a_version() -> None:
    assert base_dependencies(ROOT).keys() - {"rollup-node"} <= pinned_versions(ROOT).keys()


def test_those_with_compiled_code_have_wheels_for_alpine() -> None:
    """No compiler is needed there: a new one is looked up before it is added to the list."""
    names = base_dependencies(ROOT).keys() - {"rollup-node"}
    compiled = {name for name in names if "Root-Is-Purelib: false" in (distribution(name).read_text("WHEEL") or "")}
    assert compiled == set(MUSLLINUX.split())
