"""The version of the installed package, as it is shown to users."""

from importlib.metadata import version as installed_version

DISTRIBUTION = "rollup-node"


def version() -> str:
    """`v` and the distribution's version."""
    return f"v{installed_version(DISTRIBUTION)}"
