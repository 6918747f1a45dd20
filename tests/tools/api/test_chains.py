"""The chains of the API: built-in networks by name, and a rollup.json."""

import json
from pathlib import Path

import pytest

import rollup_node
from rollup_node.node.setup.networks import find_network, network_names
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.tools.api.chains import chain_of, config_of, words_of


def test_a_network_by_its_name() -> None:
    network = rollup_node.Network("op-sepolia")
    chain = (network.name, network.l1_chain_id, network.l2_chain_id, network.block_time)
    assert chain == ("op-sepolia", 11155111, 11155420, 2)
    assert repr(network) == "Network('op-sepolia')" and words_of(network) == ("--network", "op-sepolia")
    assert list(network.forks)[:3] == ["regolith", "canyon", "delta"]
    assert network.number_at(1724785030) == 16491245 and network.time_of(16491245) == 1724785030
    assert network.number_at(1724785031) is None
    assert (network.genesis_number, network.genesis_l1) == (0, 4071408)
    assert rollup_node.Network.names() == network_names()
    assert config_of(chain_of("sepolia")) == find_network("op-sepolia").config


def test_a_name_that_is_none_is_an_input_error() -> None:
    with pytest.raises(rollup_node.InputError, match="did you mean op-sepolia"):
        rollup_node.Network("op-sepoli")


def test_a_chain_of_a_file(tmp_path: Path) -> None:
    config = find_network("op-sepolia").config
    path = tmp_path / "rollup.json"
    path.write_text(json.dumps(rollup_config_object(config)))
    chain = rollup_node.Chain.load(path)
    assert (chain.name, words_of(chain)) == ("rollup.json", ("--rollup.config", str(path)))
    assert chain_of(chain) is chain and chain.forks == rollup_node.Network("op-sepolia").forks


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b"[" * 100_000])
def test_a_file_that_is_none_is_an_input_error(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "rollup.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(rollup_node.InputError, match=r"rollup\.json"):
        rollup_node.Chain.load(path)
