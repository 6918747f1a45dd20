"""What is wrong with the options."""

from rollup_node.node.system.exit_codes import SetupError


class OptionError(SetupError):
    """An option, a variable or the options file is wrong; the text is one line that names it."""


END_OF_OPTIONS = "--"
"""No option has this value: argument parsers take it for a mark."""


def refuse_mark(text: str, source: str) -> None:
    """Raises OptionError for the mark as a value."""
    if text == END_OF_OPTIONS:
        raise OptionError(f'invalid value "--" for {source}')


def shown(text: str) -> str:
    """A text for an error line: quoted, printable, cut."""
    quoted = '"' + text[:120].encode("unicode_escape").decode().replace('"', '\\"') + '"'
    return quoted if len(text) <= 120 else quoted + "..."
