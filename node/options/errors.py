"""Errors in options, and how values are quoted in them."""

from rollup_node.node.system.exit_codes import SetupError


class OptionError(SetupError):
    """An option, a variable or the options file is wrong; the text is one line that names it."""


END_OF_OPTIONS = "--"
"""Never a value: argument parsers take it as the end of options."""


def reject_end_of_options(text: str, source: str) -> None:
    """Raises OptionError when the value from `source` is `--`."""
    if text == END_OF_OPTIONS:
        raise OptionError(f'invalid value "--" for {source}')


def shown(text: str) -> str:
    """A text for an error line: quoted, escaped, cut after 120 characters."""
    quoted = '"' + text[:120].encode("unicode_escape").decode().replace('"', '\\"') + '"'
    return quoted if len(text) <= 120 else quoted + "..."
