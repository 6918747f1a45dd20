"""A rollup crosses every fork: the verifier derives the blocks that the sequencer builds, all upgrade transactions
succeed, and the proxies have the implementations of the rules [UPG5 to UPG8, UPG16, UPG17]."""

from itertools import groupby
from pathlib import Path

import pytest
import zstandard

from rollup_node.stages.protocol.deposits import decode_deposit, is_deposit
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, CarriedBundle
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import ETH_LIQUIDITY, L1_BLOCK, predeploy
from rollup_node.stages.protocol.upgrade_transactions import (
    carried_bundle,
    load_bundle,
    upgrade_gas,
    upgrade_transactions,
)
from rollup_node.tools.batcher.channels import ChannelConfig, Compression
from rollup_node.tools.devnet.evm.state import State
from rollup_node.tools.devnet.files import GAS_LIMIT
from rollup_node.tools.devnet.l2_genesis import read_alloc
from tests.support.chains.small_rollup import NEWEST, InProcessEngine, SmallRollup

FORKS = FORK_NAMES[1:]
OLDEST = ChannelConfig(spans=False, blobs=False, compression=Compression.ZLIB)
SLOT = int.from_bytes(keccak256(b"eip1967.proxy.implementation"), "big") - 1
ATTESTATIONS, FEATURE_FLAGS = 0x21, 0x2D
"""Predeploys whose code differs between chains: it contains a hash over chain and address, or a version."""
DETERMINISTIC_DEPLOYER = bytes.fromhex("4e59b44847b379578588920ca78fbf26c0b4956c")
DEPLOY = keccak256(b"deploy(bytes32,bytes)")[:4]
IMPLEMENTATIONS = {
    "ecotone": {
        0x15: "07dbe8500fc591d1852b76fee44d5a05e13097ff",
        0x0F: "b528d11cc114e026f138fe568744c6d45ce6da7a",
    },
    "fjord": {0x0F: "a919894851548179a0750865e7974da599c0fac7"},
    "isthmus": {
        0x15: "ff256497d61dcd71a9e9ff43967c13fde1f72d12",
        0x0F: "93e57a196454cb919193fa9946f14943cf733845",
        0x1B: "4fa2be8cd41504037f1838bce3bcc93bc68ff537",
    },
    "jovian": {
        0x15: "3ba4007f5c922fbb33c454b41ea7a1f11e83df2c",
        0x0F: "4f1db3c6abd250ba86e0928471a8f7db3afd88f1",
    },
}
"""The implementation of each proxy, by the last byte of its address, after a fork's activation block."""
CROSS_L2_INBOX = 0x22
KARST_DEPLOYMENTS = {
    0x07: 3,
    0x0F: 4,
    0x10: 5,
    0x11: 6,
    0x12: 7,
    0x14: 8,
    0x15: 9,
    0x16: 10,
    0x17: 11,
    0x18: 12,
    0x19: 13,
    0x1A: 14,
    0x1B: 15,
    0x20: 16,
    0x21: 17,
    0x2C: 18,
    0x2D: 19,
}
"""The proxies that Karst changes, with the entry of its bundle that deploys the implementation [UPG16]."""


def karst_implementations() -> dict[int, str]:
    """Return the addresses of the contracts that Karst's bundle deploys, by EIP-1014."""
    transactions = load_bundle("karst").transactions
    result = {}
    for low, entry in KARST_DEPLOYMENTS.items():
        data = decode_deposit(transactions[entry]).data
        assert data[:4] == DEPLOY and int.from_bytes(data[36:68], "big") == 64
        code = data[100 : 100 + int.from_bytes(data[68:100], "big")]
        result[low] = keccak256(b"\xff" + DETERMINISTIC_DEPLOYER + data[4:36] + keccak256(code))[12:].hex()
    return result


def implementations(engine: InProcessEngine, number: int) -> dict[int, str]:
    """Return the implementations of all proxies after a block; each must have code."""
    state = State(engine.backend.store, engine.block(number).header.state_root)
    result = {}
    for low in range(0x40):
        address = state.storage(predeploy(low), SLOT).to_bytes(20, "big")
        if any(address):
            assert state.code(address), f"{low:#x} points to {address.hex()}, which has no code"
            result[low] = address.hex()
    return result


def check(rollup: SmallRollup) -> dict[str, int]:
    """Assert that both engines have the same blocks, nothing was dropped and no deposit failed.

    The number of each fork's activation block."""
    schedule, engine = rollup.config.schedule(), rollup.verifier
    assert engine.head.hash == rollup.sequencer.head.hash and rollup.dropped == []
    activated: dict[str, int] = {}
    for number in range(1, engine.head.number + 1):
        block = engine.block(number)
        assert block.hash == rollup.sequencer.block(number).hash
        assert [entry.result.error for entry in block.executed if not entry.result.succeeded] == []
        activations = schedule.activations(block.header.timestamp)
        bundles = list(upgrade_transactions(rollup.config, activations))
        deposits = [entry.transaction.raw for entry in block.executed if is_deposit(entry.transaction.raw)]
        users = len(block.executed) - len(deposits)
        assert not bundles or deposits[-len(bundles) :] == bundles
        assert users == 0 if any(activation.sequencer_no_tx_pool for activation in activations) else users >= 1
        assert block.header.gas_limit == GAS_LIMIT + upgrade_gas(rollup.config, activations)
        activated |= {fork.name: number for fork in schedule.activating(block.header.timestamp)}
    origin = engine.state().storage(L1_BLOCK, 0) & (1 << 64) - 1
    assert origin == rollup.safe.l1_origin.number > 0
    return activated


@pytest.mark.parametrize("fork", FORKS)
def test_a_chain_that_starts_before_a_fork_crosses_it(fork: str) -> None:
    """The fork's time is between two blocks: it activates in the later one."""
    rollup = SmallRollup(f"{fork}=7", pace=(4, 2))
    rollup.run(27)
    assert check(rollup) == {fork: 4}
    if fork in IMPLEMENTATIONS:
        assert implementations(rollup.verifier, rollup.safe.number).items() >= IMPLEMENTATIONS[fork].items()


@pytest.mark.fault("F37")
@pytest.mark.parametrize("channel", [NEWEST, OLDEST], ids=["newest", "oldest"])
def test_all_forks_are_crossed_in_one_run(channel: ChannelConfig) -> None:
    rollup = SmallRollup(*(f"{fork}={3 + 4 * index}" for index, fork in enumerate(FORKS)), channel=channel)
    rollup.run(56)
    assert check(rollup) == {fork: 3 + 4 * index for index, fork in enumerate(FORKS)}
    used = [(item.spans, item.blobs, item.compression is Compression.BROTLI) for item, _ in groupby(rollup.channels)]
    newer = [(True, False, False), (True, True, False), (True, True, True)]
    assert used == [(False, False, False), *(newer if channel is NEWEST else [])]


def test_forks_may_share_an_activation_block() -> None:
    rollup = SmallRollup("ecotone=4", "isthmus=9")
    rollup.run(16)
    assert check(rollup) == {"ecotone": 4, "fjord": 9, "granite": 9, "holocene": 9, "isthmus": 9}
    assert implementations(rollup.verifier, 9).items() >= IMPLEMENTATIONS["isthmus"].items()


LAGOON = BUNDLE_FORKS["lagoon"].carried


@pytest.mark.parametrize(
    ("carried", "linked"),
    [*((carried, True) for carried in LAGOON), (LAGOON[0], False)],
    ids=[*(carried.sha256[:8] for carried in LAGOON), "alone"],
)
def test_lagoon_is_crossed_with_each_bundle_and_kind_of_dependency_set(carried: CarriedBundle, linked: bool) -> None:
    """[UPG18, UPG19, ATT26, ATT32] The gas limit of the next block is that of before."""
    forks, bundles = ("jovian=2", "karst=4", "lagoon=7"), {"lagoon": carried_bundle("lagoon", carried)}
    rollup = SmallRollup(*forks, linked=linked, bundles=bundles)
    rollup.run(12)
    assert check(rollup) == {"jovian": 2, "karst": 4, "lagoon": 7}
    state = rollup.verifier.state()
    assert bool(state.balance(ETH_LIQUIDITY)) is linked
    result = implementations(rollup.verifier, 7)
    assert result == implementations(rollup.verifier, 8) and (CROSS_L2_INBOX in result) is linked


def test_an_upgrade_transaction_that_fails_leaves_the_block_valid() -> None:
    """The manager refuses a chain with setFeature(INTEROP) whose flags lack the bit, so that the contracts stay as they
    are, and a proxy without implementation refuses fund()."""
    rollup = SmallRollup("karst=3", "lagoon=6", linked=True, flagged=False)
    rollup.run(10)
    block = rollup.verifier.block(6)
    failed = [entry.result.succeeded for entry in block.executed]
    assert failed[-2:] == [False, False] and all(failed[:-2])
    assert rollup.verifier.head.hash == rollup.sequencer.head.hash and rollup.dropped == []
    assert rollup.safe.number == 10 and rollup.verifier.block(7).header.gas_limit == GAS_LIMIT


def unpack(registry: Path, name: str, folder: Path) -> Path:
    """Write a genesis file of the registry as JSON; its path."""
    dictionary = zstandard.ZstdCompressionDict((registry / "dictionary").read_bytes())
    packed = (registry / f"{name}.json.zst").read_bytes()
    file = folder / f"{name.replace('/', '-')}.json"
    file.write_bytes(zstandard.ZstdDecompressor(dict_data=dictionary).decompress(packed, max_output_size=1 << 28))
    return file


def test_every_fork_upgrades_the_contracts_of_a_public_chain(shared_data: Path, tmp_path: Path) -> None:
    file = unpack(shared_data / "registry" / "genesis", "mainnet/zora", tmp_path)
    rollup = SmallRollup(*(f"{fork}={3 * index}" for index, fork in enumerate(FORKS)), l2_alloc=file)
    rollup.run(36)
    activated = check(rollup)
    assert list(activated) == list(FORKS[1:])
    expected = implementations(rollup.verifier, 0)
    assert set(expected.values()) == {f"{'c0d3' * 9}{low:04x}" for low in expected} and len(expected) >= 15
    for fork in FORKS[1:-1]:
        expected |= karst_implementations() if fork == "karst" else IMPLEMENTATIONS.get(fork, {})
        assert implementations(rollup.verifier, activated[fork]) == expected, fork
    assert implementations(rollup.verifier, activated["lagoon"]).keys() == expected.keys()


def test_karst_installs_the_contracts_of_a_public_chain_that_started_with_it(shared_data: Path, tmp_path: Path) -> None:
    registry = shared_data / "registry" / "genesis"
    expected = read_alloc(unpack(registry, "sepolia-devnet-2/sepolia-devnet-2", tmp_path)).alloc
    rollup = SmallRollup("karst=3", l2_alloc=unpack(registry, "sepolia/op", tmp_path))
    rollup.run(6)
    check(rollup)
    state = rollup.verifier.state()
    result = {low: state.code(bytes.fromhex(text)) for low, text in implementations(rollup.verifier, 6).items()}
    differing = {
        low for low in KARST_DEPLOYMENTS if to_hex(result[low]) != expected[f"0x{'c0d3' * 9}{low:04x}"]["code"]
    }
    assert differing == {ATTESTATIONS, FEATURE_FLAGS}
