"""A clock of a program's own, by libfaketime, which steps while the program runs. The monotonic clock does not."""

import os
from pathlib import Path

LIBRARY_NAME = "libfaketime.so.1"
LIBRARY_VARIABLE = "LIBFAKETIME"
FOLDERS = ("/usr/lib/*/faketime", "/usr/lib*/faketime", "/usr/local/lib/faketime", "/opt/homebrew/lib/faketime")
READ_AGAIN_SECONDS = "1"


def find_clock_library() -> Path | None:
    """Return the library: the file that LIBFAKETIME names, or where packages put it; None if it is not installed."""
    given = os.environ.get(LIBRARY_VARIABLE)
    if given:
        return Path(given) if Path(given).is_file() else None
    found = (path for pattern in FOLDERS for path in Path("/").glob(f"{pattern[1:]}/{LIBRARY_NAME}"))
    return min(found, default=None)


class OwnClock:
    """The clock of the programs that are started with `prefix`; `file` says how far it is ahead."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        self.set(0)

    def prefix(self) -> list[str]:
        """Return what goes before a command."""
        return [
            "env",
            f"LD_PRELOAD={self._library}",
            f"FAKETIME_TIMESTAMP_FILE={self._file}",
            f"FAKETIME_CACHE_DURATION={READ_AGAIN_SECONDS}",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            "DONT_FAKE_MONOTONIC=1",
        ]

    def set(self, seconds: int) -> None:
        """Set the clock ahead of the machine's by seconds, or behind it by a negative number of them."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}s\n")
        fresh.replace(self._file)
