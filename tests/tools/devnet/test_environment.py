"""What reports say of the place where they were made."""

import pytest

from rollup_node.tools.devnet.environment import commit_of_checkout, machine_text


def test_what_a_run_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert " cores, " in machine_text() and "Python 3." in machine_text()
    monkeypatch.setenv("PATH", "")
    assert commit_of_checkout() == "unknown"
