"""Upgrade transactions: their locks, what a damaged file leads to, and which ones a chain has."""

from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.deposits import decode_deposit
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, CarriedBundle
from rollup_node.stages.protocol.forks.rules import Activation
from rollup_node.stages.protocol.forks.table import FORKS
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

FOLDER = Path(upgrades.__file__).parent / "forks"
LAGOON = BUNDLE_FORKS["lagoon"]
WRAPPERS_GAS = 150_000


def test_every_bundle_of_the_table_has_a_lock() -> None:
    named = [fork.activation.bundle for fork in FORKS if fork.activation is not None]
    assert named == [*upgrades.LOCKS, *BUNDLE_FORKS]


@pytest.mark.parametrize("carried", LAGOON.carried, ids=lambda carried: carried.sha256[:8])
def test_room_for_the_wrappers_is_reserved_on_every_chain(carried: CarriedBundle) -> None:
    bundle = upgrades.carried_bundle("lagoon", carried)
    wrappers = sum(decode_deposit(item).gas for item in (upgrades.SET_FEATURE, upgrades.FUND))
    assert wrappers == WRAPPERS_GAS
    assert bundle.gas == wrappers + sum(decode_deposit(transaction).gas for transaction in bundle.transactions)
    assert (bundle.sha256, bundle.origin) == (carried.sha256, carried.origin)


def test_extra_gas_of_the_file_takes_the_place_of_the_reserved_gas() -> None:
    file = upgrades.carried_file("lagoon", LAGOON.carried[0])
    for extra_gas, expected in ((None, WRAPPERS_GAS), (0, 0), (7, 7)):
        bundle = upgrades.encode_bundle("lagoon", file._replace(extra_gas=extra_gas), "", "")
        assert bundle.gas - expected == file.gas


def test_a_chosen_bundle_takes_the_place_of_the_package() -> None:
    chosen = upgrades.carried_bundle("lagoon", LAGOON.carried[1])
    chain = msgspec.structs.replace(PLAIN_ROLLUP, bundles={"lagoon": chosen})
    activations = (Activation("lagoon", bundle="lagoon", wrapped_if_linked=True, extra_gas=True),)
    assert upgrades.upgrade_transactions(chain, activations) == chosen.transactions
    assert upgrades.upgrade_gas(chain, activations) == chosen.gas
    linked = msgspec.structs.replace(chain, dependency_set_size=2)
    wrapped = (upgrades.SET_FEATURE, *chosen.transactions, upgrades.FUND)
    assert upgrades.upgrade_transactions(linked, activations) == wrapped
    assert upgrades.upgrade_gas_to_subtract(linked, activations) == chosen.gas
    assert upgrades.bundle_of(chain, "karst") == upgrades.load_bundle("karst")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"fork":"fjord","source":"","transactions":[{}]}'])
@pytest.mark.parametrize("fork", ["fjord", "lagoon"])
def test_a_damaged_file_is_critical(fork: str, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrades, "_content", lambda name: content)
    with pytest.raises(CriticalError, match=f"the file of {fork}'s upgrade transactions cannot be read"):
        load_anew(fork)


@pytest.mark.parametrize(("fork", "file"), [("fjord", "upgrades_fjord.json"), ("lagoon", LAGOON.carried[0].file)])
def test_a_changed_file_is_critical(fork: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = (FOLDER / file).read_bytes().replace(b"90000", b"90001", 1).replace(b"498000", b"498001")
    monkeypatch.setattr(upgrades, "_content", lambda name: changed)
    with pytest.raises(CriticalError, match="was changed"):
        load_anew(fork)


def load_anew(fork: str) -> None:
    if fork in BUNDLE_FORKS:
        upgrades.carried_bundle.__wrapped__(fork, BUNDLE_FORKS[fork].carried[0])
    else:
        upgrades.load_bundle.__wrapped__(fork)
