"""The name of the program and the version of the installed package, as users see them."""

from functools import cache

PROGRAM = "rollup-node"
"""The command, which is also the name of the distribution."""


@cache
def version() -> str:
    """`v` and the version of the distribution."""
    # Deferred: importing it takes longer than the rest of `rollup-node --help` can afford.
    from importlib.metadata import version as installed_version

    return f"v{installed_version(PROGRAM)}"
