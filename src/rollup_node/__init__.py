"""The public API: derive OP Stack chains, decode batches, compute and check hashes.

Everything that is not in `__all__` is private and changes without notice; docs/api.md describes the rest. The names are
imported when they are first used: the processes of a node import this package too."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rollup_node.tools.api.blocks import Batch, Block, Drop, DropEffect
    from rollup_node.tools.api.chains import Chain, Network
    from rollup_node.tools.api.decoding import DecodedBatch, DecodedBlock, decode_batches, decode_channel
    from rollup_node.tools.api.derivation import BatchSummary, Derivation, aderive, batches, derive
    from rollup_node.tools.api.errors import BlockDiffers, DataError, EndpointError, Error, InputError, RangeError
    from rollup_node.tools.api.hashes import (
        BlockId,
        L1BlockRef,
        PayloadAttributes,
        attributes_hash,
        output_root,
        verify_payload,
    )
    from rollup_node.tools.api.stream import Stream

    __version__: str

__all__ = [
    "Batch",
    "BatchSummary",
    "Block",
    "BlockDiffers",
    "BlockId",
    "Chain",
    "DataError",
    "DecodedBatch",
    "DecodedBlock",
    "Derivation",
    "Drop",
    "DropEffect",
    "EndpointError",
    "Error",
    "InputError",
    "L1BlockRef",
    "Network",
    "PayloadAttributes",
    "RangeError",
    "Stream",
    "__version__",
    "aderive",
    "attributes_hash",
    "batches",
    "decode_batches",
    "decode_channel",
    "derive",
    "output_root",
    "verify_payload",
]

_MODULES = {
    "blocks": ("Batch", "Block", "Drop", "DropEffect"),
    "chains": ("Chain", "Network"),
    "decoding": ("DecodedBatch", "DecodedBlock", "decode_batches", "decode_channel"),
    "derivation": ("BatchSummary", "Derivation", "aderive", "batches", "derive"),
    "errors": ("BlockDiffers", "DataError", "EndpointError", "Error", "InputError", "RangeError"),
    "stream": ("Stream",),
    "hashes": ("BlockId", "L1BlockRef", "PayloadAttributes", "attributes_hash", "output_root", "verify_payload"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("rollup-node")
    elif name in _HOMES:
        value = getattr(importlib.import_module(f"rollup_node.tools.api.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'rollup_node' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
