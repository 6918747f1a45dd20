"""The interop database in one file, so that each change of all chains' logs, rounds and denied blocks is one [VDB1].

A round has no row: its heads are the blocks by number, and its L1 block is that of the last row of `inclusions` at or
before its time. So a round cannot contradict the logs. Damage that SQLite does not see is found by the checksum of a
block's row when it is read [VDB3]."""

import sqlite3
import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.message_checks import LogPlace
from rollup_node.stages.interop.rounds import (
    AddLogs,
    Advance,
    Change,
    Finished,
    InvalidateHeads,
    Rewind,
    StoreState,
    Transition,
    VerifiedRound,
)
from rollup_node.stages.io.files.sqlite_file import (
    SQLITE_ERRORS,
    FileKind,
    StoreError,
    is_block,
    open_sqlite,
    transaction,
)
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.interop import DeniedBlock, HeadOutput
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.interop_messages import MESSAGE_EXPIRY_WINDOW, BlockLogs, log_hash_at
from rollup_node.stages.protocol.types import BlockId, Hash

WHAT, OPTION = "interop database", "data-dir"
PRUNE_SECONDS = 2 * MESSAGE_EXPIRY_WINDOW
"""Age of logs that no message can name, nor after a rewind, whatever the window of the set is [VR12]."""

_APPLICATION = 0x52504E49
_SCHEMA = """
create table if not exists chains (id integer primary key, genesis blob not null, since integer);
create table if not exists blocks
  (chain integer not null, number integer not null, hash blob not null, logs blob not null, output blob,
   crc integer not null, primary key (chain, number));
create table if not exists inclusions
  (since integer primary key, l1_number integer not null, l1_hash blob not null);
create index if not exists inclusions_by_l1 on inclusions (l1_number);
create table if not exists denied
  (id integer primary key, chain integer not null, number integer not null, hash blob not null, time integer not null,
   state_root blob not null, storage_root blob not null, reason text not null, unique (chain, number, hash));
create table if not exists progress
  (verified integer, decided blob, pending blob, transition integer not null, l1_final integer not null);
insert into progress select null, null, null, 0, 0 where not exists (select 1 from progress);
"""
_MAX = 2**63 - 1
_transition = msgspec.msgpack.Decoder(Transition)
_block_decoder = msgspec.msgpack.Decoder(BlockId)
_output_decoder = msgspec.msgpack.Decoder(HeadOutput)


class InteropStoreError(StoreError):
    """The file cannot be used: not opened, not written or damaged; the text says why and what to do [VDB2]."""

    code = Code.INTEROP_STORE


class Round(msgspec.Struct, frozen=True):
    """A verified round: its heads, of the chains whose block of that time is still stored, and its L1 block [VR7].

    `outputs` are those of the heads that were checked in a round; others are from before the first one [VR10]."""

    timestamp: int
    l1: BlockId
    heads: dict[int, BlockId]
    outputs: dict[int, HeadOutput]


class _StoredBlock(NamedTuple):
    """A block's log hashes, and its output if it was the head of a round."""

    block: BlockId
    logs: bytes
    output: HeadOutput | None


class DenialRow(msgspec.Struct, frozen=True):
    """A block that was invalid in the round at `timestamp`, with what its output root is made of [IV2, LB8]."""

    hash: Hash
    timestamp: int
    state_root: Hash
    storage_root: Hash
    reason: str


class InteropStore:
    """The database in the file `path`. All errors are InteropStoreErrors, which change nothing and name the option."""

    def __init__(self, path: str, config: InteropConfig, *, check: bool = False, create: bool = True) -> None:
        """Open the file; `create` makes one that is missing, `check` reads all of it for damage [VDB2]."""
        self._path, self._config = path, config
        with self._errors():
            kind = FileKind(WHAT, OPTION, _APPLICATION, _SCHEMA, "full", 2)
            self._connection = open_sqlite(path, kind, check=check, create=create)
        try:
            with self._errors(), transaction(self._connection):
                self._check_chains()
                self._check_heads(self._state())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    # --- reads -------------------------------------------------------------------------------------------------------

    def state(self) -> StoreState:
        """Return what the rounds go on from."""
        with self._errors():
            return self._state()

    def stored(self, places: Collection[LogPlace]) -> dict[LogPlace, Hash | None]:
        """Return the hashes of logs: empty where a block has no such log, None where the block is not stored [EM10]."""
        blocks: dict[tuple[int, int], bytes | None] = {}
        with self._errors():
            for place in places:
                if place[:2] not in blocks:
                    row = self._block(place.chain_id, place.number)
                    blocks[place[:2]] = None if row is None else row.logs
        hashes = ((place, blocks[place[:2]]) for place in places)
        return {place: None if logs is None else log_hash_at(logs, place.log_index) or b"" for place, logs in hashes}

    def round_at(self, timestamp: int) -> Round | None:
        """Return the verified round of a time, None if that second is not verified [LB7]."""
        with self._errors():
            verified = self._state().verified
            inclusion = self._inclusion("where since <= ? order by since desc", timestamp)
            if verified is None or timestamp > verified.timestamp or inclusion is None:
                return None
            heights = self._config.heights_at(timestamp)
            members = self._connection.execute("select id from chains where since <= ?", (timestamp,)).fetchall()
            rows = {chain: self._block(chain, heights[chain]) for (chain,) in members}
            heads = {chain: row.block for chain, row in rows.items() if row is not None}
            outputs = {chain: row.output for chain, row in rows.items() if row is not None and row.output is not None}
            return Round(timestamp, inclusion[1], heads, outputs)

    def final_round(self, l1_number: int) -> Round | None:
        """Return the last round whose L1 block is at or below a finalized one, None if there is none [LB4]."""
        with self._errors():
            verified = self._state().verified
            above = self._inclusion("where l1_number > ? order by l1_number", l1_number)
        if verified is None:
            return None
        return self.round_at(verified.timestamp if above is None else above[0] - 1)

    def transition(self) -> int:
        """Return the number of the last transition, 0 without one; it rises also over a removed file [VR6]."""
        with self._errors():
            return int(self._connection.execute("select transition from progress").fetchone()[0])

    def l1_final(self) -> int:
        """Return the number of the last L1 block that was finalized, 0 without one [LB4]."""
        with self._errors():
            return int(self._connection.execute("select l1_final from progress").fetchone()[0])

    def all_denied(self) -> dict[int, tuple[DeniedBlock, ...]]:
        """Return all denied blocks by chain [IV2]."""
        result: dict[int, list[DeniedBlock]] = {}
        with self._errors():
            for chain_id, *row in self._connection.execute("select chain, number, hash from denied order by id"):
                block = _block_id(*row)
                result.setdefault(chain_id, []).append(DeniedBlock(block.number, block.hash))
        return {chain_id: tuple(blocks) for chain_id, blocks in result.items()}

    def denied(self, chain_id: int, number: int) -> tuple[DenialRow, ...]:
        """Return the denied blocks of a height, the last one that was denied at the end [IV2, LB8]."""
        query = (
            "select hash, time, state_root, storage_root, reason from denied where chain = ? and number = ? order by id"
        )
        with self._errors():
            return tuple(DenialRow(*row) for row in self._connection.execute(query, (chain_id, min(number, _MAX))))

    # --- changes -----------------------------------------------------------------------------------------------------

    def keep_l1_final(self, number: int) -> None:
        """Store the number of L1's finalized block, which never goes back [LB4, VR13]."""
        with self._errors():
            self._connection.execute("update progress set l1_final = max(l1_final, ?)", (number,))

    def write(self, *changes: Change) -> StoreState:
        """Make changes as one, on disk when this returns, and return the state after them [VR6].

        Raises InteropStoreError also for a change that does not follow from the state, such as a gap [VR9, VR11]."""
        with self._errors(), transaction(self._connection):
            for change in changes:
                self._make(change)
            return self._state()

    def _make(self, change: Change) -> None:
        match change:
            case Advance():
                self._advance(change, self._state())
            case InvalidateHeads():
                self._deny(change, self._state())
            case Rewind():
                self._rewind(change)
            case Finished():
                self._connection.execute("update progress set pending = null")
            case AddLogs():
                query = "select 1 from chains where id = ? and since is not null"
                is_member = self._connection.execute(query, (change.chain_id,)).fetchone()
                self._require(is_member is None, f"chain {change.chain_id} has rounds, and gets no older logs")
                self._cut(change.chain_id, change.keep)
                for logs in change.blocks:
                    self._append(change.chain_id, logs)

    def _advance(self, change: Advance, state: StoreState) -> None:
        verified = state.verified
        self._require(state.pending is None, "a round is verified while a transition is pending")
        self._require(
            verified is None or change.timestamp == verified.timestamp + 1,
            f"the round {change.timestamp} does not follow {verified}",
        )
        for chain_id, block in change.blocks.items():
            output = msgspec.msgpack.encode(HeadOutput(block.state_root, block.storage_root, block.l1))
            self._append(chain_id, block.logs, output)
        for chain_id, number in self._config.heights_at(change.timestamp).items():
            tip = self._tip(chain_id)
            text = f"the round {change.timestamp} has no head of chain {chain_id}: {tip} is its last block"
            self._require(tip is not None and tip.number == number, text)
        if verified is None or verified.l1 != change.l1:
            self._connection.execute("insert into inclusions values (?, ?, ?)", (change.timestamp, *_row(change.l1)))
        self._connection.execute("update progress set verified = ?, decided = null", (change.timestamp,))
        self._connection.execute("update chains set since = ? where since is null", (change.timestamp,))
        for chain_id, number in self._config.heights_at(change.timestamp - PRUNE_SECONDS).items():
            self._connection.execute("delete from blocks where chain = ? and number < ?", (chain_id, number))

    def _deny(self, change: InvalidateHeads, state: StoreState) -> None:
        self._require(state.pending is None, "a block is denied while a transition is pending")
        query = (
            "insert or ignore into denied (chain, number, hash, time, state_root, storage_root, reason)"
            " values (?, ?, ?, ?, ?, ?, ?)"
        )
        for head in change.heads:
            output = head.state_root, head.storage_root, head.reason
            self._connection.execute(query, (head.chain_id, *_row(head.block), change.timestamp, *output))
        self._set_pending(change)
        self._connection.execute("update progress set decided = ?", (msgspec.msgpack.encode(change.l1),))

    def _rewind(self, change: Rewind) -> None:
        for table, column in (("inclusions", "since"), ("denied", "time")):
            self._connection.execute(f"delete from {table} where {column} >= ?", (change.first,))
        for chain_id, number in self._config.heights_at(change.first - 1).items():
            self._cut(chain_id, number)
        self._connection.execute("update chains set since = null where since >= ?", (change.first,))
        query = "update progress set decided = null, verified = (select ? from inclusions limit 1)"
        self._connection.execute(query, (change.first - 1,))
        self._set_pending(change)

    def _set_pending(self, transition: Transition) -> None:
        # By the clock, so that no number comes again after the file was removed while the chains have the last one.
        query = "update progress set pending = ?, transition = max(transition + 1, ?)"
        self._connection.execute(query, (msgspec.msgpack.encode(transition), int(time.time())))

    def _cut(self, chain_id: int, keep: int) -> None:
        self._connection.execute("delete from blocks where chain = ? and number > ?", (chain_id, keep))

    def _append(self, chain_id: int, logs: BlockLogs, output: bytes | None = None) -> None:
        """Add a block, whose parent is the last one of its chain, if there is one [VR11]."""
        tip, block = self._tip(chain_id), logs.block
        self._require(
            tip is None or (block.number == tip.number + 1 and block.parent_hash == tip.hash),
            f"block {block} of chain {chain_id} does not follow {tip}",
        )
        content: tuple[int, Hash, bytes, bytes | None] = (*_row(block.id), logs.log_hashes, output)
        self._connection.execute("insert into blocks values (?, ?, ?, ?, ?, ?)", (chain_id, *content, _crc(*content)))

    # --- rows --------------------------------------------------------------------------------------------------------

    def _state(self) -> StoreState:
        verified, decided, pending = self._connection.execute(
            "select verified, decided, pending from progress"
        ).fetchone()
        tips = {chain_id: tip for chain_id in self._config.chains if (tip := self._tip(chain_id)) is not None}
        last = self._inclusion("where since <= ? order by since desc", _MAX)
        if (last is None) != (verified is None):
            raise sqlite3.DatabaseError("it has no L1 block of its last round")
        return StoreState(
            tips,
            VerifiedRound(verified, last[1], last[0]) if last is not None else None,
            _block_decoder.decode(decided) if decided is not None else None,
            _transition.decode(pending) if pending is not None else None,
        )

    def _tip(self, chain_id: int) -> BlockId | None:
        query = "select number, hash from blocks where chain = ? order by number desc limit 1"
        row = self._connection.execute(query, (chain_id,)).fetchone()
        return None if row is None else _block_id(*row)

    def _block(self, chain_id: int, number: int) -> _StoredBlock | None:
        """Return a stored block. Raises DatabaseError if it is damaged [VDB3]."""
        query = "select number, hash, logs, output, crc from blocks where chain = ? and number = ?"
        row = self._connection.execute(query, (chain_id, number)).fetchone()
        if row is None:
            return None
        logs, output = row[2:4]
        if not is_block(*row[:2]) or {type(logs), type(output or b"")} != {bytes} or row[4] != _crc(*row[:4]):
            raise sqlite3.DatabaseError(f"block {number} of chain {chain_id} is not what was written")
        return _StoredBlock(BlockId(*row[:2]), logs, None if output is None else _output_decoder.decode(output))

    def _inclusion(self, condition: str, value: int) -> tuple[int, BlockId] | None:
        query = f"select since, l1_number, l1_hash from inclusions {condition} limit 1"
        row = self._connection.execute(query, (min(value, _MAX),)).fetchone()
        return None if row is None else (row[0], _block_id(*row[1:]))

    # --- checks of the file ------------------------------------------------------------------------------------------

    def _check_chains(self) -> None:
        """Add the chains that are new in the set. Raises InteropStoreError for a file of other chains [VDB2]."""
        known = dict(self._connection.execute("select id, genesis from chains").fetchall())
        members = {chain_id: chain.genesis.l2.hash for chain_id, chain in self._config.chains.items()}
        self._require(max(members) <= _MAX, f"chain ids end at {_MAX}")
        for chain_id, genesis in known.items():
            text = f"is of chain {chain_id} with genesis 0x{genesis.hex()}, which is not in the set: give another path"
            self._require(members.get(chain_id) == genesis, text)
        new = [(chain_id, genesis) for chain_id, genesis in members.items() if chain_id not in known]
        self._connection.executemany("insert into chains values (?, ?, null)", new)

    def _check_heads(self, state: StoreState) -> None:
        """Check that the blocks are in a row, and end with the last round [VR14]. Raises DatabaseError."""
        query = (
            "select id, count(number), max(number) - min(number) + 1, max(number), since is not null"
            " from chains left join blocks on chain = id group by id"
        )
        heights = {} if state.verified is None else self._config.heights_at(state.verified.timestamp)
        for chain_id, count, span, last, is_member in self._connection.execute(query).fetchall():
            if count != (span or 0) or (is_member and last != heights.get(chain_id)):
                raise sqlite3.DatabaseError(f"the blocks of chain {chain_id} are not those that were verified")

    def _require(self, condition: bool, text: str) -> None:
        if not condition:
            raise InteropStoreError(f"{WHAT} {self._path}: {text} ({OPTION})")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except InteropStoreError:
            raise
        except StoreError as error:
            raise InteropStoreError(str(error)) from None
        except sqlite3.OperationalError as error:
            raise InteropStoreError(f"{WHAT} {self._path}: {error} ({OPTION})") from None
        except (*SQLITE_ERRORS, *DECODE_ERRORS) as error:
            raise InteropStoreError(f"{WHAT} {self._path} is damaged ({error}): remove it ({OPTION})") from None


def _row(block: BlockId) -> tuple[int, Hash]:
    return block.number, block.hash


def _block_id(number: Any, block_hash: Any) -> BlockId:
    """Return the block of a row. Raises DatabaseError if it is none."""
    if not is_block(number, block_hash):
        raise sqlite3.DatabaseError("a row is no block")
    return BlockId(number, block_hash)


def _crc(number: int, block_hash: Hash, logs: bytes, output: bytes | None) -> int:
    return zlib.crc32(number.to_bytes(8, "big") + block_hash + logs + (output or b""))
