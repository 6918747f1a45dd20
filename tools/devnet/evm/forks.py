"""The fork table of the EVM: precompiles and rules by fork. Nothing else in `evm` compares fork names."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Generic, TypeVar

from msgspec.structs import replace

from rollup_node.stages.protocol.types import Address
from rollup_node.tools.devnet.evm import bls12_381, bn254, hash_precompiles, instruction_table
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.rules import MAX_CODE, BlobRules, EvmRules, Precompile

T = TypeVar("T")

_MAX_INIT_CODE = 2 * MAX_CODE


def at(number: int) -> Address:
    """Return the address of a precompile."""
    return number.to_bytes(20, "big")


def costs(gas: int, per_word: int = 0) -> "_Costs":
    """Return a gas function with a base price and a price per word of input."""
    return _Costs(gas, per_word)


class _Costs:
    def __init__(self, gas: int, per_word: int) -> None:
        self._gas = gas
        self._per_word = per_word

    def __call__(self, data: bytes) -> int:
        return self._gas + self._per_word * hash_precompiles.words(data)


def limited(precompile: Precompile, size: int) -> Precompile:
    """Return the precompile with a limit of input bytes; it halts for longer input."""

    def run(data: bytes) -> bytes:
        if len(data) > size:
            raise ExceptionalHalt(f"precompile input of more than {size} bytes")
        return precompile.run(data)

    return Precompile(precompile.gas, run)


POINT_EVALUATION = at(0x0A)
BN254_PAIRING, P256_VERIFY = at(0x08), at(0x100)
G1_SUM, G2_SUM, BLS_PAIRING = at(0x0C), at(0x0E), at(0x0F)

_SINCE_BERLIN = {
    at(0x01): Precompile(costs(3000), hash_precompiles.recover),
    at(0x02): Precompile(costs(60, 12), hash_precompiles.sha256),
    at(0x03): Precompile(costs(600, 120), hash_precompiles.ripemd160),
    at(0x04): Precompile(costs(15, 3), hash_precompiles.identity),
    at(0x05): Precompile(hash_precompiles.gas_from_berlin, hash_precompiles.modexp),
    at(0x06): Precompile(costs(150), bn254.add),
    at(0x07): Precompile(costs(6000), bn254.multiply),
    BN254_PAIRING: Precompile(bn254.pairing_gas, bn254.pairing),
    at(0x09): Precompile(hash_precompiles.blake2_gas, hash_precompiles.blake2),
}
_SINCE_CANCUN = _SINCE_BERLIN | {POINT_EVALUATION: Precompile(costs(50_000), bls12_381.evaluate_point)}
_SINCE_PRAGUE = _SINCE_CANCUN | {
    at(0x0B): Precompile(costs(375), bls12_381.g1_add),
    G1_SUM: Precompile(bls12_381.g1_sum_gas, bls12_381.g1_sum),
    at(0x0D): Precompile(costs(600), bls12_381.g2_add),
    G2_SUM: Precompile(bls12_381.g2_sum_gas, bls12_381.g2_sum),
    BLS_PAIRING: Precompile(bls12_381.pairing_gas, bls12_381.pairing),
    at(0x10): Precompile(costs(5500), bls12_381.map_to_g1),
    at(0x11): Precompile(costs(23_800), bls12_381.map_to_g2),
}
_SINCE_OSAKA = _SINCE_PRAGUE | {
    at(0x05): Precompile(hash_precompiles.gas_from_osaka, hash_precompiles.modexp),
    P256_VERIFY: Precompile(costs(6900), hash_precompiles.verify_p256),
}
P256_BEFORE_OSAKA = Precompile(costs(3450), hash_precompiles.verify_p256)

PARIS = EvmRules(name="paris", instructions=instruction_table.PARIS, precompiles=_SINCE_BERLIN)
SHANGHAI = replace(
    PARIS,
    name="shanghai",
    instructions=instruction_table.SHANGHAI,
    warm_coinbase=True,
    max_init_code=_MAX_INIT_CODE,
    init_code_word_gas=2,
)
CANCUN = replace(
    SHANGHAI,
    name="cancun",
    instructions=instruction_table.CANCUN,
    precompiles=_SINCE_CANCUN,
    blobs=BlobRules(target=3, maximum=6, update_fraction=3_338_477),
)
PRAGUE = replace(
    CANCUN,
    name="prague",
    precompiles=_SINCE_PRAGUE,
    delegations=True,
    floor_gas=True,
    blobs=BlobRules(target=6, maximum=9, update_fraction=5_007_716),
)
OSAKA = replace(
    PRAGUE,
    name="osaka",
    instructions=instruction_table.OSAKA,
    precompiles=_SINCE_OSAKA,
    max_transaction_gas=1 << 24,
    blobs=BlobRules(target=6, maximum=9, update_fraction=5_007_716, reserve_price=True, per_transaction=6),
)
BPO1 = replace(
    OSAKA,
    name="bpo1",
    blobs=BlobRules(target=10, maximum=15, update_fraction=8_346_193, reserve_price=True, per_transaction=6),
)
BPO2 = replace(
    OSAKA,
    name="bpo2",
    blobs=BlobRules(target=14, maximum=21, update_fraction=11_684_671, reserve_price=True, per_transaction=6),
)
AMSTERDAM = replace(
    BPO2,
    name="amsterdam",
    instructions=instruction_table.AMSTERDAM,
    transfer_logs=True,
    slot_number=True,
    block_access_list=True,
)
"""With what others see of a block: header fields and logs. Its prices of gas are those of Osaka still."""

L1_FORKS: tuple[EvmRules, ...] = (SHANGHAI, CANCUN, PRAGUE, OSAKA, BPO1, BPO2, AMSTERDAM)


class L1Schedule(Generic[T]):
    """What holds on an L1 chain by block time.

    `first`, and then what `by_fork` has for the forks whose activation times are in the chain's genesis `config`
    (`cancunTime` etc.)."""

    def __init__(self, config: Mapping[str, object], first: T, by_fork: Mapping[str, T]) -> None:
        timed = [(time, result) for name, result in by_fork.items() if type(time := config.get(f"{name}Time")) is int]
        timed.sort(key=lambda pair: pair[0])
        self._times = [time for time, _ in timed]
        self._found = [first, *(result for _, result in timed)]

    def at(self, time: int) -> T:
        """Return what holds in a block with this timestamp."""
        return self._found[bisect_right(self._times, time)]


def l1_rules(config: Mapping[str, object]) -> L1Schedule[EvmRules]:
    """Return the EVM rules of an L1 chain."""
    return L1Schedule(config, PARIS, {rules.name: rules for rules in L1_FORKS})
