"""Which chains of a supernode are verified together [SNO5, SNO6]."""

from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol.interop_messages import MESSAGE_EXPIRY_WINDOW
from tests.support.processes.local_chains import lines_of, local_chains, plan

CHALLENGED = {
    "da_challenge_contract_address": "0x" + "33" * 20,
    "da_commitment_type": "KeccakCommitment",
    "da_challenge_window": 7,
    "da_resolve_window": 7,
}
DA_SERVER = ("--vn.902.altda.enabled", "--vn.902.altda.da-server=http://da")


def test_interop_by_a_given_time(tmp_path: Path) -> None:
    """[SNO5]"""
    words = local_chains(tmp_path)
    _, interop = plan(*words, "--interop.activation-timestamp=1234", "--interop.log-backfill-depth=1h")
    assert interop is not None
    assert interop[:4] == ((901, 902), 1234, MESSAGE_EXPIRY_WINDOW, 3600)


def test_alt_da_without_challenges_is_verified(tmp_path: Path) -> None:
    """[SNO5, ADA10]"""
    generic = {"da_commitment_type": "GenericCommitment", "da_challenge_window": 7, "da_resolve_window": 7}
    words = local_chains(tmp_path, {}, {"alt_da": generic})
    _, interop = plan(*words, *DA_SERVER, "--interop.activation-timestamp=1")
    assert interop is not None and interop.members == (901, 902)


@pytest.mark.parametrize(
    ("changes", "words", "expected"),
    [
        (({"l2_chain_id": 903}, {}), (), "chain 901: flag --vn.901.rollup.config is chain 903"),
        (
            ({}, {"l1_chain_id": 1}),
            (),
            "the chains of --chains have different L1 chains (chain 901: 900, chain 902: 1)",
        ),
        (
            ({"karst_time": 1500, "lagoon_time": 2000}, {"karst_time": 1500, "lagoon_time": 2002}),
            (),
            "mismatched Lagoon activation timestamps: chain 901=2000, chain 902=2002",
        ),
        (
            ({"karst_time": 1500, "lagoon_time": 2000}, {}),
            (),
            "mismatched Lagoon activation timestamps: chain 901=2000, chain 902=never",
        ),
        (
            ({}, {}),
            ("--interop.activation-timestamp=1", "--chains=901"),
            "chain 901 executes messages of chain 902, which --chains lacks",
        ),
        (
            ({}, {"alt_da": CHALLENGED}),
            (*DA_SERVER, "--interop.activation-timestamp=1"),
            "chain 902 has Alt-DA inputs that can be challenged, so its blocks cannot be verified",
        ),
    ],
    ids=["id", "l1", "lagoon", "never", "member", "challenges"],
)
def test_contradictions_are_refused(
    tmp_path: Path, changes: tuple[dict[str, Any], ...], words: tuple[str, ...], expected: str
) -> None:
    """[SNO5, SNO6]"""
    options = local_chains(tmp_path, *changes)
    if "--chains=901" in words:
        options = [word for word in options if not word.startswith(("--chains", "--vn.902"))]
    lines = lines_of(*options, *words)
    assert any(line.startswith(expected) for line in lines), lines
