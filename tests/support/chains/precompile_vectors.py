"""Known results of precompiles, from go-ethereum's test data."""

import json
from pathlib import Path

import msgspec
import pytest

from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt

_FILE = Path(__file__).parents[2] / "tools" / "devnet" / "evm" / "precompile_vectors.json"


class PrecompileVector(msgspec.Struct, frozen=True):
    """A call of a precompile: input and output in hex, no output for an exceptional halt."""

    name: str
    address: int
    fork: str
    input: str
    output: str | None
    gas: int | None

    def check(self) -> None:
        """Assert gas and output, or the halt."""
        precompile = getattr(forks, self.fork.upper()).precompiles[forks.at(self.address)]
        data = bytes.fromhex(self.input)
        if self.output is None:
            with pytest.raises(ExceptionalHalt):
                precompile.gas(data)
                precompile.run(data)
        else:
            assert precompile.run(data).hex() == self.output
            assert precompile.gas(data) == self.gas


def vectors_of(*addresses: int) -> list[PrecompileVector]:
    """Return the vectors of the precompiles at these addresses."""
    result = msgspec.convert(json.loads(_FILE.read_text()), list[PrecompileVector])
    return [vector for vector in result if vector.address in addresses]
