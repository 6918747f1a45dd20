"""The calls and events of DisputeGameFactory, its games and AnchorStateRegistry that are read [WAT1, WAT2, WAT7]."""

from typing import Any, NamedTuple

from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.watch.games import SUPER_TYPES

WORD = 32
LIST_SLOT = 104
"""The storage slot of the factory's list of games: snapshots/storageLayout/DisputeGameFactory.json."""
MAX_ANSWER = 64 << 10


class ContractError(ValueError):
    """The answer of a contract does not have the form of its method."""


def selector(signature: str) -> bytes:
    """Return the first four bytes of a call."""
    return keccak256(signature.encode())[:4]


GAME_COUNT, GAME_AT_INDEX = selector("gameCount()"), selector("gameAtIndex(uint256)")
GAME_DATA, L1_HEAD = selector("gameData()"), selector("l1Head()")
ANCHOR_ROOT = selector("getAnchorRoot()")
CREATED: Hash = keccak256(b"DisputeGameCreated(address,uint32,bytes32)")
ANCHOR_UPDATED: Hash = keccak256(b"AnchorUpdated(address)")


class Listed(NamedTuple):
    """An entry of the factory's list; `timestamp` in seconds."""

    game_type: int
    timestamp: int
    proxy: str


class GameData(NamedTuple):
    """What a game was created with."""

    game_type: int
    root_claim: Hash
    extra_data: bytes

    @property
    def l2_sequence_number(self) -> int:
        """The first word of the extra data, or of a super root's preimage the time [WAT2]. Raises ContractError."""
        extra = self.extra_data
        if self.game_type in SUPER_TYPES and len(extra) > WORD:
            if extra[0] != 1 or (len(extra) - 9) % (2 * WORD):
                raise ContractError(f"the extra data of the game, of {len(extra)} bytes, are no super root")
            return int.from_bytes(extra[1:9], "big")
        if len(extra) < WORD:
            raise ContractError(f"the extra data of the game have {len(extra)} bytes")
        return int.from_bytes(extra[:WORD], "big")


def call(address: str, method: bytes, *values: int) -> dict[str, str]:
    """Return the object for eth_call."""
    data = method + b"".join(value.to_bytes(WORD, "big") for value in values)
    return {"to": address, "data": to_hex(data)}


def words(answer: Any, least: int) -> list[bytes]:
    """Return the words of an answer. Raises ContractError for fewer than `least`."""
    data = answer_bytes(answer)
    result = [data[at : at + WORD] for at in range(0, len(data) - WORD + 1, WORD)]
    if len(result) < least:
        raise ContractError(f"the answer has {len(data)} bytes: the contract has no such method")
    return result


def answer_bytes(answer: Any) -> bytes:
    """Return the bytes of an answer. Raises ContractError."""
    try:
        data = from_hex(answer)
    except HexError as error:
        raise ContractError(f"the answer is malformed: {error}") from None
    if len(data) > MAX_ANSWER:
        raise ContractError(f"the answer has {len(data)} bytes")
    return data


def number(word: bytes) -> int:
    """Return the number in a word."""
    return int.from_bytes(word, "big")


def _bounded(word: bytes, bits: int) -> int:
    value = number(word)
    if value >> bits:
        raise ContractError(f"a number of {bits} bits is {value}")
    return value


def address(word: bytes) -> str:
    """Return the address in the low bytes of a word, in hex."""
    return to_hex(word[-20:])


def listed(answer: Any) -> Listed:
    """Read the answer to gameAtIndex. Raises ContractError."""
    kind, time, proxy = words(answer, 3)[:3]
    return Listed(_bounded(kind, 32), _bounded(time, 64), address(proxy))


def game_data(answer: Any) -> GameData:
    """Read the answer to gameData. Raises ContractError."""
    data = answer_bytes(answer)
    kind, claim, offset = words(answer, 4)[:3]
    start = number(offset)
    size = number(data[start : start + WORD])
    extra = data[start + WORD : start + WORD + size]
    if start + WORD > len(data) or len(extra) != size:
        raise ContractError("the extra data of the game are cut off")
    return GameData(_bounded(kind, 32), claim, extra)


def created(log: Any) -> tuple[str, int, Hash]:
    """Read address, type and claim of a DisputeGameCreated log. Raises ContractError."""
    topics = log.get("topics") if isinstance(log, dict) else None
    if not isinstance(topics, list) or len(topics) != 4:
        raise ContractError("a log of the factory does not have four topics")
    proxy, kind, claim = (answer_bytes(topic) for topic in topics[1:])
    return address(proxy), _bounded(kind, 32), claim


def list_slot(index: int) -> Hash:
    """Return the storage slot of an entry of the factory's list."""
    first = number(keccak256(LIST_SLOT.to_bytes(WORD, "big")))
    return ((first + index) % (1 << 256)).to_bytes(WORD, "big")


def packed(entry: Listed) -> bytes:
    """Return an entry of the factory's list as its slot holds it."""
    return entry.game_type.to_bytes(4, "big") + entry.timestamp.to_bytes(8, "big") + bytes.fromhex(entry.proxy[2:])


def code_shows(code: bytes, data: GameData, l1_head: Hash) -> bool:
    """Whether the code of a game's proxy has these data as its immutable arguments [WAT3].

    They follow each other: claim, L1 head, from newer factories on the game type, and the extra data."""
    head = data.root_claim + l1_head
    return head + data.extra_data in code or head + data.game_type.to_bytes(4, "big") + data.extra_data in code
