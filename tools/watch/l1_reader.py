"""Reads games and the anchor on L1: one call for the head, none besides while its bloom filter excludes both [WAT1]."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.l1.verify import InvalidDataError, proven_value, verify_header
from rollup_node.stages.protocol.headers import Header
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, from_quantity, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import AccountProof, ProofError
from rollup_node.stages.protocol.receipts import bloom_mask, may_have
from rollup_node.stages.protocol.texts import one_line
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.watch.games import SUPER_TYPES, Anchor, Game

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


MAX_WALK = 64
"""Blocks that are walked back from a new head. After more the factory's list is read."""
KEPT = 1_024
"""Headers of which the hashes are kept."""
BATCH = 20
MAX_GAMES = 10_000
FAILURES = (EndpointError, RpcFailure, InvalidDataError, ContractError, HexError)


class Block(NamedTuple):
    """A header with its hash; both are verified."""

    header: Header
    hash: Hash


class Advance(NamedTuple):
    """What a new head brings: games, the hashes of blocks that are no longer canonical, and whether the anchor moved.

    `gap`: more blocks than are walked lie between, so that the list is to be read."""

    games: tuple[Game, ...] = ()
    removed: tuple[str, ...] = ()
    anchor_moved: bool = False
    gap: bool = False


class L1Reader:
    """Reads one L1 endpoint. State: the hashes of recent blocks, and how many games of the factory's list are known.

    Methods raise one of FAILURES; the same call may be made again."""

    def __init__(self, client: JsonRpcClient, factory: str, anchor: str | None) -> None:
        self._client, self.factory, self.anchor = client, factory, anchor
        self.head: Block | None = None
        self.proves = False
        """Whether games are asked for with proofs."""
        self._recent: OrderedDict[int, Hash] = OrderedDict()
        self._listed = 0
        address = bloom_mask(from_hex(factory))
        self._created = address, bloom_mask(CREATED)
        self._moved = None if anchor is None else (bloom_mask(from_hex(anchor)), bloom_mask(ANCHOR_UPDATED))

    async def check(self, chain_id: int | None) -> str | None:
        """Return what is wrong with the endpoint or the contracts; None if nothing is. Any chain with None."""
        known = from_quantity(await self._client.call("eth_chainId"), 256)
        if chain_id not in (None, known):
            return f"--l1: {self._client.name} is on L1 chain {known}, but the node's rollup is on {chain_id}"
        for name, address in (("--games", self.factory), ("--anchor", self.anchor)):
            if address is not None and not from_hex(await self._client.call("eth_getCode", address, "latest")):
                return f"{name}: there is no contract at {address} on L1 chain {known}"
        try:
            words(await self._call(self.factory, GAME_COUNT), 1)
            if self.anchor is not None:
                words(await self._call(self.anchor, ANCHOR_ROOT), 2)
        except (RpcFailure, ContractError) as error:
            return f"--games or --anchor: the contract is no DisputeGameFactory or AnchorStateRegistry: {error}"
        return None

    async def advance(self, proven: tuple[int, Hash] | None = None) -> Advance | None:
        """Read the head, and what it brings; None where it is a block that is known.

        With `proven`, the number and the hash of a block that is proven, that is the head, and games are read with
        proofs [WAT3]."""
        self.proves = proven is not None
        if proven is not None and self._recent.get(proven[0]) == proven[1]:
            return None
        which = ("eth_getBlockByNumber", "latest") if proven is None else ("eth_getBlockByHash", to_hex(proven[1]))
        head = await self._block(*which)
        if self._recent.get(head.header.number) == head.hash:
            return None
        branch = await self._branch(head)
        if branch is None:
            self._recent.clear()
            self._keep([head])
            return Advance(anchor_moved=True, gap=True)
        games, moved = [], False
        for block in branch:
            if may_have(block.header.logs_bloom, *self._created):
                games += await self._created_in(block)
            moved |= self._moved is not None and may_have(block.header.logs_bloom, *self._moved)
        removed = self._dropped(branch)
        self._keep(branch)
        self._listed += len(games)
        return Advance(tuple(games), removed, moved)

    async def _branch(self, head: Block) -> list[Block] | None:
        """Return the blocks from the last known one to the head; None where that is too far back, or unknown."""
        branch = [head]
        while self.head is not None and len(branch) <= MAX_WALK:
            first = branch[0].header
            known = self._recent.get(first.number - 1)
            if known == first.parent_hash:
                return branch
            if first.number - 1 < next(iter(self._recent), 0):
                return None
            branch.insert(0, await self._block("eth_getBlockByHash", to_hex(first.parent_hash)))
        return None

    def _dropped(self, branch: Sequence[Block]) -> tuple[str, ...]:
        return tuple(to_hex(known) for number, known in self._recent.items() if number >= branch[0].header.number)

    def _keep(self, branch: Sequence[Block]) -> None:
        for number in [number for number in self._recent if number >= branch[0].header.number]:
            del self._recent[number]
        for block in branch:
            self._recent[block.header.number] = block.hash
        while len(self._recent) > KEPT:
            self._recent.popitem(last=False)
        self.head = branch[-1]

    async def _created_in(self, block: Block) -> list[Game]:
        """Return the games that a block creates: one call for their logs, and one for each game."""
        logs = await self._client.call(
            "eth_getLogs",
            {"blockHash": to_hex(block.hash), "address": self.factory, "topics": [to_hex(CREATED)]},
        )
        if not isinstance(logs, list):
            raise ContractError("the answer to eth_getLogs is no list")
        header = block.header
        games = []
        for index, log in enumerate(logs):
            proxy, kind, claim = created(log)
            entry = Listed(kind, header.timestamp, proxy)
            game = await self._game(entry, self._listed + index, block, block)
            games.append(msgspec.structs.replace(game, root_claim=to_hex(claim)) if game.problem else game)
        return games

    async def games_since(self, oldest: int, known: int = MAX_GAMES) -> list[Game]:
        """Return the games of the factory's list that are not older than a time in seconds, oldest first.

        Those that were listed before are left out; at most `known` are returned."""
        head = self.head
        assert head is not None, "the head is read first"
        count = number(words(await self._call(self.factory, GAME_COUNT), 1)[0])
        entries: list[tuple[int, Listed]] = []
        index = count
        while index > self._listed and len(entries) < known:
            indexes = range(max(self._listed, index - BATCH), index)
            answers = await self._calls([(self.factory, GAME_AT_INDEX, (at,)) for at in indexes])
            batch = [(at, listed(answer)) for at, answer in zip(indexes, answers, strict=True)]
            entries = [item for item in batch if item[1].timestamp >= oldest] + entries
            if batch[0][1].timestamp < oldest:
                break
            index = indexes.start
        games = [await self._game(entry, at, head, None) for at, entry in entries]
        self._listed = count
        return games

    async def _game(self, entry: Listed, index: int, at: Block, created: Block | None) -> Game:
        """Read a game by one request; `created` is the block that creates it, None where that is unknown."""
        tag = hex(at.header.number)
        calls: list[tuple[str, Sequence[object]]] = [
            ("eth_call", (call(entry.proxy, GAME_DATA), tag)),
            ("eth_call", (call(entry.proxy, L1_HEAD), tag)),
        ]
        if self.proves:
            slot = to_hex(list_slot(index))
            calls += [("eth_getCode", (entry.proxy, tag)), ("eth_getProof", (entry.proxy, [], tag))]
            calls += [("eth_getProof", (self.factory, [slot], tag))]
        answers = await self._client.batch(calls, Any)
        try:
            data, l1_head = game_data(_result(answers[0])), words(_result(answers[1]), 1)[0]
            sequence_number = data.l2_sequence_number
        except (ContractError, _Reverted) as error:
            return _unreadable(entry, created, str(error))
        proven = self.proves and self._is_proven(entry, index, at, data, l1_head, answers[2:])
        if created is not None and created.header.parent_hash == l1_head:
            number = created.header.number - 1
        else:
            number = (await self._block("eth_getBlockByHash", to_hex(l1_head))).header.number
        return Game(
            proxy=entry.proxy,
            game_type=entry.game_type,
            timestamp=entry.timestamp,
            root_claim=to_hex(data.root_claim),
            l1_head=to_hex(l1_head),
            l1_head_num=number,
            l2_sequence_number=sequence_number,
            block=0 if created is None else created.header.number,
            block_hash="" if created is None else to_hex(created.hash),
            proven=proven,
        )

    def _is_proven(
        self, entry: Listed, index: int, at: Block, data: GameData, l1_head: Hash, answers: Sequence[Any]
    ) -> bool:
        """Whether the state of a block has the game in the factory's list, with a code that shows its data [WAT3]."""
        code, account_proof, list_proof = answers
        try:
            of_game, of_list = msgspec.convert((account_proof, list_proof), tuple[AccountProof, AccountProof])
            value = proven_value(of_list, at.header.state_root, from_hex(self.factory), list_slot(index))
            account = of_game.account(at.header.state_root, from_hex(entry.proxy))
            raw = from_hex(code)
        except (InvalidDataError, ProofError, HexError, msgspec.ValidationError):
            return False
        is_code = account is not None and account.code_hash == keccak256(raw)
        return is_code and value == packed(entry) and code_shows(raw, data, l1_head)

    async def read_anchor(self) -> Anchor | None:
        """Return the anchor; None without its contract."""
        if self.anchor is None:
            return None
        root, block = words(await self._call(self.anchor, ANCHOR_ROOT), 2)[:2]
        return Anchor(self.anchor, to_hex(root), number(block))

    async def _block(self, method: str, which: str) -> Block:
        answer = await self._client.call(method, which, False)
        if answer is None:
            raise ContractError(f"the endpoint does not have L1 block {which}")
        header, block_hash = verify_header(answer, False)
        if method == "eth_getBlockByHash" and to_hex(block_hash) != which:
            raise InvalidDataError(f"asked for L1 block {which}, got {to_hex(block_hash)}")
        return Block(header, block_hash)

    @property
    def _tag(self) -> str:
        """The block at which contracts are read: the head, which may be older than the newest L1 block."""
        return "latest" if self.head is None else hex(self.head.header.number)

    async def _call(self, address: str, method: bytes) -> Any:
        return await self._client.call("eth_call", call(address, method), self._tag)

    async def _calls(self, calls: Sequence[tuple[str, bytes, tuple[int, ...]]]) -> list[Any]:
        requests = [("eth_call", (call(address, method, *values), self._tag)) for address, method, values in calls]
        answers = await self._client.batch(requests, Any)
        for answer in answers:
            if isinstance(answer, RpcFailure):
                raise answer
        return answers


class _Reverted(ValueError):
    """A contract has reverted a call: it does not have the method."""


def _result(answer: Any) -> Any:
    """Return a result in a batch. Raises _Reverted, and RpcFailure for an error that may pass."""
    if isinstance(answer, RpcFailure):
        raise _Reverted(str(answer)) if "revert" in answer.message.lower() else answer
    return answer


def _unreadable(entry: Listed, created: Block | None, problem: str) -> Game:
    """Return a game whose contract is another than is known here."""
    return Game(
        proxy=entry.proxy,
        game_type=entry.game_type,
        timestamp=entry.timestamp,
        root_claim="",
        l1_head="",
        l1_head_num=0,
        l2_sequence_number=0,
        block=0 if created is None else created.header.number,
        block_hash="" if created is None else to_hex(created.hash),
        problem=f"its contract does not tell its data: {one_line(problem)}",
    )
