"""Storage slots out of responses: by a proof of a real state, or as an endpoint claims them."""

from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.stages.l1.runtime_config import SIGNER_SLOT, address_in, proven_value, stored_value
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.chain.eth_api import EthApi
from tests.support.chains.l1_with_signer import CONTRACT, SIGNER, l1_with_signer

Proof = dict[str, Any]


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: None,
        lambda proof: {**proof, "accountProof": None},
        lambda proof: {**proof, "accountProof": proof["accountProof"][1:]},
        lambda proof: {**proof, "storageProof": []},
        lambda proof: {**proof, "storageProof": ["0x"]},
        lambda proof: {**proof, "storageProof": [{"proof": ["0xzz"]}]},
        lambda proof: {**proof, "storageProof": [{"proof": ["0xc0"]}]},
    ],
)
def test_a_proof_that_does_not_hold_is_refused(change: Callable[[Proof], object]) -> None:
    """[LHD12]"""
    api = EthApi(backend := l1_with_signer(), "test").methods()
    proof: Proof = api["eth_getProof"](to_hex(CONTRACT), [to_hex(SIGNER_SLOT)], "latest")
    root = backend.chain.head.header.state_root
    assert address_in(proven_value(proof, root, CONTRACT, SIGNER_SLOT)) == SIGNER
    with pytest.raises(InvalidDataError):
        proven_value(change(proof), root, CONTRACT, SIGNER_SLOT)


@pytest.mark.parametrize("result", [None, 1, "zz", "0x" + 33 * "00"])
def test_a_malformed_storage_value_is_refused(result: object) -> None:
    with pytest.raises(InvalidDataError):
        stored_value(result)


def test_a_storage_value_holds_an_address() -> None:
    assert address_in(stored_value(to_hex(SIGNER))) == SIGNER
