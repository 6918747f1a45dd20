"""Checks an endpoint's L1 block against its own hash: header, transactions and withdrawals [LHD10, LHD11, LHD14]."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from rollup_node.stages.l1.filter import L1Filter, bloom_excludes_challenges, bloom_excludes_logs
from rollup_node.stages.protocol.answer_limits import L1_BLOCK, AnswerLimit
from rollup_node.stages.protocol.commitments import ChallengeError, resolve_data
from rollup_node.stages.protocol.deposits import DepositError, is_deposit
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, decode_json, shown_body
from rollup_node.stages.protocol.headers import (
    HEADER_MEMBERS,
    Header,
    HeaderError,
    WithdrawalJson,
    header_from_json,
    header_hash,
    l1_header,
    withdrawals_root,
)
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, from_quantity, hash_from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, AccountProof, ProofError, ordered_root
from rollup_node.stages.protocol.transaction_json import KNOWN_TYPES, TransactionJson, transaction_from_json
from rollup_node.stages.protocol.transactions import TransactionError, calldata, inbox_transactions
from rollup_node.stages.protocol.types import (
    SEQUENCER_FEE_VAULT,
    U64_MASK,
    Address,
    Hash,
    InboxTransaction,
    L1BlockRef,
    L1Header,
)

_NO_LOGS = bytes(256)
_NULL = msgspec.Raw(b"null")


class _Transaction(TransactionJson, gc=False):
    hash: str | None = None


BlockJson: Any = msgspec.defstruct(
    "BlockJson",
    [*HEADER_MEMBERS, ("transactions", list[_Transaction] | None, None), ("withdrawals", msgspec.Raw, _NULL)],
)
"""The members of a JSON-RPC block with full transactions that are verified."""


class InvalidDataError(ValueError):
    """An endpoint's data are malformed, or not what the block's hash commits to; the text says where."""


class VerifiedBlock(msgspec.Struct, frozen=True, array_like=True):
    """A block whose header and transactions are verified, with the inbox transactions for each filter.

    `transaction_hashes` are empty unless `needs_receipts`. `resolve_data` are the data, by transaction index, of
    transactions that may resolve a challenge [ADA7]; empty where the bloom excludes challenges."""

    header: L1Header
    inboxes: tuple[tuple[InboxTransaction, ...], ...]
    receipts_root: Hash
    needs_receipts: bool
    transaction_hashes: tuple[Hash, ...]
    gas_used: int
    resolve_data: tuple[tuple[int, bytes], ...] = ()


def parse_result(body: bytes, limit: AnswerLimit, shape: Any) -> Any:
    """Return the result in a response as a value of a type msgspec knows, or None where it is null.

    Raises InvalidDataError for an error, a result of another type, other JSON, or too many values."""
    try:
        answer = decode_json(body, _answer(shape), limit.values)
    except MalformedJsonError as error:
        raise InvalidDataError(str(error)) from None
    if bytes(answer.error) != b"null":
        raise InvalidDataError(f"the endpoint answered with an error: {shown_body(bytes(answer.error))}")
    return answer.result


@cache
def _answer(shape: Any) -> type[msgspec.Struct]:
    """Return the type of a JSON-RPC response."""
    return msgspec.defstruct("Answer", [("result", shape | None, None), ("error", msgspec.Raw, _NULL)])


def parse_block(body: bytes) -> Any:
    """Return the BlockJson in a response to eth_getBlockByNumber, None where it is null. Raises InvalidDataError."""
    return parse_result(body, L1_BLOCK, BlockJson)


def verify_header(block: Any, trust: bool) -> tuple[Header, Hash]:
    """Return a JSON-RPC block's header and hash; with `trust` the hash is not recomputed. Raises InvalidDataError."""
    if not isinstance(block, dict):
        raise InvalidDataError("the answer is not a block")
    try:
        header = header_from_json(block, trust)
        claimed = hash_from_hex(block.get("hash"))
    except (HeaderError, HexError) as error:
        raise InvalidDataError(f"malformed header: {error}") from None
    if not trust and (computed := header_hash(header)) != claimed:
        raise InvalidDataError(
            f"block {header.number} claims hash 0x{claimed.hex()}, but its header hashes to 0x{computed.hex()}"
        )
    return header, claimed


def verify_block_ref(block: Any, trust: bool) -> L1BlockRef:
    """Return the reference of a JSON-RPC block, after `verify_header`."""
    header, block_hash = verify_header(block, trust)
    return L1BlockRef(block_hash, header.number, header.parent_hash, header.timestamp)


def verify_block(
    block: Any, number: int, trust: bool, l1_filters: Sequence[L1Filter], nodes: dict[Hash, bytes] | None = None
) -> VerifiedBlock:
    """Return the block of that number from a BlockJson, or None, cut down by the filters.

    With `trust` hash and roots are not checked, else the nodes of the transactions' trie are added to `nodes`.
    Raises InvalidDataError."""
    header, block_hash = verify_header(None if block is None else msgspec.structs.asdict(block), trust)
    if header.number != number:
        raise InvalidDataError(f"requested block {number}, got block {header.number}")
    # Messages carry it in 64 bits, which no real fee exceeds.
    if header.base_fee is not None and header.base_fee > U64_MASK:
        raise InvalidDataError(f"block {number} has base fee {header.base_fee}, which has more than 64 bits")
    transactions: list[_Transaction] | None = block.transactions
    if transactions is None:
        raise InvalidDataError(f"block {number} has no list of full transactions")
    encoded = [_encoded(tx, index, number, trust) for index, tx in enumerate(transactions)]
    if not trust:
        if ordered_root(encoded, nodes) != header.transactions_root:
            raise InvalidDataError(f"the transactions of block {number} do not match its transactions root")
        _check_withdrawals(block.withdrawals, header, is_op_block(header, encoded))
    needs_receipts = _needs_receipts(header, bool(encoded), trust, l1_filters)
    return VerifiedBlock(
        header=l1_header(header, block_hash),
        inboxes=tuple([inbox_transactions(encoded, f.inbox, f.chain_id, f.inbox_hashes) for f in l1_filters]),
        receipts_root=header.receipts_root,
        needs_receipts=needs_receipts,
        transaction_hashes=_transaction_hashes(transactions, encoded, trust) if needs_receipts else (),
        gas_used=header.gas_used,
        resolve_data=_resolve_data(encoded, header.logs_bloom, l1_filters) if needs_receipts else (),
    )


def _needs_receipts(header: Header, any_transactions: bool, trust: bool, l1_filters: Sequence[L1Filter]) -> bool:
    """Whether receipts may hold deposits or updates. Raises InvalidDataError if an empty block claims receipts."""
    if not any_transactions:
        if not trust and header.receipts_root != EMPTY_ROOT:
            raise InvalidDataError(f"block {header.number} has no transactions but a receipts root that is not empty")
        return False
    if trust and header.logs_bloom == _NO_LOGS:
        return True  # some endpoints leave the bloom empty, which the hash does not show where it is not checked
    return not bloom_excludes_logs(header.logs_bloom, l1_filters)


def _resolve_data(
    encoded: Sequence[bytes], bloom: bytes, l1_filters: Sequence[L1Filter]
) -> tuple[tuple[int, bytes], ...]:
    """Return the data of each transaction whose calldata has the form of a call that resolves a challenge."""
    if all(l1_filter.challenge_contract is None for l1_filter in l1_filters):
        return ()
    # With `trust` an endpoint may leave the bloom empty.
    if bloom != _NO_LOGS and bloom_excludes_challenges(bloom, l1_filters):
        return ()
    result: list[tuple[int, bytes]] = []
    for index, raw in enumerate(encoded):
        try:
            result.append((index, resolve_data(calldata(raw))))
        except (ChallengeError, TransactionError, DepositError):
            continue
    return tuple(result)


def _encoded(tx: TransactionJson, index: int, number: int, trust: bool) -> bytes:
    """Return a transaction's bytes; with `trust` empty for an unknown type, which the inbox ignores [BF1]."""
    try:
        if trust and from_quantity(tx.type or "0x0") not in KNOWN_TYPES:
            return b""
        return transaction_from_json(tx)
    except (TransactionError, HexError) as error:
        raise InvalidDataError(f"transaction {index} of block {number}: {error}") from None


def is_op_block(header: Header, transactions: Sequence[bytes]) -> bool:
    """Whether it is a block of an OP Stack chain, which is the L1 of an L3 [HSH9]."""
    is_genesis = header.number == 0 and header.miner == SEQUENCER_FEE_VAULT
    return is_genesis or any(map(is_deposit, transactions[:1]))


def _check_withdrawals(listed: msgspec.Raw, header: Header, is_op: bool) -> None:
    """Check the withdrawals; an endpoint may leave them out, as nothing reads them [HSH8, HSH9]."""
    if listed == _NULL:
        return
    if header.withdrawals_root is None:
        raise InvalidDataError(f"block {header.number} has withdrawals, but no withdrawals root")
    try:
        withdrawals = msgspec.json.decode(listed, type=list[WithdrawalJson])
        if is_op:
            if withdrawals:
                raise InvalidDataError(f"block {header.number} is one of an OP Stack chain, but has withdrawals")
            return
        root = withdrawals_root(withdrawals)
    except (HexError, *DECODE_ERRORS) as error:
        raise InvalidDataError(f"block {header.number} has a malformed withdrawal: {error}") from None
    if root != header.withdrawals_root:
        raise InvalidDataError(f"the withdrawals of block {header.number} do not match its withdrawals root")


def _transaction_hashes(
    transactions: Sequence[_Transaction], encoded: Sequence[bytes], trust: bool
) -> tuple[Hash, ...]:
    if not trust:
        return tuple(map(keccak256, encoded))
    try:
        return tuple([hash_from_hex(tx.hash) for tx in transactions])
    except HexError as error:
        raise InvalidDataError(f"a transaction has a malformed hash: {error}") from None


SIGNER_SLOT: Hash = bytes.fromhex("65a7ed542fb37fe237fdfbdd70b31598523fe5b32879e307bae27a0bd9581c08")
"""Of the SystemConfig contract: the unsafe block signer."""
REQUIRED_SLOT: Hash = bytes.fromhex("4aaefe95bd84fd3f32700cf3b7566bc944b73138e41958b5785826df2aecace0")
RECOMMENDED_SLOT: Hash = bytes.fromhex("e314dfc40f0025322aacc0ba8ef420b62fb3b702cf01e0cdf3d829117ac2ff1a")
"""Of the ProtocolVersions contract."""


def stored_value(answer: Any) -> bytes:
    """Return the 32 bytes of a response to eth_getStorageAt. Raises InvalidDataError if it is malformed."""
    try:
        value = from_hex(answer)
    except HexError as error:
        raise InvalidDataError(f"malformed storage value: {error}") from None
    if len(value) > 32:
        raise InvalidDataError(f"a storage value of {len(value)} bytes")
    return value.rjust(32, b"\0")


def proven_value(answer: AccountProof, state_root: Hash, address: Address, slot: Hash) -> bytes:
    """Return the 32 bytes that a response to eth_getProof proves for a slot.

    Zero where account or slot are proven absent. Raises InvalidDataError if the proof does not hold."""
    try:
        account = answer.account(state_root, address)
        return (0 if account is None else answer.value(account.storage_root, slot)).to_bytes(32, "big")
    except (ProofError, OverflowError) as error:
        raise InvalidDataError(f"the proof of slot {to_hex(slot)[:10]} does not hold: {error}") from None


def address_in(value: bytes) -> Address:
    """Return the address in the low 20 bytes of a slot."""
    return value[12:]
