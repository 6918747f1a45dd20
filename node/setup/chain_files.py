"""The files that describe a chain: rollup.json, the L1 chain's configuration, dependency set, upgrade bundles."""

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.given_files import read_given_file

MAX_FILE = 4 << 20
"""Bytes."""


def read_chain_file(path: str, error_prefix: str) -> bytes:
    """Return the content of a file. Raises OptionError for one that is unreadable or longer than MAX_FILE."""
    if not path:
        raise OptionError(f"{error_prefix}: its path is empty")
    try:
        data = read_given_file(path, MAX_FILE + 1)
    except (OSError, ValueError) as error:
        raise OptionError(f"{error_prefix}: {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE:
        raise OptionError(f"{error_prefix}: {path}: longer than {MAX_FILE} bytes")
    return data
