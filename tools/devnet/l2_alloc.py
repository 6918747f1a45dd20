"""Reads the file of `--l2-alloc`: a genesis whose accounts the local L2 starts with."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.evm.genesis import data, number
from rollup_node.tools.devnet.predeploys.upgraded_alloc import Alloc
from rollup_node.tools.devnet.settings import SettingsError

ADDRESS_BYTES, WORD_BYTES = 20, 32


class GenesisAccounts(NamedTuple):
    """The accounts of a genesis file, and the forks whose contracts they already contain."""

    alloc: Alloc
    forks: frozenset[str]


def read_alloc(path: Path) -> GenesisAccounts:
    """Reads a genesis file, or an object of accounts alone. Raises SettingsError for anything else."""
    try:
        genesis = json.loads(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"--l2-alloc {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"--l2-alloc {path}: not JSON: {error}") from None
    accounts = genesis.get("alloc", genesis) if isinstance(genesis, dict) else None
    if not isinstance(accounts, dict) or not accounts:
        raise SettingsError(f"--l2-alloc {path}: expected a genesis file with accounts under `alloc`")
    alloc: Alloc = {}
    for text, entry in accounts.items():
        try:
            alloc[_hex(data(text), ADDRESS_BYTES)] = _account(entry)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise SettingsError(f"--l2-alloc {path}: account {text[:60]}: {error}") from None
    try:
        return GenesisAccounts(alloc, _forks(genesis))
    except ValueError as error:
        raise SettingsError(f"--l2-alloc {path}: timestamp: {error}") from None


def _account(entry: Mapping[str, Any]) -> dict[str, Any]:
    storage = {_word(slot): _word(value) for slot, value in (entry.get("storage") or {}).items()}
    return {
        "balance": hex(number(entry.get("balance"))),
        "nonce": hex(number(entry.get("nonce"))),
        **({"code": to_hex(code)} if (code := data(entry.get("code"))) else {}),
        **({"storage": storage} if storage else {}),
    }


def _word(text: str) -> str:
    return _hex(number(text if text.startswith("0x") else "0x" + text).to_bytes(WORD_BYTES, "big"), WORD_BYTES)


def _hex(value: bytes, size: int) -> str:
    if len(value) > size:
        raise ValueError(f"expected at most {size} bytes")
    return to_hex(value.rjust(size, b"\0"))


def _forks(genesis: Mapping[str, Any]) -> frozenset[str]:
    """The forks that the file's `config` activates at or before its timestamp."""
    config = genesis.get("config")
    if not isinstance(config, dict):
        return frozenset()
    start = number(genesis.get("timestamp"))
    times = {name: config.get(f"{name}Time") for name in FORK_NAMES}
    return frozenset(name for name, value in times.items() if type(value) is int and value <= start)
