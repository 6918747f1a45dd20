"""The configuration of a replay from flags."""

from pathlib import Path

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.commands.common import Outputs, parse
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.commands.replay_config import replay_config
from rollup_node.tools.inspect.row_formats import RowFormat


def test_flags_become_a_replay(tmp_path: Path) -> None:
    parser = FlagParser("test", "A test.")
    parser.add_l2_source()
    parser.add_timeout()
    words = ("--network=op-sepolia", "--l1=http://a", "--l1.beacon=http://c", "--l2=http://b", "--timeout=30s")
    found = replay_config(parse(parser, words), Outputs(5, 6), 1, 9, RowFormat.JSON, 7)
    assert (found.first, found.last, found.base, found.output, found.errors) == (1, 9, 7, 5, 6)
    assert (found.url, found.blocks, found.timeout, found.jwt_secret) == ("http://b", None, 30.0, None)
    secret = tmp_path / "jwt"
    with pytest.raises(SetupError, match="there is no secret in"):
        replay_config(parse(parser, (*words, f"--l2.jwt-secret={secret}")), Outputs(5, 6), 1, 9, RowFormat.JSON)
