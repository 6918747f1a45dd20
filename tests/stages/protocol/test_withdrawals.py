"""The withdrawals root of L1 blocks."""

import json
from pathlib import Path

import pytest

from rollup_node.stages.protocol.hex_encoding import HexError
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.withdrawals import withdrawals_root


def test_the_root_of_a_recorded_block(shared_data: Path) -> None:
    block = json.loads((shared_data / "l1" / "op_service_blocks_post-shanghai-success_data.json").read_bytes())
    assert block["withdrawals"]
    assert withdrawals_root(block["withdrawals"]).hex() == block["withdrawalsRoot"][2:]


def test_no_withdrawals_have_the_empty_root() -> None:
    assert withdrawals_root([]) == EMPTY_ROOT


def test_a_malformed_withdrawal_is_refused() -> None:
    with pytest.raises(HexError):
        withdrawals_root([{"index": "0x1"}])
