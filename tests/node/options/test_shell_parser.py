"""The parser from which the completion in shells is made."""

import shtab

from rollup_node.node.options.shell_parser import shell_parser
from rollup_node.node.options.table import OPTIONS


def test_options_and_commands() -> None:
    parser = shell_parser({"run": "runs"}, {"run": ("fast", "slow")}, {"network": ("a", "b")})
    actions = {name: action for action in parser._actions for name in action.option_strings}
    assert {name for name, option in OPTIONS.items() if not option.hidden} <= {flag[2:] for flag in actions}
    assert not [name for name, option in OPTIONS.items() if option.hidden and f"--{name}" in actions]
    assert tuple(actions["--network"].choices or ()) == ("a", "b")
    assert actions["--l1.trustrpc"].nargs == 0 and actions["--l1"].nargs is None
    assert getattr(actions["--safedb.path"], "complete", None) == shtab.FILE
    assert parser.parse_args(["run", "slow"]).word == "slow"
    assert len(parser.format_help()) > 5000
