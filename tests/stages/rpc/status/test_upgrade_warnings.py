"""Warnings about forks to come: unconfirmed bundles, and engines that seem not to know them [UPG22, ENG42]."""

import msgspec
import pytest

from rollup_node.stages.messages.engine import ForkDoubt
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from rollup_node.stages.protocol.upgrade_transactions import PROVEN_SECONDS, load_bundle
from rollup_node.stages.rpc.status.upgrade_warnings import engine_warnings, upgrade_warnings
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

TIME = 1796918401
CROSSES = msgspec.structs.replace(PLAIN_ROLLUP, fork_times={"karst": 5, "lagoon": TIME})
H = b"\1" * 32


def safe(time: int) -> L2BlockRef:
    return L2BlockRef(H, 7, H, time, BlockId(1, H), 0)


def test_a_fork_to_come() -> None:
    (found,) = upgrade_warnings(CROSSES, None, TIME - 3 * 86_400 - 7200)
    assert found.code == "BUNDLE-UNCONFIRMED" and "--rollup.lagoon-bundle=FILE" in found.do
    assert found.text.startswith("lagoon activates in 3d2h (2026-12-10T16:00:01Z), and its upgrade bundle ")
    assert load_bundle("lagoon").sha256[:8] in found.text


def test_it_ends_when_batches_were_derived_on_the_activation_block() -> None:
    (found,) = upgrade_warnings(CROSSES, safe(TIME + PROVEN_SECONDS - 1), TIME + 9000)
    assert "has activated" in found.text
    assert upgrade_warnings(CROSSES, safe(TIME + PROVEN_SECONDS), TIME + 9000) == []


@pytest.mark.parametrize(
    "config",
    [
        PLAIN_ROLLUP,
        msgspec.structs.replace(CROSSES, fork_times={"karst": TIME}),
        msgspec.structs.replace(CROSSES, fork_times={"lagoon": 0}),
        msgspec.structs.replace(
            CROSSES, bundles={"lagoon": msgspec.structs.replace(load_bundle("lagoon"), confirmed_by="the operator")}
        ),
    ],
    ids=["no fork", "Karst", "at genesis", "given"],
)
def test_chains_without_a_warning(config: RollupConfig) -> None:
    assert upgrade_warnings(config, None, 0.0) == []


@pytest.mark.condition("C13")
def test_an_engine_that_seems_not_to_know_a_fork() -> None:
    doubt = ForkDoubt("lagoon", TIME, "OP-Reth 2.3.2 does not have it")
    (found,) = engine_warnings([doubt], TIME - 86_400)
    assert found.text == "lagoon begins at 2026-12-10T16:00:01Z, in 1d0h, and OP-Reth 2.3.2 does not have it"
    assert (found.code, found.due) == ("FORK-MISMATCH", TIME) and "upgrade" in found.do
    assert engine_warnings([doubt], TIME) == []
