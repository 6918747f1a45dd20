"""A node runs with what its base installation brings."""

from pathlib import Path

import pytest

from tests.support.processes.base_installation import block_extras
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet


def test_the_nodes_of_a_network_need_no_extra(
    leftovers: Leftovers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block_extras(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Devnet(leftovers) as net:
        net.wait_for_first_safe()
        assert net.finish()
