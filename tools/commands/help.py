"""`rollup-node help`: the options of a topic."""

from collections.abc import Sequence

from rollup_node.node.options.help import topic_text, topics_text
from rollup_node.node.system.exit_codes import SetupError


def main(arguments: Sequence[str]) -> int:
    """Print the topics, or the options of one. Raises SetupError for an unknown topic."""
    if len(arguments) > 1:
        raise SetupError("help takes one topic")
    requested = not {"-h", "--help"}.isdisjoint(arguments)
    print(topics_text() if requested or not arguments else topic_text(arguments[0]), end="")
    return 0
