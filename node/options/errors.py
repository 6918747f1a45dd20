"""Errors in options, and how values are quoted in them."""

from collections.abc import Iterable

from rollup_node.node.system.exit_codes import SetupError


class OptionError(SetupError):
    """An option, a variable or the options file is wrong; the text is one line that names it."""


class WrongOptions(OptionError):
    """Everything that is wrong in the options: `lines` has a line for each, without duplicates."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(dict.fromkeys(lines))
        super().__init__("; ".join(self.lines))


def error_lines(error: Exception) -> tuple[str, ...]:
    """Return the lines of an error: one for each wrong option."""
    return error.lines if isinstance(error, WrongOptions) else (str(error),)


END_OF_OPTIONS = "--"
"""Never a value: argument parsers take it as the end of options."""


def reject_end_of_options(text: str, source: str) -> None:
    """Raise OptionError when the value from `source` is `--`."""
    if text == END_OF_OPTIONS:
        raise OptionError(f'invalid value "--" for {source}')


def shown(text: str) -> str:
    """Return a text for an error line: quoted, escaped, cut after 120 characters."""
    quoted = '"' + text[:120].encode("unicode_escape").decode().replace('"', '\\"') + '"'
    return quoted if len(text) <= 120 else quoted + "..."
