"""Writes the upgrade transaction files of `stages/protocol/forks` from a folder of deployment code and bundles.

The folder has the `<name>-deployment.txt` files of the specs repository (`specs/static/bytecode`) and the
`<fork>_nut_bundle.json` files of op-node's repository (`op-core/nuts/bundles`). Run as
`python -m rollup_node.tools.importers.upgrades FOLDER`. [UPG1 to UPG18]
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from rollup_node.stages.protocol import addresses, rlp
from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import ZERO_ADDRESS, Address
from rollup_node.stages.protocol.upgrade_transactions import UpgradeEntry, UpgradeFile

EIP_4788_DEPLOYER = bytes.fromhex("0b799c86a49deeb90402691f1041aa3af2d3c875")
EIP_4788_CREATION = bytes.fromhex(
    "60618060095f395ff33373fffffffffffffffffffffffffffffffffffffffe14604d57602036146024575f5ffd5b5f35801560495762001f"
    "ff810690815414603c575f5ffd5b62001fff01545f5260205ff35b5f5ffd5b62001fff42064281555f359062001fff015500"
)
EIP_2935_DEPLOYER = bytes.fromhex("3462413af4609098e1e27a490f554f260213d685")
EIP_2935_CREATION = bytes.fromhex(
    "60538060095f395ff33373fffffffffffffffffffffffffffffffffffffffe14604657602036036042575f35600143038111604257611fff"
    "81430311604257611fff9006545f5260205ff35b5f5ffd5b5f35611fff60014303065500"
)
SPECS = "ethereum-optimism/specs, specs/protocol/{fork}/derivation.md and specs/static/bytecode"
BUNDLES = "ethereum-optimism/optimism, op-core/nuts/bundles/{fork}_nut_bundle.json"
BUNDLE_VERSION = "1.0.0"
WRAPPERS_GAS = 150_000


def deployer(number: int) -> Address:
    """The sender 0x42100000000000000000000000000000000000nn of the n-th deployment [UPG2]."""
    return b"\x42\x10" + bytes(17) + number.to_bytes(1, "big")


def created(sender: Address) -> Address:
    """The address of the first contract that an account creates [UPG2]."""
    return keccak256(rlp.encode([sender, b""]))[12:]


def call(signature: str, *words: bytes) -> bytes:
    """The calldata of a function call with word arguments."""
    return keccak256(signature.encode())[:4] + b"".join(word.rjust(32, b"\0") for word in words)


def entry(intent: str, sender: Address, to: Address | None, gas: int, data: bytes, mint: int = 0) -> UpgradeEntry:
    """An upgrade transaction that mints the value it sends, in wei."""
    amount = str(mint)
    return UpgradeEntry(intent, to_hex(sender), None if to is None else to_hex(to), gas, to_hex(data), amount, amount)


def proxy_update(intent: str, proxy: Address, implementation: Address) -> UpgradeEntry:
    """The zero address points a proxy at its new implementation [UPG3]."""
    return entry(intent, ZERO_ADDRESS, proxy, 50_000, call("upgradeTo(address)", implementation))


class Importer:
    """Builds the upgrade files from a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> tuple[UpgradeFile, ...]:
        """The files of all forks that have upgrade transactions."""
        return (self.ecotone(), self.fjord(), self.isthmus(), self.jovian(), self.karst(), self.lagoon())

    def ecotone(self) -> UpgradeFile:
        """Ecotone's [UPG5]."""
        l1_block, oracle = deployer(0), deployer(1)
        depositor = addresses.L1_ATTRIBUTES_DEPOSITOR
        return self._specs(
            "ecotone",
            entry("Ecotone: L1 Block Deployment", l1_block, None, 375_000, self._code("ecotone-l1-block")),
            entry(
                "Ecotone: Gas Price Oracle Deployment", oracle, None, 1_000_000, self._code("ecotone-gas-price-oracle")
            ),
            proxy_update("Ecotone: L1 Block Proxy Update", addresses.L1_BLOCK, created(l1_block)),
            proxy_update("Ecotone: Gas Price Oracle Proxy Update", addresses.GAS_PRICE_ORACLE, created(oracle)),
            entry(
                "Ecotone: Gas Price Oracle Set Ecotone",
                depositor,
                addresses.GAS_PRICE_ORACLE,
                80_000,
                call("setEcotone()"),
            ),
            entry(
                "Ecotone: beacon block roots contract deployment", EIP_4788_DEPLOYER, None, 250_000, EIP_4788_CREATION
            ),
        )

    def fjord(self) -> UpgradeFile:
        """Fjord's [UPG6]."""
        oracle, depositor = deployer(2), addresses.L1_ATTRIBUTES_DEPOSITOR
        return self._specs(
            "fjord",
            entry("Fjord: Gas Price Oracle Deployment", oracle, None, 1_450_000, self._code("fjord-gas-price-oracle")),
            proxy_update("Fjord: Gas Price Oracle Proxy Update", addresses.GAS_PRICE_ORACLE, created(oracle)),
            entry(
                "Fjord: Gas Price Oracle Set Fjord", depositor, addresses.GAS_PRICE_ORACLE, 90_000, call("setFjord()")
            ),
        )

    def isthmus(self) -> UpgradeFile:
        """Isthmus' [UPG7]."""
        l1_block, oracle, vault = deployer(3), deployer(4), deployer(5)
        depositor = addresses.L1_ATTRIBUTES_DEPOSITOR
        return self._specs(
            "isthmus",
            entry("Isthmus: L1 Block Deployment", l1_block, None, 425_000, self._code("isthmus-l1-block")),
            entry(
                "Isthmus: Gas Price Oracle Deployment", oracle, None, 1_625_000, self._code("isthmus-gas-price-oracle")
            ),
            entry("Isthmus: Operator Fee Vault Deployment", vault, None, 500_000, self._code("isthmus-operator-fee")),
            proxy_update("Isthmus: L1 Block Proxy Update", addresses.L1_BLOCK, created(l1_block)),
            proxy_update("Isthmus: Gas Price Oracle Proxy Update", addresses.GAS_PRICE_ORACLE, created(oracle)),
            proxy_update("Isthmus: Operator Fee Vault Proxy Update", addresses.OPERATOR_FEE_VAULT, created(vault)),
            entry(
                "Isthmus: Gas Price Oracle Set Isthmus",
                depositor,
                addresses.GAS_PRICE_ORACLE,
                90_000,
                call("setIsthmus()"),
            ),
            entry("Isthmus: EIP-2935 Contract Deployment", EIP_2935_DEPLOYER, None, 250_000, EIP_2935_CREATION),
        )

    def jovian(self) -> UpgradeFile:
        """Jovian's, with op-node's intents: the specs' own give other source hashes [UPG8, UPG9]."""
        l1_block, oracle, depositor = deployer(6), deployer(7), addresses.L1_ATTRIBUTES_DEPOSITOR
        return self._specs(
            "jovian",
            entry("Jovian: L1 Block Deployment", l1_block, None, 447_315, self._code("jovian-l1-block")),
            proxy_update("Jovian: L1 Block Proxy Update", addresses.L1_BLOCK, created(l1_block)),
            entry(
                "Jovian: Gas Price Oracle Deployment", oracle, None, 1_750_714, self._code("jovian-gas-price-oracle")
            ),
            proxy_update("Jovian: Gas Price Oracle Proxy Update", addresses.GAS_PRICE_ORACLE, created(oracle)),
            entry(
                "Jovian: Gas Price Oracle Set Jovian",
                depositor,
                addresses.GAS_PRICE_ORACLE,
                90_000,
                call("setJovian()"),
            ),
        )

    def karst(self) -> UpgradeFile:
        """Karst's, from op-node's bundle [UPG12, UPG16]."""
        return UpgradeFile("karst", BUNDLES.format(fork="karst"), self._bundle("karst", "Karst"))

    def lagoon(self) -> UpgradeFile:
        """Lagoon's, from op-node's bundle, whose label is the fork's former name, Interop [UPG12, UPG17, UPG18]."""
        depositor = addresses.L1_ATTRIBUTES_DEPOSITOR
        feature = call("setFeature(bytes32)") + b"INTEROP".ljust(32, b"\0")
        funds = (1 << 128) - 1
        return UpgradeFile(
            "lagoon",
            BUNDLES.format(fork="lagoon"),
            self._bundle("lagoon", "Interop"),
            linked_before=(entry("Interop pre: setFeature(INTEROP)", depositor, addresses.L1_BLOCK, 100_000, feature),),
            linked_after=(
                entry(
                    "Interop post: ETHLiquidity Funding",
                    depositor,
                    addresses.ETH_LIQUIDITY,
                    50_000,
                    call("fund()"),
                    funds,
                ),
            ),
            reserved_gas=WRAPPERS_GAS,
        )

    def _specs(self, fork: str, *entries: UpgradeEntry) -> UpgradeFile:
        return UpgradeFile(fork, SPECS.format(fork=fork), entries)

    # Init code comes from files: the specs list it there, not in their text.
    def _code(self, name: str) -> bytes:
        return from_hex((self._folder / f"{name}-deployment.txt").read_text().strip())

    def _bundle(self, fork: str, label: str) -> tuple[UpgradeEntry, ...]:
        return bundle_entries((self._folder / f"{fork}_nut_bundle.json").read_bytes(), label)


def bundle_entries(content: bytes, label: str) -> tuple[UpgradeEntry, ...]:
    """The entries of a bundle file, with intents that carry the label and their number [UPG10, UPG11].

    Raises ValueError for another version or an entry without intent."""
    found: dict[str, Any] = msgspec.json.decode(content)
    version = found["metadata"]["version"]
    if version != BUNDLE_VERSION:
        raise ValueError(f"unknown bundle version {version!r}")
    entries = []
    for index, each in enumerate(found["transactions"]):
        if not each["intent"]:
            raise ValueError(f"bundle entry {index} has no intent")
        to = from_hex(each["to"]) if each.get("to") else None
        intent = f"{label} {index}: {each['intent']}"
        entries.append(entry(intent, from_hex(each["from"]), to, each["gasLimit"], from_hex(each["data"])))
    return tuple(entries)


def main(arguments: list[str] | None = None) -> int:
    """Writes the files and prints their locks; 1 if one is not the lock that the node expects."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="deployment code and bundles")
    parser.add_argument("--output", type=Path, default=Path(upgrades.__file__).parent / "forks", help="where to write")
    options = parser.parse_args(arguments)
    all_expected = True
    for file in Importer(options.folder).files():
        lock = upgrades.bundle_lock(upgrades.encode_bundle(file))
        is_expected = lock == upgrades.LOCKS.get(file.fork)
        all_expected &= is_expected
        path = options.output / f"upgrades_{file.fork}.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")
        note = "" if is_expected else " (DIFFERS from the expected lock)"
        print(f"{path.name}: {len(file.transactions)} transactions, lock {lock}{note}")
    return 0 if all_expected else 1


if __name__ == "__main__":
    sys.exit(main())
