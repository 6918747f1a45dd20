"""The encoding of JSON-RPC transactions, without checks: wrong values show in the transactions root."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.rlp import encode_bytes, encode_int
from rollup_node.stages.protocol.transactions import TransactionError

Object = Mapping[str, Any]
Encoder = Callable[[Object], bytes]
Text = str | msgspec.UnsetType | None


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

    type: Text = msgspec.UNSET
    chain_id: Text = msgspec.UNSET
    nonce: Text = msgspec.UNSET
    gas_price: Text = msgspec.UNSET
    max_priority_fee_per_gas: Text = msgspec.UNSET
    max_fee_per_gas: Text = msgspec.UNSET
    max_fee_per_blob_gas: Text = msgspec.UNSET
    gas: Text = msgspec.UNSET
    to: Text = msgspec.UNSET
    value: Text = msgspec.UNSET
    input: Text = msgspec.UNSET
    access_list: list[AccessJson] | msgspec.UnsetType | None = msgspec.UNSET
    blob_versioned_hashes: list[str] | msgspec.UnsetType | None = msgspec.UNSET
    authorization_list: list[AuthorizationJson] | msgspec.UnsetType | None = msgspec.UNSET
    y_parity: Text = msgspec.UNSET
    v: Text = msgspec.UNSET
    r: Text = msgspec.UNSET
    s: Text = msgspec.UNSET
    source_hash: Text = msgspec.UNSET
    sender: Text = msgspec.field(default=msgspec.UNSET, name="from")
    mint: Text = msgspec.UNSET
    is_system_tx: bool | str | msgspec.UnsetType | None = msgspec.UNSET


def transaction_from_json(value: Any) -> bytes:
    """Return the encoding of a JSON object or TransactionJson of types 0 to 4 or 0x7e. Raises TransactionError."""
    if isinstance(value, TransactionJson):
        value = msgspec.to_builtins(value)
    try:
        kind = int(value.get("type") or "0x0", 16)
        encoder = _ENCODERS.get(kind)
        if encoder is None:
            raise TransactionError(f"unknown transaction type 0x{kind:02x}")
        body = encoder(value)
        return body if kind == 0 else kind.to_bytes(1, "big") + body
    except TransactionError:
        raise
    except KeyError as error:
        raise TransactionError(f"transaction without {error.args[0]}") from None
    except (ValueError, TypeError, AttributeError, OverflowError, IndexError) as error:
        raise TransactionError(f"malformed transaction: {error}"[:200]) from None


def _number(text: str) -> bytes:
    digits = text[2:]
    data = bytes.fromhex("0" + digits if len(digits) & 1 else digits)
    # Some servers send quantities with leading zeros; RLP has none.
    if data[:1] == b"\0":
        data = data.lstrip(b"\0")
    return encode_bytes(data)


def _data(text: str) -> bytes:
    return encode_bytes(bytes.fromhex(text[2:]))


def _recipient(value: Object) -> bytes:
    to = value.get("to")
    return rlp.EMPTY_STRING if to is None else _data(to)


def _hashes(texts: list[str]) -> bytes:
    return rlp.encode_list([b"\xa0" + bytes.fromhex(text[2:]) for text in texts])


def _access_list(value: Object) -> bytes:
    entries = value.get("accessList")
    if not entries:
        return rlp.EMPTY_LIST
    return rlp.encode_list(
        [rlp.wrap_list(_data(entry["address"]) + _hashes(entry["storageKeys"])) for entry in entries]
    )


def _authorizations(value: Object) -> bytes:
    names = ("chainId", "address", "nonce", "yParity", "r", "s")
    convert = (_number, _data, _number, _number, _number, _number)
    return rlp.encode_list(
        [
            rlp.encode_list([encode(item[name]) for name, encode in zip(names, convert, strict=True)])
            for item in value["authorizationList"]
        ]
    )


def _signature(value: Object) -> bytes:
    # Older servers send the parity as `v` alone.
    parity = value.get("yParity")
    return _number(value["v"] if parity is None else parity) + _number(value["r"]) + _number(value["s"])


def _call(value: Object) -> bytes:
    return _number(value["gas"]) + _recipient(value) + _number(value["value"]) + _data(value["input"])


def _legacy(value: Object) -> bytes:
    price = _number(value["nonce"]) + _number(value["gasPrice"])
    signature = _number(value["v"]) + _number(value["r"]) + _number(value["s"])
    return rlp.wrap_list(price + _call(value) + signature)


def _access(value: Object) -> bytes:
    head = _number(value["chainId"]) + _number(value["nonce"]) + _number(value["gasPrice"])
    return rlp.wrap_list(head + _call(value) + _access_list(value) + _signature(value))


def _fee_head(value: Object) -> bytes:
    fees = _number(value["maxPriorityFeePerGas"]) + _number(value["maxFeePerGas"])
    return _number(value["chainId"]) + _number(value["nonce"]) + fees + _call(value) + _access_list(value)


def _dynamic_fee(value: Object) -> bytes:
    return rlp.wrap_list(_fee_head(value) + _signature(value))


def _blob(value: Object) -> bytes:
    blobs = _number(value["maxFeePerBlobGas"]) + _hashes(value["blobVersionedHashes"])
    return rlp.wrap_list(_fee_head(value) + blobs + _signature(value))


def _set_code(value: Object) -> bytes:
    return rlp.wrap_list(_fee_head(value) + _authorizations(value) + _signature(value))


def _flag(value: Any) -> bytes:
    """Return a boolean, as op-geth writes it, or a quantity, as op-reth does; missing where it is false."""
    return _number(value) if isinstance(value, str) else encode_int(1 if value else 0)


def _deposit(value: Object) -> bytes:
    mint = value.get("mint")
    parts = (
        _data(value["sourceHash"]),
        _data(value["from"]),
        _recipient(value),
        rlp.EMPTY_STRING if mint is None else _number(mint),
        _number(value["value"]),
        _number(value["gas"]),
        _flag(value.get("isSystemTx")),
        _data(value["input"]),
    )
    return rlp.encode_list(parts)


_ENCODERS: dict[int, Encoder] = {0: _legacy, 1: _access, 2: _dynamic_fee, 3: _blob, 4: _set_code, 0x7E: _deposit}

KNOWN_TYPES = frozenset(_ENCODERS)
