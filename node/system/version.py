"""The name of the program and the version of the installed package, as they are shown to users."""

PROGRAM = "rollup-node"
"""The command, which is also the name of the distribution."""


def version() -> str:
    """`v` and the distribution's version."""
    from importlib.metadata import version as installed_version

    return f"v{installed_version(PROGRAM)}"
