"""The whole command line as one parser."""

from rollup_node.node.cli import COMMANDS
from rollup_node.node.setup.networks import network_names
from rollup_node.tools.commands.command_line import command_line


def test_it_has_the_commands_and_the_networks() -> None:
    parser = command_line()
    choices = {action.dest: action.choices for action in parser._actions if action.choices}
    assert list(choices["network"] or ()) == list(network_names())
    commands = next(action.choices for action in parser._actions if not action.option_strings)
    assert set(commands or ()) == set(COMMANDS)
