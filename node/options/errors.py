"""Errors in options, and how values are quoted in them."""

import re
from collections.abc import Iterable

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.protocol.texts import without_logins


class OptionError(SetupError):
    """An option, a variable or the options file is wrong; the text is one line that names it."""


class MissingOption(OptionError):
    """An option that is required is not given."""


class ValueHint(ValueError):
    """A value is not what its option takes; the text says what is wrong with it."""


class WrongOptions(OptionError):
    """Everything that is wrong in the options: `lines` has a line for each, without duplicates."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(dict.fromkeys(lines))
        super().__init__("; ".join(self.lines))


def error_lines(error: Exception) -> tuple[str, ...]:
    """Return the lines of an error: one for each wrong option, and without what may be credentials in a URL."""
    lines = error.lines if isinstance(error, WrongOptions) else (str(error),)
    return tuple(map(without_logins, lines))


END_OF_OPTIONS = "--"
"""Never a value: argument parsers take it as the end of options."""


def reject_end_of_options(text: str, source: str) -> None:
    """Raise OptionError when the value from `source` is `--`."""
    if text == END_OF_OPTIONS:
        raise OptionError(f'invalid value "--" for {source}')


_AFTER_HOST = re.compile(r"^(\w+://[^/?#]*)[/?#].+", re.DOTALL)
_CREDENTIALS = re.compile(r"^(\w+:/*)?.*@", re.DOTALL)


def without_credentials(text: str) -> str:
    """Return a value of an option without what may be user and password, though it is no URL."""
    return _CREDENTIALS.sub(r"\1***@", text)


def shown(text: str) -> str:
    """Return a text for an error line: quoted, escaped, cut after 120 characters, without credentials."""
    text = without_credentials(text)
    quoted = '"' + text[:120].encode("unicode_escape").decode().replace('"', '\\"') + '"'
    return quoted if len(text) <= 120 else quoted + "..."


def shown_url(text: str) -> str:
    """As `shown`, for what should be an address: a key may stand behind its host."""
    return shown(_AFTER_HOST.sub(r"\1/...", without_credentials(text)))


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return the end of an error line: `; did you mean x?` with the most like name, case ignored, or nothing."""
    # Deferred: only a misspelt name needs it, and it costs 5 ms.
    from difflib import get_close_matches

    by_lower = {candidate.lower(): candidate for candidate in known}
    matches = get_close_matches(name.lower()[:100], by_lower, n=1, cutoff=0.6)
    return f"; did you mean {prefix}{by_lower[matches[0]]}?" if matches else ""
