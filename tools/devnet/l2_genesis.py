"""The genesis file of the local L2 in geth's format, also with the accounts of another one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.node.options.given_files import read_given_file
from rollup_node.stages.protocol.config import ChainOpConfig
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.forks.table import FORKS as TABLE
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.system_config import encode_extra_data
from rollup_node.tools.devnet.engine.execution import ChainSpec
from rollup_node.tools.devnet.engine.genesis import make_chain_spec
from rollup_node.tools.devnet.evm.state import GenesisError, data, number
from rollup_node.tools.devnet.files import DEV_KEYS, EIP1559, ETHER, GAS_LIMIT, L2_CHAIN_ID
from rollup_node.tools.devnet.fork_offsets import FORKS, SettingsError
from rollup_node.tools.devnet.predeploys.alloc import Alloc, predeploy_alloc, with_deployers, with_upgrades

_BLOCKS = ("homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople", "petersburg", "istanbul")


def l2_genesis(
    forks: Mapping[str, int],
    time: int,
    l2_alloc: Path | None = None,
    linked: bool = False,
    chain_id: int = L2_CHAIN_ID,
) -> dict[str, Any]:
    """Return the genesis of a chain that starts at `time` in seconds, with funds for the development keys.

    It has the development predeploys or the accounts of the file `l2_alloc`.

    `forks` has the seconds after genesis at which each fork activates. `linked`: the dependency set has other chains,
    and the contracts may take their messages [UPG18]. Raises SettingsError for an unusable file."""
    times = _fork_times(forks, time)
    constants = ChainOpConfig(
        EIP1559["eip1559Elasticity"], EIP1559["eip1559Denominator"], EIP1559["eip1559DenominatorCanyon"]
    )
    chain = make_chain_spec(chain_id, times, constants)
    rules = chain.schedule.l2(time)
    # An engine refuses a genesis whose extraData has not the format of its forks.
    extra_data = encode_extra_data(
        bytes(8) if rules.eip1559_params else None, 0 if rules.min_base_fee else None, constants
    )
    return {
        "config": {
            "chainId": chain_id,
            **{f"{name}Block": 0 for name in (*_BLOCKS, "muirGlacier", "berlin", "london", "arrowGlacier")},
            **{"grayGlacierBlock": 0, "mergeNetsplitBlock": 0, "bedrockBlock": 0},
            "terminalTotalDifficulty": 0,
            "terminalTotalDifficultyPassed": True,
            **{f"{fork.ethereum}Time": times[fork.name] for fork in TABLE if fork.ethereum and fork.name in times},
            **{f"{name}Time": activation for name, activation in times.items()},
            "optimism": EIP1559,
        },
        "nonce": "0x0",
        "timestamp": hex(time),
        "extraData": to_hex(extra_data),
        "gasLimit": hex(GAS_LIMIT),
        "difficulty": "0x0",
        "mixHash": to_hex(bytes(32)),
        "coinbase": "0x4200000000000000000000000000000000000011",
        "baseFeePerGas": hex(10**9),
        "alloc": _with_funds(_alloc(chain, time, l2_alloc, linked)),
    }


def _alloc(chain: ChainSpec, time: int, path: Path | None, linked: bool) -> Alloc:
    """Return the accounts of the development contracts or of a file.

    After the upgrade transactions of the forks that they do not contain."""
    if path is None:
        return predeploy_alloc(chain, time, linked)
    alloc, present = read_alloc(path)
    try:
        return with_upgrades(with_deployers(alloc, chain, time), chain, time, present, linked)
    except GenesisError as error:
        raise SettingsError(
            f"--l2-alloc {path}: {error}; list the forks that its contracts already have in its `config`, as in "
            '{"ecotoneTime": 0}, or start with an earlier fork by --fork'
        ) from None


def _with_funds(alloc: Alloc) -> Alloc:
    funds = {"balance": hex(10_000 * ETHER)}
    return alloc | {to_hex(key.address): alloc.get(to_hex(key.address), {}) | funds for key in DEV_KEYS}


def other_forks(genesis: Mapping[str, Any], forks: Mapping[str, int]) -> list[str]:
    """Return the forks whose times in a genesis file are not those of `forks`, seconds after genesis."""
    times = _fork_times(forks, int(genesis["timestamp"], 16))
    return [name for name in FORKS if genesis["config"].get(f"{name}Time") != times.get(name)]


def _fork_times(forks: Mapping[str, int], time: int) -> dict[str, int]:
    return {name: time + offset if offset else 0 for name, offset in forks.items()}


ADDRESS_BYTES, WORD_BYTES = 20, 32


class GenesisAccounts(NamedTuple):
    """The accounts of a genesis file, and the forks whose contracts they already contain."""

    alloc: Alloc
    forks: frozenset[str]


def read_alloc(path: Path) -> GenesisAccounts:
    """Read a genesis file, or an object of accounts alone. Raises SettingsError for anything else."""
    try:
        genesis = json.loads(read_given_file(str(path)))
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
    """Return the forks that the file's `config` activates at or before its timestamp."""
    config = genesis.get("config")
    if not isinstance(config, dict):
        return frozenset()
    start = number(genesis.get("timestamp"))
    times = {name: config.get(f"{name}Time") for name in FORK_NAMES}
    return frozenset(name for name, value in times.items() if type(value) is int and value <= start)
