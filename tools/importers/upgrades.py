"""Writes the upgrade transaction files of `stages/protocol/forks` from a folder of deployment code and bundles.

The folder has the `<name>-deployment.txt` files of the specs repository (`specs/static/bytecode`) and the
`<fork>_nut_bundle.json` files of op-node's repository (`op-core/nuts/bundles`), which are copied. Run as
`python -m rollup_node.tools.importers.upgrades FOLDER`. [UPG1 to UPG17]
"""

import argparse
import hashlib
import sys
from pathlib import Path

from rollup_node.stages.protocol import rlp, types
from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.deposits import upgrade_source_hash
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from rollup_node.stages.protocol.hex_encoding import from_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import ZERO_ADDRESS, Address
from rollup_node.stages.protocol.upgrade_bundle import BundleEntry, write_bundle

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


def deployer(number: int) -> Address:
    """Return the sender 0x42100000000000000000000000000000000000nn of the n-th deployment [UPG2]."""
    return b"\x42\x10" + bytes(17) + number.to_bytes(1, "big")


def created(sender: Address) -> Address:
    """Return the address of the first contract that an account creates [UPG2]."""
    return keccak256(rlp.encode([sender, b""]))[12:]


def call(signature: str, *words: bytes) -> bytes:
    """Return the calldata of a function call with word arguments."""
    return keccak256(signature.encode())[:4] + b"".join(word.rjust(32, b"\0") for word in words)


def entry(intent: str, sender: Address, to: Address | None, gas: int, data: bytes) -> BundleEntry:
    """Return an upgrade transaction; its source hash follows from its intent alone [UPG1]."""
    return BundleEntry(intent, sender, to, gas, data, upgrade_source_hash(intent))


def proxy_update(intent: str, proxy: Address, implementation: Address) -> BundleEntry:
    """Return the call by which the zero address points a proxy at its new implementation [UPG3]."""
    return entry(intent, ZERO_ADDRESS, proxy, 50_000, call("upgradeTo(address)", implementation))


class Importer:
    """Makes the upgrade transactions from a folder [UPG5 to UPG9]; the specs are those of ethereum-optimism/specs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> dict[str, bytes]:
        """Return the files of all forks that have upgrade transactions and no bundle of op-node's."""
        forks = {"ecotone": self.ecotone, "fjord": self.fjord, "isthmus": self.isthmus, "jovian": self.jovian}
        return {fork: write_bundle(entries()) for fork, entries in forks.items()}

    def ecotone(self) -> tuple[BundleEntry, ...]:
        """Ecotone's [UPG5]."""
        l1_block, oracle = deployer(0), deployer(1)
        depositor = types.L1_ATTRIBUTES_DEPOSITOR
        return (
            entry("Ecotone: L1 Block Deployment", l1_block, None, 375_000, self._code("ecotone-l1-block")),
            entry(
                "Ecotone: Gas Price Oracle Deployment", oracle, None, 1_000_000, self._code("ecotone-gas-price-oracle")
            ),
            proxy_update("Ecotone: L1 Block Proxy Update", types.L1_BLOCK, created(l1_block)),
            proxy_update("Ecotone: Gas Price Oracle Proxy Update", types.GAS_PRICE_ORACLE, created(oracle)),
            entry(
                "Ecotone: Gas Price Oracle Set Ecotone",
                depositor,
                types.GAS_PRICE_ORACLE,
                80_000,
                call("setEcotone()"),
            ),
            entry(
                "Ecotone: beacon block roots contract deployment", EIP_4788_DEPLOYER, None, 250_000, EIP_4788_CREATION
            ),
        )

    def fjord(self) -> tuple[BundleEntry, ...]:
        """Fjord's [UPG6]."""
        oracle, depositor = deployer(2), types.L1_ATTRIBUTES_DEPOSITOR
        return (
            entry("Fjord: Gas Price Oracle Deployment", oracle, None, 1_450_000, self._code("fjord-gas-price-oracle")),
            proxy_update("Fjord: Gas Price Oracle Proxy Update", types.GAS_PRICE_ORACLE, created(oracle)),
            entry("Fjord: Gas Price Oracle Set Fjord", depositor, types.GAS_PRICE_ORACLE, 90_000, call("setFjord()")),
        )

    def isthmus(self) -> tuple[BundleEntry, ...]:
        """Isthmus' [UPG7]."""
        l1_block, oracle, vault = deployer(3), deployer(4), deployer(5)
        depositor = types.L1_ATTRIBUTES_DEPOSITOR
        return (
            entry("Isthmus: L1 Block Deployment", l1_block, None, 425_000, self._code("isthmus-l1-block")),
            entry(
                "Isthmus: Gas Price Oracle Deployment", oracle, None, 1_625_000, self._code("isthmus-gas-price-oracle")
            ),
            entry("Isthmus: Operator Fee Vault Deployment", vault, None, 500_000, self._code("isthmus-operator-fee")),
            proxy_update("Isthmus: L1 Block Proxy Update", types.L1_BLOCK, created(l1_block)),
            proxy_update("Isthmus: Gas Price Oracle Proxy Update", types.GAS_PRICE_ORACLE, created(oracle)),
            proxy_update("Isthmus: Operator Fee Vault Proxy Update", types.OPERATOR_FEE_VAULT, created(vault)),
            entry(
                "Isthmus: Gas Price Oracle Set Isthmus",
                depositor,
                types.GAS_PRICE_ORACLE,
                90_000,
                call("setIsthmus()"),
            ),
            entry("Isthmus: EIP-2935 Contract Deployment", EIP_2935_DEPLOYER, None, 250_000, EIP_2935_CREATION),
        )

    def jovian(self) -> tuple[BundleEntry, ...]:
        """Jovian's, with op-node's intents: the specs' own give other source hashes [UPG8, UPG9]."""
        l1_block, oracle, depositor = deployer(6), deployer(7), types.L1_ATTRIBUTES_DEPOSITOR
        return (
            entry("Jovian: L1 Block Deployment", l1_block, None, 447_315, self._code("jovian-l1-block")),
            proxy_update("Jovian: L1 Block Proxy Update", types.L1_BLOCK, created(l1_block)),
            entry(
                "Jovian: Gas Price Oracle Deployment", oracle, None, 1_750_714, self._code("jovian-gas-price-oracle")
            ),
            proxy_update("Jovian: Gas Price Oracle Proxy Update", types.GAS_PRICE_ORACLE, created(oracle)),
            entry(
                "Jovian: Gas Price Oracle Set Jovian",
                depositor,
                types.GAS_PRICE_ORACLE,
                90_000,
                call("setJovian()"),
            ),
        )

    # Init code comes from files: the specs list it there, not in their text.
    def _code(self, name: str) -> bytes:
        return from_hex((self._folder / f"{name}-deployment.txt").read_text().strip())


def main(arguments: list[str] | None = None) -> int:
    """Write the files and print their locks; 1 if one is not the lock that the node expects."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="deployment code and bundles")
    parser.add_argument("--output", type=Path, default=Path(upgrades.__file__).parent / "forks", help="where to write")
    options = parser.parse_args(arguments)
    all_expected = True
    for fork, content in Importer(options.folder).files().items():
        all_expected &= _write(options.output / f"upgrades_{fork}.json", content, upgrades.LOCKS[fork])
    for bundles in BUNDLE_FORKS.values():
        carried = bundles.carried[0]
        all_expected &= _write(
            options.output / carried.file, (options.folder / carried.file).read_bytes(), carried.sha256
        )
    return 0 if all_expected else 1


def _write(path: Path, content: bytes, expected: str) -> bool:
    path.write_bytes(content)
    lock = hashlib.sha256(content).hexdigest()
    print(f"{path.name}: lock {lock}{'' if lock == expected else ' (DIFFERS from the expected lock)'}")
    return lock == expected


if __name__ == "__main__":
    sys.exit(main())
