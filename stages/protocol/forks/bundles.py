"""The forks whose upgrade transactions are a bundle of op-node's repository, and those bundles [UPG12, UPG14, UPG17].

This package carries them byte for byte."""

from typing import NamedTuple


class CarriedBundle(NamedTuple):
    """A bundle of this package.

    It has its file, the SHA-256 of that file, where it was found, and the release of op-node in which it stands, empty
    while that is not known [UPG22]."""

    file: str
    sha256: str
    origin: str
    confirmed_by: str = ""


class BundleFork(NamedTuple):
    """A fork with a bundle.

    `label` begins the intents [UPG12]; the first bundle of `carried` is used unless another one is chosen;
    `reserved_gas` is added for the wrappers where the file does not say it [ATT32]; `has_option`: the operator may give
    the file."""

    label: str
    carried: tuple[CarriedBundle, ...]
    reserved_gas: int = 0
    has_option: bool = False


BUNDLE_FORKS: dict[str, BundleFork] = {
    "karst": BundleFork(
        "Karst",
        (
            CarriedBundle(
                "karst_nut_bundle.json",
                "08f5df36f7ff29a9421ab84beebe96684a7455df9a5d234a2468613a4008ad91",
                "op-node v1.19.6",
                confirmed_by="op-node v1.19.6",
            ),
        ),
    ),
    "lagoon": BundleFork(
        "Interop",
        (
            CarriedBundle(
                "lagoon_nut_bundle.json",
                "2124ce31c0947cac15f00114214dd4354848f7b4642ff2d12ebb3f94b28cc989",
                "op-node v1.19.6 of 4 Sep 2026, older than the release for the fork",
            ),
            CarriedBundle(
                "lagoon_nut_bundle_a4a9dac5.json",
                "a4a9dac53431d07e4f24a803f23f0216e10396269a17d1df7ecd64393dc76b5e",
                "draft of an unmerged branch, op-node's repository at 4fc25a9303",
            ),
            CarriedBundle(
                "lagoon_nut_bundle_f1c953f3.json",
                "f1c953f3f2bf67af057af561e15836fe16e71b90bf4778277248483ea4fc0d05",
                "snapshot of the contracts in op-node's repository at v1.19.6",
            ),
        ),
        reserved_gas=150_000,
        has_option=True,
    ),
}

SELECTABLE = tuple(fork for fork, bundles in BUNDLE_FORKS.items() if bundles.has_option)
"""The forks whose bundle an operator may choose with `rollup.<fork>-bundle`."""

CHOSEN_FILE = "{fork}_bundle_auto.json"
"""The file in `rollup.bundle-dir` that has the bundle which `auto` has chosen [UPG26]."""

DRAFTS: dict[str, str] = {
    "7b1954d1c4869cd12110f1c1780ea8d173b83605fa5bc85a96e82897b59ea0c3": (
        "draft of an unmerged branch, op-node's repository at 010881014f"
    )
}
"""Bundles that are known and not carried, by SHA-256."""
