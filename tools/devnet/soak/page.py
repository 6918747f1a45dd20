"""Tables that the tools write into pages of the documentation, between two marks."""

from collections.abc import Sequence


class PageError(ValueError):
    """A page has no place for a table; the text is one line for the user."""


def marks(name: str) -> tuple[str, str]:
    """Return the lines around the table of this name."""
    return f"<!-- {name}: begin (generated) -->", f"<!-- {name}: end -->"


def with_table(page: str, name: str, lines: Sequence[str]) -> str:
    """Return a page with the table between its two marks. Raises PageError for a page without them."""
    first, last = marks(name)
    head, begin, rest = page.partition(first)
    _, end, tail = rest.partition(last)
    if not begin or not end:
        raise PageError(f"--page: it has no lines {first} and {last}")
    return "\n".join((head + begin, *lines, end + tail))
