"""Texts for people: lengths of time, and foreign texts as one line."""

import re

MAX_ERROR_TEXT = 500
"""Characters that are kept of any text which an endpoint sends to be shown."""
MAX_LINE = 2000
_AUTHORIZATION = re.compile(r"(authorization\W{1,4})(?:(?:basic|bearer)\s+)?[^\s\"',;]+", re.IGNORECASE)
_LOGIN = re.compile(r"(\w+://)\S*@")


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: `8s`, `6m55s`, `2h13m`, `3d4h`."""
    whole = max(0, int(seconds))
    for unit, name, below, below_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit:
            return f"{whole // unit}{name}{whole % unit // below}{below_name}"
    return f"{whole}s"


def age(seconds: float) -> str:
    """Return the same with a decimal below ten seconds: `0.4 s`."""
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)


def without_logins(text: str) -> str:
    """Return a text without what may be user and password in its URLs."""
    return _LOGIN.sub(r"\1***@", text)


def one_line(text: str) -> str:
    """Return a foreign text for logs and errors: one printable line of at most MAX_ERROR_TEXT characters.

    A server may show what it was sent: without its login."""
    line = " ".join(text[: 4 * MAX_ERROR_TEXT].split())
    line = without_logins(_AUTHORIZATION.sub(r"\1***", line))
    return "".join(c if c.isprintable() else "?" for c in line[:MAX_ERROR_TEXT])


def escaped_line(text: str) -> str:
    """Return a text for the terminal: one line with its spaces, unprintable characters escaped, cut after MAX_LINE.

    It may contain file names and responses of other programs."""
    line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}..."
