"""The table of what op-geth and op-reth answer, tests/vectors/engine_answers.toml, as cases."""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rollup_node.stages.engine.calls.engine_api import ErrorAnswer
from rollup_node.stages.protocol.transactions import Transaction, encode_transaction, signing_hash
from rollup_node.tools.devnet.files import TRANSFER_KEY

TABLE = Path(__file__).parents[2] / "vectors" / "engine_answers.toml"
ENGINES = ("op-geth", "op-geth-older", "op-reth")
GAS_LIMIT = 30_000_000
"""Of the block that a transaction of the table is in."""
CHAIN_ID = 901

BUILT, LEFT_OUT = "built", "left out"


class BuildAnswer(NamedTuple):
    """What an engine makes of attributes: BUILT, LEFT_OUT, or the error of the call `start` or `seal`."""

    kind: str
    error: ErrorAnswer | None = None


class TransactionCase(NamedTuple):
    """A transaction of derived attributes: its bytes, those `before` it, what each engine answers, and what the node
    does."""

    name: str
    raw: bytes
    before: tuple[bytes, ...]
    answers: dict[str, BuildAnswer]
    node: str


class OtherCase(NamedTuple):
    """Attributes with other members, or another call: as it is in the file."""

    name: str
    item: dict[str, Any]
    answers: dict[str, ErrorAnswer | str]
    node: str | dict[str, str]


def transaction_cases() -> list[TransactionCase]:
    """Return the cases of `[[transaction]]`."""
    return [
        TransactionCase(
            item["name"],
            _raw(item),
            (_raw({}),) if item.get("second") else (),
            {name: _build_answer(_of(name, item)) for name in ENGINES},
            item["node"],
        )
        for item in _read()["transaction"]
    ]


def other_cases(kind: str) -> list[OtherCase]:
    """Return the cases of `[[attributes]]` or `[[call]]`."""
    return [
        OtherCase(item["name"], item, {name: _answer(_of(name, item)) for name in ENGINES}, item["node"])
        for item in _read()[kind]
    ]


def _read() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text())


def _of(engine: str, case: dict[str, Any]) -> Any:
    return case[engine] if engine in case else case[engine.removesuffix("-older")]


def _build_answer(value: Any) -> BuildAnswer:
    if isinstance(value, str):
        return BuildAnswer(value)
    ((kind, (code, text)),) = value.items()
    return BuildAnswer(kind, ErrorAnswer(code, text))


def _answer(value: Any) -> ErrorAnswer | str:
    return value if isinstance(value, str) else ErrorAnswer(*value)


def _raw(case: dict[str, Any]) -> bytes:
    if "bytes" in case:
        return bytes.fromhex(case["bytes"])
    values = {name: int(value) for name, value in case.get("fields", {}).items()}
    is_blob = values.get("kind") == 3
    fields: dict[str, Any] = {
        "kind": 2,
        "chain_id": CHAIN_ID,
        "nonce": 0,
        "max_priority_fee": 10**6,
        "max_fee": 10**11,
        "gas": 100_000,
        "to": b"\xdd" * 20,
        "value": 0,
        "data": b"",
        "y_parity": 0,
        "r": 0,
        "s": 0,
        "max_blob_fee": 10**9 if is_blob else 0,
        "blob_hashes": (b"\x01" * 32,) if is_blob else (),
    }
    unsigned = Transaction(**(fields | values))
    parity, r, s = TRANSFER_KEY.sign(signing_hash(unsigned))
    signature = {"y_parity": parity, "r": r, "s": s}
    signature |= {name: int(value) for name, value in case.get("signature", {}).items()}
    return encode_transaction(msgspec.structs.replace(unsigned, **signature)) + bytes.fromhex(case.get("after", ""))
