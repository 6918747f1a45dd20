"""The programs of a local network of several chains."""

from itertools import count
from pathlib import Path

import pytest

from rollup_node.node.options.supernode import read_supernode_options
from rollup_node.tools.multichain.programs import ChainsPrograms, port_count
from rollup_node.tools.multichain.settings import parse


def test_ports_are_as_many_as_are_used(tmp_path: Path) -> None:
    settings = parse(["--chains=3", "--supernodes=2", "--op-supernode=/bin/false"])
    numbers = iter(range(port_count(settings)))
    network = ChainsPrograms(settings, tmp_path, numbers, None)
    assert list(numbers) == []
    assert list(network.supernodes) == ["supernode", "supernode-2", "op-supernode"]
    assert [local.id for local in network.chains] == [901, 902, 903]


def test_a_supernode_is_given_options_that_it_has(tmp_path: Path) -> None:
    network = ChainsPrograms(parse(["--chains=2", "--interop"]), tmp_path, count(20_000), None)
    network.activation = 1234
    words = network.supernode_command("supernode")
    options = read_supernode_options(words[words.index("supernode") + 1 :], {})
    assert not options.errors and not options.warnings
    assert list(options.chains) == ["901", "902"] and options.own["interop.activation-timestamp"] == 1234


@pytest.mark.parametrize("has_own", [True, False])
def test_an_op_supernode_gets_the_dependency_set_by_the_options_that_it_has(tmp_path: Path, has_own: bool) -> None:
    binary = tmp_path / "op-supernode"
    option = "--dependency-set" if has_own else "--vn.all.interop.dependency-set"
    binary.write_text(f"#!/bin/sh\necho ' {option} value'\n")
    binary.chmod(0o755)
    settings = parse(["--chains=2", "--interop", f"--op-supernode={binary}"])
    network = ChainsPrograms(settings, tmp_path, count(20_000), None)
    network.activation = 1234
    words = network.op_supernode_command("op-supernode")
    assert words[0] == str(binary) and f"--vn.all.interop.dependency-set={network.dependency_set}" in words
    assert (f"--dependency-set={network.dependency_set}" in words) is has_own
