"""L1 chains with their blob schedules, and the blob base fee of L1 blocks [LIN23 to LIN34]."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from rollup_node.stages.protocol.errors import DECODE_ERRORS, CriticalError
from rollup_node.stages.protocol.forks.table import FORKS, TIMED_FORKS
from rollup_node.stages.protocol.types import L1Header

BLOB_FORKS = ("cancun", "prague", "osaka", "bpo1", "bpo2", "bpo3", "bpo4", "bpo5")
SAME_AS_PRAGUE = "osaka"
UPDATE_FRACTIONS = {"cancun": 3_338_477, "prague": 5_007_716, "osaka": 5_007_716, "bpo1": 8_346_193, "bpo2": 11_684_671}
_MAX_EXPONENT = 177
"""A blob base fee of more than e^177 wei does not fit 256 bits [LIN33]."""
_PECTRA_LATE_CHAINS = (11_155_111, 17_000)
_FORK_TIMES = ("shanghai", *BLOB_FORKS, "amsterdam", "verkle", "ubt")
_OP_FORK_TIMES = (*(fork.name for fork in FORKS if fork.engine and fork.name in TIMED_FORKS), "interop")
_FORK_BLOCKS = (
    *("homestead", "daoFork", "eip150", "eip155", "eip158", "byzantium", "constantinople", "petersburg", "istanbul"),
    *("muirGlacier", "berlin", "london", "arrowGlacier", "grayGlacier", "mergeNetsplit", "bedrock"),
)
_KNOWN_KEYS = frozenset(
    {f"{name}Time" for name in (*_FORK_TIMES, *_OP_FORK_TIMES)}
    | {f"{name}Block" for name in _FORK_BLOCKS}
    | {"chainId", "daoForkSupport", "eip150Hash", "terminalTotalDifficulty", "terminalTotalDifficultyPassed"}
    | {"depositContractAddress", "enableVerkleAtGenesis", "enableUBTAtGenesis", "ethash", "clique", "optimism"}
    | {"blobSchedule"}
)
OLD_MEMBERS = (
    "blobSchedule.osaka",
    "blobSchedule.verkle",
    "blobSchedule.amsterdam",
    "verkleTime",
    "enableVerkleAtGenesis",
)
"""Members of `rollup.l1-chain-config` that op-node refuses from 1.21.0 on [OPT34]."""


class L1ChainError(ValueError):
    """The L1 chain config is malformed or not of the right chain; the text says why."""


class BlobFork(msgspec.Struct, frozen=True, array_like=True):
    """A fork of L1 that sets the update fraction of the blob base fee from `time` (seconds) on."""

    name: str
    time: int
    update_fraction: int


class L1Chain(msgspec.Struct, frozen=True, array_like=True):
    """An L1 chain; `blob_forks` are the forks that have a time and a blob schedule entry, oldest first [LIN25].

    `is_op`: it is an OP Stack chain itself, the L1 of an L3."""

    chain_id: int
    name: str
    blob_forks: tuple[BlobFork, ...]
    is_op: bool = False

    def blob_fork(self, name: str) -> BlobFork | None:
        """Return the fork of that name, if the chain has it."""
        return next((fork for fork in self.blob_forks if fork.name == name), None)

    def update_fraction(self, time: int, pectra_blob_schedule_time: int | None = None) -> int:
        """Return the update fraction of an L1 block of this time [LIN25].

        Before `pectra_blob_schedule_time` it is Cancun's on the public L1 chains, whatever this chain's schedule says
        [LIN26]. Raises CriticalError if no fork applies."""
        corrected = pectra_blob_schedule_time is not None and time < pectra_blob_schedule_time
        # The newest fork by its place in the list, even if an older one has a later time.
        for fork in reversed(self.blob_forks):
            if time >= fork.time:
                return UPDATE_FRACTIONS["cancun"] if corrected else fork.update_fraction
        raise CriticalError(
            f"the configuration of L1 chain {self.chain_id} has no blob schedule for time {time},"
            " yet its blocks have excess blob gas: check rollup.l1-chain-config"
        )


@lru_cache(maxsize=256)
def blob_base_fee(excess_blob_gas: int, update_fraction: int) -> int:
    """Return the blob base fee in wei: EIP-4844's integer approximation of e^(excess / fraction) [LIN24]."""
    term, total, step = update_fraction, 0, 1
    while term > 0:
        total += term
        term = term * excess_blob_gas // update_fraction // step
        step += 1
    return total // update_fraction


def l1_blob_base_fee(chain: L1Chain, header: L1Header, pectra_blob_schedule_time: int | None) -> int:
    """Return the blob base fee of an L1 block in wei; 1 if it has no excess blob gas, and on an OP chain [LIN23].

    Raises CriticalError if no fork applies, or if the fee would exceed 256 bits [LIN33]."""
    excess = header.excess_blob_gas
    if excess is None or chain.is_op:
        return 1
    fraction = chain.update_fraction(header.timestamp, pectra_blob_schedule_time)
    # The loop of blob_base_fee would run for hours on such a number.
    if excess > _MAX_EXPONENT * fraction:
        raise CriticalError(f"excess blob gas {excess} of L1 block {header.ref} is impossible: check the L1 endpoint")
    return blob_base_fee(excess, fraction)


def pectra_schedule_probably_missing(chain: L1Chain, l2_genesis_time: int, correction_time: int | None) -> bool:
    """Whether a rollup on this L1 started before Prague there and lacks `pectra_blob_schedule_time` [CFG26]."""
    prague = chain.blob_fork("prague")
    late = chain.chain_id in _PECTRA_LATE_CHAINS and prague is not None and prague.time >= l2_genesis_time
    return late and correction_time is None


def _chain(chain_id: int, name: str, *times: int) -> L1Chain:
    forks = zip(UPDATE_FRACTIONS.items(), times, strict=True)
    return L1Chain(chain_id, name, tuple(BlobFork(fork, time, fraction) for (fork, fraction), time in forks))


L1_CHAINS: Mapping[int, L1Chain] = {
    chain.chain_id: chain
    for chain in (
        _chain(1, "mainnet", 1710338135, 1746612311, 1764798551, 1765290071, 1767747671),
        _chain(11_155_111, "sepolia", 1706655072, 1741159776, 1760427360, 1761017184, 1761607008),
        _chain(560_048, "hoodi", 0, 1742999832, 1761677592, 1762365720, 1762955544),
    )
}


def parse_l1_chain(content: bytes, chain_id: int) -> L1Chain:
    """Return the chain in a `rollup.l1-chain-config` file [OPT34].

    The file has the config object itself, or a genesis with it under `config`. `chain_id` is that of the rollup config.
    Raises L1ChainError for a malformed file or another chain."""
    spec, is_embedded = _spec(content)
    # A genesis file may hold anything beside its config; the config object itself may not.
    unknown = sorted(set(spec) - _KNOWN_KEYS)
    if unknown and not is_embedded:
        raise L1ChainError(f"failed to read chain spec: unknown key {unknown[0][:60]!r}")
    if _whole_number(spec, "chainId") != chain_id:
        raise L1ChainError(f"l1 chain config chain ID mismatch: {spec.get('chainId')} != {chain_id}")
    schedule, is_op = spec.get("blobSchedule"), isinstance(spec.get("optimism"), dict)
    if not isinstance(schedule, dict) and not is_op:
        raise L1ChainError("L1 chain config does not have a blob schedule config")
    forks = (_blob_fork(name, spec, schedule or {}) for name in BLOB_FORKS)
    return L1Chain(chain_id, f"chain {chain_id}", tuple(fork for fork in forks if fork is not None), is_op)


def old_members(content: bytes) -> tuple[str, ...]:
    """Those of OLD_MEMBERS that a file has, which is one that `parse_l1_chain` takes."""
    spec, _ = _spec(content)
    schedule = spec.get("blobSchedule")
    has = {f"blobSchedule.{name}" for name in schedule} | set(spec) if isinstance(schedule, dict) else set(spec)
    return tuple(name for name in OLD_MEMBERS if name in has)


def _spec(content: bytes) -> tuple[dict[str, Any], bool]:
    """Return the config object of a file, and whether a genesis is around it. Raises L1ChainError."""
    try:
        result = msgspec.json.decode(content)
    except DECODE_ERRORS as error:
        raise L1ChainError(f"failed to read chain spec: not JSON: {error}") from None
    if not isinstance(result, dict):
        raise L1ChainError("failed to read chain spec: not a JSON object")
    embedded = result.get("config")
    return (embedded, True) if isinstance(embedded, dict) else (result, False)


def _blob_fork(name: str, spec: dict[str, Any], schedule: dict[str, Any]) -> BlobFork | None:
    """Return a fork with a time and an entry; Osaka has Prague's [LIN28]."""
    own = schedule.get(name)
    entry = schedule.get("prague", own) if name == SAME_AS_PRAGUE else own
    time = _whole_number(spec, f"{name}Time")
    if time is None or not isinstance(entry, dict):
        return None
    fraction = _whole_number(entry, "baseFeeUpdateFraction")
    if not fraction:
        raise L1ChainError(f"failed to read chain spec: blobSchedule.{name}.baseFeeUpdateFraction must be positive")
    return BlobFork(name, time, fraction)


def _whole_number(spec: dict[str, Any], key: str) -> int | None:
    value = spec.get(key)
    if value is None or (type(value) is int and 0 <= value < 1 << 64):
        return value
    raise L1ChainError(f"failed to read chain spec: {key} must be a whole number")
