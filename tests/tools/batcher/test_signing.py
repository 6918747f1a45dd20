"""Signed transactions are read back with the key's address as sender."""

from rollup_node.stages.blobs.kzg import versioned_hash
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.transactions import decode_transaction, recover_sender
from rollup_node.tools.batcher.channels import encode_blob
from rollup_node.tools.batcher.kzg_proofs import verify_proof
from rollup_node.tools.batcher.signing import Fees, Key, blob_transaction, dynamic_fee_transaction

KEY = Key(bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"))
TO = b"\xaa" * 20
CHAIN_ID = 900


def test_address_of_a_well_known_development_key() -> None:
    assert KEY.address.hex() == "f39fd6e51aad88f6f4ce6ab8827279cfffb92266"


def test_dynamic_fee_transaction() -> None:
    raw = dynamic_fee_transaction(KEY, CHAIN_ID, 7, TO, 5, b"data", 30_000, Fees(tip=2, cap=3))
    body = decode_transaction(raw)
    assert (body.kind, body.nonce, body.to, body.value, body.data, body.gas) == (2, 7, TO, 5, b"data", 30_000)
    assert (body.max_priority_fee, body.max_fee) == (2, 3)
    assert recover_sender(body, CHAIN_ID) == KEY.address


def test_contract_creation_has_no_recipient() -> None:
    raw = dynamic_fee_transaction(KEY, CHAIN_ID, 0, None, 0, b"\x00", 60_000, Fees(tip=1, cap=1))
    assert decode_transaction(raw).to is None


def test_blob_transaction() -> None:
    blob = encode_blob(b"frames")
    built = blob_transaction(KEY, CHAIN_ID, 1, TO, [blob], 21_000, Fees(tip=1, cap=2, blob_cap=4))
    wrapped = rlp.decode(built.pooled[1:])
    body_fields, blobs, commitments, proofs = wrapped
    canonical = b"\x03" + rlp.encode(body_fields)
    body = decode_transaction(canonical)
    assert keccak256(canonical) == built.hash
    assert recover_sender(body, CHAIN_ID) == KEY.address
    assert (body.max_blob_fee, body.blob_hashes) == (4, built.versioned_hashes)
    assert [versioned_hash(each) for each in commitments] == list(built.versioned_hashes)
    assert blobs == [blob]
    assert all(map(verify_proof, blobs, commitments, proofs)) and len(proofs) == 1
