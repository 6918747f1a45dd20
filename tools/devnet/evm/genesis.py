"""Loads the state of a genesis file's `alloc`."""

from collections.abc import Mapping
from typing import Any

from rollup_node.stages.protocol.mpt import EMPTY_CODE_HASH, EMPTY_ROOT, Account
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.devnet.evm.state import State, StateDatabase


class GenesisError(ValueError):
    """The genesis is invalid; the text names the field."""


def load_alloc(store: StateDatabase, alloc: Mapping[str, Any]) -> Hash:
    """Write all accounts, also empty ones, as geth does; the state root. Raises GenesisError."""
    state = State(store)
    for text, entry in alloc.items():
        try:
            _load_account(state, text, entry)
        except (ValueError, TypeError, AttributeError) as error:
            raise GenesisError(f"alloc: account {text[:60]}: {error}") from None
    return state.commit(keep_empty=True)


def number(value: Any) -> int:
    """Return a number in a genesis file: hex or decimal text, a JSON number, or null for 0. Raises ValueError."""
    if value is None:
        return 0
    if isinstance(value, str):
        try:
            return int(value, 16 if value.startswith("0x") else 10)
        except ValueError:
            raise ValueError(f"expected a number, got {value[:40]!r}") from None
    if type(value) is int:
        return value
    raise ValueError(f"expected a number, got {type(value).__name__}")


def data(value: Any) -> bytes:
    """Bytes in a genesis file: hex text with or without 0x, or null for none. Raises ValueError."""
    try:
        return bytes.fromhex(value.removeprefix("0x")) if value else b""
    except ValueError:
        raise ValueError(f"expected bytes in hex, got {value[:40]!r}") from None


def _load_account(state: State, text: str, entry: Mapping[str, Any]) -> None:
    address = data(text).rjust(20, b"\0")
    if len(address) != 20:
        raise ValueError("expected 20 bytes as address")
    account = Account(number(entry.get("nonce")), number(entry.get("balance")), EMPTY_ROOT, EMPTY_CODE_HASH)
    state.put_account(address, account)
    code = data(entry.get("code"))
    if code:
        state.set_code(address, code)
    for slot, value in (entry.get("storage") or {}).items():
        if number(value):
            state.set_storage(address, number(_prefixed(slot)), number(_prefixed(value)))


def _prefixed(text: str) -> str:
    return text if text.startswith("0x") else "0x" + text
