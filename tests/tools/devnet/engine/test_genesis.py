"""Genesis files: those of the superchain registry give its hashes, invalid ones an error."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from rollup_node.stages.protocol.config import ChainOpConfig
from rollup_node.tools.devnet.engine.genesis import chain_spec, genesis_block, make_chain_spec, parse_genesis
from rollup_node.tools.devnet.evm.state import GenesisError, StateDatabase
from tests.support.chains.l2_test_chain import L2TestChain

REGISTERED = ["mainnet/unichain", "mainnet/zora", "sepolia/op", "sepolia/unichain", "sepolia-devnet-2/sepolia-devnet-2"]


@pytest.mark.parametrize("name", REGISTERED)
def test_registry_genesis_files_give_the_registered_hash(shared_data: Path, name: str) -> None:
    registry = shared_data / "registry"
    dictionary = zstandard.ZstdCompressionDict((registry / "genesis/dictionary").read_bytes())
    packed = (registry / f"genesis/{name}.json.zst").read_bytes()
    result = json.loads(zstandard.ZstdDecompressor(dict_data=dictionary).decompress(packed, max_output_size=1 << 28))
    listed = tomllib.loads((registry / f"configs/{name}.toml").read_text())
    forks = {key[:-5]: time for key, time in listed["hardforks"].items() if key.endswith("_time")}
    chain = make_chain_spec(listed["chain_id"], forks | {"regolith": 0}, ChainOpConfig(6, 50, 250))
    assert "0x" + genesis_block(StateDatabase(), result, chain).hash.hex() == listed["genesis"]["l2"]["hash"]
    if result["config"] is not None:
        assert chain_spec(result["config"]).chain_id == listed["chain_id"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"config": None}, "not a genesis file"),
        ({"config": {"chainId": 1}}, "no `optimism` object"),
        ({"config": {"chainId": 1, "optimism": {}}}, "eip1559Elasticity"),
        (
            {"config": {"chainId": 1, "optimism": {"eip1559Elasticity": 0, "eip1559Denominator": 1}}},
            "must be positive",
        ),
        ({"alloc": None}, "no `alloc`"),
        ({"alloc": {"0x12": 5}}, "account 0x12"),
        ({"alloc": {"0x12": {"balance": "lots"}}}, "account 0x12"),
        ({"gasLimit": "much"}, "header field"),
    ],
)
def test_invalid_files_have_an_error(change: dict[str, Any], error: str) -> None:
    with pytest.raises(GenesisError, match=error):
        parse_genesis(json.dumps(L2TestChain().file | change).encode())


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff"])
def test_other_content_is_refused(content: bytes) -> None:
    with pytest.raises(GenesisError):
        parse_genesis(content)
