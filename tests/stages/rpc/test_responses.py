"""JSON forms of references, the sync status and outputs."""

from typing import Any

import msgspec
import pytest

from rollup_node.node.setup.networks import find_network
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import DependencySet
from rollup_node.stages.rpc.responses import (
    dependency_set,
    l1_ref,
    l2_ref,
    sdm_status,
    sync_status,
)

L1 = L1BlockRef(b"\x01" * 32, 10, b"\x02" * 32, 100)
L2 = L2BlockRef(b"\x03" * 32, 20, b"\x04" * 32, 200, BlockId(10, b"\x01" * 32), 2)
SAFE = L2BlockRef(b"\x05" * 32, 19, b"\x06" * 32, 198, BlockId(10, b"\x01" * 32), 1)
ZERO = "0x" + "00" * 32
SEPOLIA = find_network("op-sepolia").config


def test_a_complete_status() -> None:
    """[RPC36 to RPC40, FSR1] `current_l1` is that of a follow source, and zero during a reset."""
    engine = EngineStatus(7, L2, SAFE, SAFE, SAFE, SAFE, False, False)
    status = sync_status(L1Heads(L1, None, L1), engine, DerivationStatus(7, L1, False))
    assert status["current_l1"] == status["head_l1"] == status["current_l1_finalized"] == l1_ref(L1)
    assert status["unsafe_l2"] == status["cross_unsafe_l2"] == l2_ref(L2)
    assert status["safe_l2"] == status["local_safe_l2"] == status["pending_safe_l2"] == l2_ref(SAFE)
    status = sync_status(None, EngineStatus(7, L2, SAFE, L2, L2, SAFE, False, False, current_l1=L1), None)
    assert (status["current_l1"], status["local_safe_l2"], status["safe_l2"]) == (l1_ref(L1), l2_ref(L2), l2_ref(SAFE))
    for head, reset in ((None, 7), (L2, 8)):
        engine = EngineStatus(reset, head, head, head, head, head, False, False)
        assert sync_status(None, engine, DerivationStatus(7, L1, False))["current_l1"]["number"] == 0


def test_dependency_sets() -> None:
    """[RPC29, IOP25]"""
    assert dependency_set(DependencySet((901, 902))) == {"dependencies": {"901": {}, "902": {}}}
    assert dependency_set(DependencySet((10,), 7)) == {"dependencies": {"10": {}}, "overrideMessageExpiryWindow": 7}


@pytest.mark.parametrize(
    ("lagoon", "opt_in", "active", "effective"),
    [(None, True, False, False), (102, True, True, True), (102, False, True, False), (103, True, False, False)],
)
def test_the_status_of_sdm(lagoon: int | None, opt_in: bool, active: bool, effective: bool) -> None:
    """It counts the time of the block after the unsafe head [RPC56]."""
    times = {} if lagoon is None else {"lagoon": lagoon}
    rollup = msgspec.structs.replace(SEPOLIA, fork_times=times)
    head = L2BlockRef(L2.hash, 7, L2.parent_hash, 100, L2.l1_origin, 0)
    result = sdm_status(rollup, EngineStatus(1, head, head, head, head, head, True, True, sdm_opt_in=opt_in))
    expected: dict[str, Any] = {"postExecOptIn": opt_in, "protocolActive": active, "effective": effective}
    assert result == (expected if lagoon is None else expected | {"activationTime": lagoon})
    none = EngineStatus(1, None, None, None, None, None, True, True, sdm_opt_in=opt_in)
    assert sdm_status(rollup, none)["protocolActive"] is False
