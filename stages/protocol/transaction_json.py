"""The encoding of JSON-RPC transactions, without checks: wrong values show in the transactions root."""

from binascii import unhexlify
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from rollup_node.stages.protocol import rlp_hex
from rollup_node.stages.protocol.rlp_hex import data, number
from rollup_node.stages.protocol.transactions import TransactionError

Text = str | None


class AccessJson(msgspec.Struct, rename="camel", gc=False):
    address: str
    storage_keys: list[str]


class AuthorizationJson(msgspec.Struct, rename="camel", gc=False):
    chain_id: str
    address: str
    nonce: str
    y_parity: str
    r: str
    s: str


class TransactionJson(msgspec.Struct, rename="camel", gc=False):
    """The members of a JSON-RPC transaction that its encoding is made of, as a type to decode answers to.

    Which of them a transaction must have depends on its type, so none is required here."""

    type: Text = None
    chain_id: Text = None
    nonce: Text = None
    gas_price: Text = None
    max_priority_fee_per_gas: Text = None
    max_fee_per_gas: Text = None
    max_fee_per_blob_gas: Text = None
    gas: Text = None
    to: Text = None
    value: Text = None
    input: Text = None
    access_list: list[AccessJson] | None = None
    blob_versioned_hashes: list[str] | None = None
    authorization_list: list[AuthorizationJson] | None = None
    y_parity: Text = None
    v: Text = None
    r: Text = None
    s: Text = None
    source_hash: Text = None
    sender: Text = msgspec.field(default=None, name="from")
    mint: Text = None
    is_system_tx: bool | str | None = None


def transaction_from_json(value: Any) -> bytes:
    """Return the encoding of a TransactionJson or JSON object of types 0 to 4 or 0x7e. Raises TransactionError."""
    try:
        transaction = value if isinstance(value, TransactionJson) else msgspec.convert(value, TransactionJson)
        kind = int(transaction.type or "0x0", 16)
        encoder = _ENCODERS.get(kind)
        if encoder is None:
            raise TransactionError(f"unknown transaction type 0x{kind:02x}")
        try:
            body = rlp_hex.wrap_list(encoder(transaction))
        except TypeError:
            raise TransactionError(f"transaction without {_missing(transaction, encoder)}") from None
        return unhexlify(body if kind == 0 else f"{kind:02x}{body}")
    except TransactionError:
        raise
    except ValueError as error:
        raise TransactionError(f"malformed transaction: {error}"[:200]) from None


def _to(value: TransactionJson) -> str:
    return rlp_hex.EMPTY if value.to is None else data(value.to)


def _access_list(value: TransactionJson) -> str:
    if not value.access_list:
        return rlp_hex.EMPTY_LIST
    entries = [rlp_hex.wrap_list(data(item.address) + rlp_hex.hashes(item.storage_keys)) for item in value.access_list]
    return rlp_hex.wrap_list("".join(entries))


def _authorization(item: AuthorizationJson) -> str:
    delegation = f"{number(item.chain_id)}{data(item.address)}{number(item.nonce)}"
    return rlp_hex.wrap_list(f"{delegation}{number(item.y_parity)}{number(item.r)}{number(item.s)}")


# Reading a member that is missing is a TypeError.
def _signature(value: Any) -> str:
    # Older servers send the parity as `v` alone.
    return f"{number(value.v if value.y_parity is None else value.y_parity)}{number(value.r)}{number(value.s)}"


def _call(value: Any) -> str:
    return f"{number(value.gas)}{_to(value)}{number(value.value)}{data(value.input)}"


def _legacy(value: Any) -> str:
    signature = f"{number(value.v)}{number(value.r)}{number(value.s)}"
    return f"{number(value.nonce)}{number(value.gas_price)}{_call(value)}{signature}"


def _access(value: Any) -> str:
    head = f"{number(value.chain_id)}{number(value.nonce)}{number(value.gas_price)}"
    return f"{head}{_call(value)}{_access_list(value)}{_signature(value)}"


def _with_fees(value: Any, rest: str = "") -> str:
    """Return the fields of a type with two fees; `rest` is what stands before the signature."""
    head = f"{number(value.chain_id)}{number(value.nonce)}{number(value.max_priority_fee_per_gas)}"
    body = f"{head}{number(value.max_fee_per_gas)}{_call(value)}{_access_list(value)}"
    return f"{body}{rest}{_signature(value)}"


def _blob(value: Any) -> str:
    blobs = number(value.max_fee_per_blob_gas) + rlp_hex.hashes(value.blob_versioned_hashes)
    return _with_fees(value, blobs)


def _set_code(value: Any) -> str:
    return _with_fees(value, rlp_hex.wrap_list("".join(map(_authorization, value.authorization_list))))


def _deposit(value: Any) -> str:
    mint = rlp_hex.EMPTY if value.mint is None else number(value.mint)
    # A boolean, as op-geth writes it, or a quantity, as op-reth does; missing where it is false.
    flag = value.is_system_tx
    is_system = number(flag) if isinstance(flag, str) else "01" if flag else rlp_hex.EMPTY
    head = f"{data(value.source_hash)}{data(value.sender)}{_to(value)}{mint}"
    return f"{head}{number(value.value)}{number(value.gas)}{is_system}{data(value.input)}"


_ENCODERS: dict[int, Callable[[Any], str]] = {
    0: _legacy,
    1: _access,
    2: _with_fees,
    3: _blob,
    4: _set_code,
    0x7E: _deposit,
}

KNOWN_TYPES = frozenset(_ENCODERS)


class _LastRead:
    """Notes which member of a transaction was read last: the one whose absence ended its encoding."""

    def __init__(self, transaction: TransactionJson) -> None:
        self._transaction, self.name = transaction, ""

    def __getattr__(self, name: str) -> Any:
        self.name = TransactionJson.__struct_encode_fields__[TransactionJson.__struct_fields__.index(name)]
        return getattr(self._transaction, name)


def _missing(transaction: TransactionJson, encoder: Callable[[Any], str]) -> str:
    """Return the name of the member that the transaction lacks."""
    reader = _LastRead(transaction)
    with suppress(TypeError):
        encoder(reader)
    return reader.name
