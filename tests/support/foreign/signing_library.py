"""eth-account, which takes half a second to import: only where it is used."""

import sys
from typing import Any


def eth_account() -> Any:
    """Its class of accounts. Importing it raises the recursion limit."""
    limit = sys.getrecursionlimit()
    from eth_account import Account

    sys.setrecursionlimit(limit)
    return Account
