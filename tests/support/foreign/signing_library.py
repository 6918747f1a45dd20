"""eth-account, which takes half a second to import: only where it is used."""

from typing import Any


def eth_account() -> Any:
    """Its class of accounts."""
    from eth_account import Account

    return Account
