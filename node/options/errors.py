"""What is wrong with the options."""

from rollup_node.node.exits import SetupError


class OptionError(SetupError):
    """An option, a variable or the options file is wrong; the text is one line that names it."""


def shown(text: str) -> str:
    """A text for an error line: quoted, printable, cut."""
    quoted = '"' + text[:120].encode("unicode_escape").decode().replace('"', '\\"') + '"'
    return quoted if len(text) <= 120 else quoted + "..."
