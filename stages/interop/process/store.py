"""The interop database in one file, so that each change of all chains' logs, rounds and denied blocks is one [VDB1].

A round has no row: its heads are the blocks by number, and its L1 block is that of the last row of `inclusions` at or
before its time. So a round cannot contradict the logs. Damage that SQLite does not see is found by the checksum of a
row when it is read [VDB3]."""

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
    Decided,
    Finished,
    InvalidateHeads,
    InvalidHead,
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
create table chains (id integer primary key, genesis blob not null, since integer, crc integer not null);
create table blocks
  (chain integer not null, number integer not null, hash blob not null, logs blob not null, output blob,
   crc integer not null, primary key (chain, number));
create table inclusions
  (since integer primary key, l1_number integer not null, l1_hash blob not null, crc integer not null);
create index inclusions_by_l1 on inclusions (l1_number);
create table denied
  (id integer primary key, chain integer not null, number integer not null, hash blob not null, time integer not null,
   state_root blob not null, storage_root blob not null, reason text not null, crc integer not null,
   unique (chain, number, hash));
create table progress
  (verified integer, decided blob, pending blob, transition integer not null, l1_final integer not null,
   crc integer not null);
"""
_DENIED = "select chain, number, hash, time, state_root, storage_root, reason, crc from denied"
_MAX = 2**63 - 1
_transition = msgspec.msgpack.Decoder(Transition)
_block_decoder = msgspec.msgpack.Decoder(BlockId)
_output_decoder = msgspec.msgpack.Decoder(HeadOutput)


class InteropStoreError(StoreError):
    """The file cannot be used: not opened, not written or damaged; the text says why and what to do [VDB2]."""

    code = Code.INTEROP_STORE


class Round(msgspec.Struct, frozen=True):
    """A verified round: its heads and its L1 block [VR7]; the heads of `removed` chains are not stored any more [VR12].

    `outputs` are those of the heads that were checked in a round; others are from before the first one [VR10]."""

    l1: BlockId
    heads: dict[int, BlockId]
    outputs: dict[int, HeadOutput]
    removed: tuple[int, ...] = ()


class _StoredBlock(NamedTuple):
    """A block's log hashes, and its output if it was the head of a round."""

    block: BlockId
    logs: bytes
    output: HeadOutput | None


class _Progress(NamedTuple):
    """The one row of `progress`: the time of the last round, what is decided and pending, encoded, and two numbers."""

    verified: int | None = None
    decided: bytes | None = None
    pending: bytes | None = None
    transition: int = 0
    l1_final: int = 0


class InteropStore:
    """The database in the file `path`. All errors are InteropStoreErrors, which change nothing and name the option."""

    def __init__(self, path: str, config: InteropConfig, *, check: bool = False, create: bool = True) -> None:
        """Open the file; `create` makes one that is missing, `check` reads all of it for damage [VDB2]."""
        self._path, self._config = path, config
        with self._errors():
            kind = FileKind(WHAT, OPTION, _APPLICATION, "", "full", 3, first=_new_file())
            self._connection = open_sqlite(path, kind, check=check, create=create)
        try:
            with self._errors(), transaction(self._connection):
                self._check_chains()
                self._check_heads(self.state())
                self._denied()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    # --- reads -------------------------------------------------------------------------------------------------------

    def state(self) -> StoreState:
        """Return what the rounds go on from."""
        with self._errors():
            verified, decided, pending, *_ = self._progress()
            tips = {chain_id: tip for chain_id in self._config.chains if (tip := self._tip(chain_id)) is not None}
            last = self._inclusion("where since <= ? order by since desc", _MAX)
            if (last is None) != (verified is None):
                raise sqlite3.DatabaseError("it has no L1 block of its last round")
            return StoreState(
                tips,
                VerifiedRound(verified, last[1], last[0]) if last is not None and verified is not None else None,
                _block_decoder.decode(decided) if decided is not None else None,
                _transition.decode(pending) if pending is not None else None,
            )

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
            verified = self.state().verified
            inclusion = self._inclusion("where since <= ? order by since desc", timestamp)
            if verified is None or timestamp > verified.timestamp or inclusion is None:
                return None
            heights = self._config.heights_at(timestamp)
            members = [
                chain for chain, (_, since) in self._chains().items() if since is not None and since <= timestamp
            ]
            rows = {chain: self._block(chain, heights[chain]) for chain in members}
            heads = {chain: row.block for chain, row in rows.items() if row is not None}
            outputs = {chain: row.output for chain, row in rows.items() if row is not None and row.output is not None}
            return Round(inclusion[1], heads, outputs, tuple(chain for chain in members if chain not in heads))

    def final_heads(self, l1_number: int) -> dict[int, BlockId]:
        """Return the heads of the last round whose L1 block is at or below a finalized one, if there is one [LB4]."""
        with self._errors():
            verified = self.state().verified
            above = self._inclusion("where l1_number > ? order by l1_number", l1_number)
            if (
                verified is None
                or (result := self.round_at(verified.timestamp if above is None else above[0] - 1)) is None
            ):
                return {}
            if result.l1.number > l1_number:
                raise sqlite3.DatabaseError("its rounds are not in the order of their L1 blocks")
            return result.heads

    def decided(self) -> Decided:
        """Return what the chains are sent besides the state."""
        denied: dict[int, tuple[DeniedBlock, ...]] = {}
        with self._errors():
            for head in self._denied():
                block = DeniedBlock(head.block.number, head.block.hash)
                denied[head.chain_id] = (*denied.get(head.chain_id, ()), block)
            progress = self._progress()
            return Decided(progress.transition, denied, progress.l1_final, self.final_heads(progress.l1_final))

    def denied(self, chain_id: int, number: int) -> list[InvalidHead]:
        """Return the denied blocks of a height, the last one that was denied at the end [IV2, LB8]."""
        with self._errors():
            return self._denied("where chain = ? and number = ?", chain_id, min(number, _MAX))

    # --- changes -----------------------------------------------------------------------------------------------------

    def finalize(self, l1_number: int) -> Decided:
        """Store up to which number L1 blocks of rounds are finalized, which never goes back [LB4, VR13]."""
        with self._errors(), transaction(self._connection):
            self._progress_to(l1_final=max(self._progress().l1_final, l1_number))
            return self.decided()

    def write(self, *changes: Change) -> StoreState:
        """Make changes as one, on disk when this returns, and return the state after them [VR6].

        Raises InteropStoreError also for a change that does not follow from the state, such as a gap [VR9, VR11]."""
        with self._errors(), transaction(self._connection):
            for change in changes:
                self._make(change)
            return self.state()

    def decide(self, change: Transition) -> tuple[StoreState, Decided]:
        """Make a change that the chains have to carry out, and return both that are read after it [VR6]."""
        with self._errors(), transaction(self._connection):
            self._make(change)
            return self.state(), self.decided()

    def _make(self, change: Change) -> None:
        match change:
            case Advance():
                self._advance(change, self.state())
            case InvalidateHeads():
                self._deny(change, self.state())
            case Rewind():
                self._rewind(change)
            case Finished():
                self._progress_to(pending=None)
            case AddLogs():
                _, since = self._chains().get(change.chain_id, (b"", None))
                self._require(since is None, f"chain {change.chain_id} has rounds, and gets no older logs")
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
        heights, begun = self._config.heights_at(change.timestamp), self._config.begun_at(change.timestamp)
        for chain_id in begun:
            tip, number = self._tip(chain_id), heights[chain_id]
            text = f"the round {change.timestamp} has no head of chain {chain_id}: {tip} is its last block"
            self._require(tip is not None and tip.number == number, text)
        if verified is None or verified.l1 != change.l1:
            self._put("inclusions", change.timestamp, *_row(change.l1))
        self._progress_to(verified=change.timestamp, decided=None)
        for chain_id, (genesis, since) in self._chains().items():
            if since is None and chain_id in begun:
                self._put("chains", chain_id, genesis, change.timestamp)
        for chain_id, number in self._config.heights_at(change.timestamp - PRUNE_SECONDS).items():
            self._connection.execute("delete from blocks where chain = ? and number < ?", (chain_id, number))

    def _deny(self, change: InvalidateHeads, state: StoreState) -> None:
        self._require(state.pending is None, "a block is denied while a transition is pending")
        query = "insert or ignore into denied values (null, ?, ?, ?, ?, ?, ?, ?, ?)"
        for head in change.heads:
            output = head.state_root, head.storage_root, head.reason
            content = head.chain_id, *_row(head.block), change.timestamp, *output
            self._connection.execute(query, (*content, _crc(*content)))
        self._set_pending(change, decided=msgspec.msgpack.encode(change.l1))

    def _rewind(self, change: Rewind) -> None:
        for table, column in (("inclusions", "since"), ("denied", "time")):
            self._connection.execute(f"delete from {table} where {column} >= ?", (change.first,))
        for chain_id, number in self._config.heights_at(change.first - 1).items():
            self._cut(chain_id, number)
        for chain_id, (genesis, since) in self._chains().items():
            if since is not None and since >= change.first:
                self._put("chains", chain_id, genesis, None)
        left = self._inclusion("where since <= ? order by since desc", _MAX)
        self._set_pending(change, decided=None, verified=None if left is None else change.first - 1)

    def _set_pending(self, transition: Transition, **changes: Any) -> None:
        # By the clock, so that no number comes again after the file was removed while the chains have the last one.
        number = max(self._progress().transition + 1, int(time.time()))
        self._progress_to(pending=msgspec.msgpack.encode(transition), transition=number, **changes)

    def _cut(self, chain_id: int, keep: int) -> None:
        self._connection.execute("delete from blocks where chain = ? and number > ?", (chain_id, keep))

    def _append(self, chain_id: int, logs: BlockLogs, output: bytes | None = None) -> None:
        """Add a block, whose parent is the last one of its chain, if there is one [VR11]."""
        tip, block = self._tip(chain_id), logs.block
        self._require(
            tip is None or (block.number == tip.number + 1 and block.parent_hash == tip.hash),
            f"block {block} of chain {chain_id} does not follow {tip}",
        )
        self._put("blocks", chain_id, *_row(block.id), logs.log_hashes, output)

    # --- rows --------------------------------------------------------------------------------------------------------

    def _put(self, table: str, *content: Any) -> None:
        """Write a row with its checksum, in place of the one with its key."""
        marks = ", ".join("?" * (len(content) + 1))
        self._connection.execute(f"insert or replace into {table} values ({marks})", (*content, _crc(*content)))

    def _progress(self) -> _Progress:
        row = self._connection.execute("select * from progress").fetchone()
        return _Progress(*_checked(row or (None,), "what it goes on from"))

    def _progress_to(self, **changes: Any) -> None:
        progress = self._progress()._replace(**changes)
        query = "update progress set verified = ?, decided = ?, pending = ?, transition = ?, l1_final = ?, crc = ?"
        self._connection.execute(query, (*progress, _crc(*progress)))

    def _chains(self) -> dict[int, tuple[Hash, int | None]]:
        """Return the genesis hash of each chain, and the time of its first round, None before it."""
        rows = self._connection.execute("select * from chains").fetchall()
        return {row[0]: (row[1], row[2]) for row in rows if _checked(row, f"chain {row[0]}")}

    def _denied(self, condition: str = "", *values: int) -> list[InvalidHead]:
        """Return denied blocks, the last one that was denied at the end."""
        rows = self._connection.execute(f"{_DENIED} {condition} order by id", values).fetchall()
        checked = [_checked(row, f"denied block {row[1]} of chain {row[0]}") for row in rows]
        return [
            InvalidHead(chain_id, BlockId(number, block_hash), *roots_and_reason)
            for chain_id, number, block_hash, _, *roots_and_reason in checked
        ]

    def _tip(self, chain_id: int) -> BlockId | None:
        query = "select number, hash from blocks where chain = ? order by number desc limit 1"
        row = self._connection.execute(query, (chain_id,)).fetchone()
        return None if row is None else _block_id(*row)

    def _block(self, chain_id: int, number: int) -> _StoredBlock | None:
        """Return a stored block. Raises DatabaseError if it is damaged [VDB3]."""
        query = "select * from blocks where chain = ? and number = ?"
        row = self._connection.execute(query, (chain_id, number)).fetchone()
        if row is None:
            return None
        _, _, block_hash, logs, output = _checked(row, f"block {number} of chain {chain_id}")
        return _StoredBlock(BlockId(number, block_hash), logs, output and _output_decoder.decode(output))

    def _inclusion(self, condition: str, value: int) -> tuple[int, BlockId] | None:
        query = f"select * from inclusions {condition} limit 1"
        row = self._connection.execute(query, (min(value, _MAX),)).fetchone()
        if row is None:
            return None
        since, *block = _checked(row, f"the L1 block of round {row[0]}")
        return since, BlockId(*block)

    # --- checks of the file ------------------------------------------------------------------------------------------

    def _check_chains(self) -> None:
        """Add the chains that are new in the set. Raises InteropStoreError for a file of other chains [VDB2]."""
        known = {chain_id: genesis for chain_id, (genesis, _) in self._chains().items()}
        members = {chain_id: chain.genesis.l2.hash for chain_id, chain in self._config.chains.items()}
        self._require(max(members) <= _MAX, f"chain ids end at {_MAX}")
        for chain_id, genesis in known.items():
            text = f"is of chain {chain_id} with genesis 0x{genesis.hex()}, which is not in the set: give another path"
            self._require(members.get(chain_id) == genesis, text)
        for chain_id in members.keys() - known.keys():
            self._put("chains", chain_id, members[chain_id], None)

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


def _crc(*content: Any) -> int:
    return zlib.crc32(msgspec.msgpack.encode(content))


def _checked(row: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """Return a row without its checksum, the last column. Raises DatabaseError if it is not what was written [VDB3]."""
    *content, crc = row
    if crc != _crc(*content):
        raise sqlite3.DatabaseError(f"{what} is not what was written")
    return tuple(content)


def _new_file() -> str:
    progress = _Progress()
    values = ", ".join("null" if value is None else str(value) for value in (*progress, _crc(*progress)))
    return f"{_SCHEMA} insert into progress values ({values});"
