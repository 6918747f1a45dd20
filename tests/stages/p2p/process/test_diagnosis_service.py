"""The diagnosis of a whole p2p process."""

from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol.config import RollupConfig
from tests.support.p2p.blocks import SIGNER
from tests.support.p2p.nodes import KEY, P2pNode


@pytest.mark.condition("C7")
async def test_diagnosis(rollup: RollupConfig, tmp_path: Path) -> None:
    unreachable = "/ip4/127.0.0.1/tcp/1/p2p/16Uiu2HAmEWQnHq2jLKJypwVnVoQeFCULuyop6atvq2eWjYSUjzNi"
    options: dict[str, Any] = {"no_discovery": False, "static": (unreachable,), "sequencer_key": KEY}
    async with P2pNode(2, rollup, tmp_path, **options).running() as node:
        await node.until(lambda: node.stage.host.dialer.last_errors)
        await node.until(lambda: node.stage.signers.current)
        result = await node.call("diagnosis")
        assert (result["peer"], result["chain_id"], result["is_listening"]) == (node.peer, 901, True)
        assert list(result["dial_problems"].values()) == ["/ip4/127.0.0.1/tcp/1: Connection refused"]
        assert result["static_missing"] == list(result["dial_problems"])
        assert (result["inbound"], result["outbound"], result["inbound_ever"]) == (0, 0, 0)
        assert result["gossip"]["signer"] == result["gossip"]["own_signer"] == f"0x{SIGNER.address.hex()}"
        assert result["gossip"]["low"] == 6 and result["gossip"]["accepted_ago"] is None
        assert result["discovery"]["ip"] == "127.0.0.1" and result["discovery"]["tcp"] == node.stage.host.port
        assert result["problems"] == [] and result["departed"] == []
