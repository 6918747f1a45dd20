"""What tests of attacks by peers share: the process under attack and the attackers, one of each for a file."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.support.p2p.attacked_p2p import Attacked, Attackers
from tests.support.processes.leftovers import Leftovers


@pytest.fixture(scope="module")
def attacked(module_leftovers: Leftovers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """The p2p process that the tests attack, and the honest peer."""
    with contextlib.closing(Attacked(module_leftovers, tmp_path_factory.mktemp("honest"))) as found:
        yield found


@pytest.fixture(scope="module")
def attackers(module_leftovers: Leftovers) -> Iterator[Attackers]:
    """The program that attacks it."""
    with Attackers(module_leftovers) as running:
        yield running
        running.finish()
