"""The files of a prepared course.

One file of response bodies with its index, what the servers know of the course, and the rollup config and JWT secret
that the node is started with."""

import mmap
import os
from pathlib import Path
from types import TracebackType

import msgspec
import orjson

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.config_json import parse_rollup_config, rollup_config_object
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.bench.race.http_server import Prepared
from rollup_node.tools.bench.signed_blocks import SECRET


class CourseSize(msgspec.Struct, frozen=True):
    """The blocks of a course.

    `l1_blocks` after the L1 genesis block with `transactions` each, which hold the batches of `l2_blocks` with
    `l2_transactions` signed transactions each. `deposits` are those of the whole course. With `sidecars` 0 the Beacon
    API has no blob sidecars, whose KZG proofs take seconds to begin with. Each L1 block has `garbage` transactions to
    the inbox that derivation drops, with `other_parents` also batches whose parent is another block, which only who
    knows the hashes of L2 blocks can drop. The forks after Fjord activate `fork_blocks` L2 blocks one after the other,
    all at genesis with 0. An L1 block with batches has `blobs` blobs at least, those of another chain before the
    batches'. With `executed` a real engine executes the L2 blocks, whose forks end with Holocene. There are `chains` on
    the same L1, each with all that is said of L2 blocks, deposits and garbage."""

    l1_blocks: int = 300
    transactions: int = 150
    deposits: int = 175
    l2_blocks: int = 1770
    l2_transactions: int = 10
    blocks_per_channel: int = 200
    blocks_per_span: int = 100
    sidecars: int = 1
    garbage: int = 0
    other_parents: int = 1
    fork_blocks: int = 0
    blobs: int = 0
    executed: int = 0
    chains: int = 1


KINDS = {
    "2023": CourseSize(),
    "full60": CourseSize(transactions=400, l2_transactions=30, blobs=9),
    "full200": CourseSize(
        l1_blocks=100,
        transactions=1300,
        deposits=60,
        l2_blocks=570,
        l2_transactions=30,
        blocks_per_channel=100,
        blocks_per_span=50,
        blobs=21,
    ),
}
"""L1 as it was with 15 Mgas a block, and with full blocks of 60 and of 200 Mgas: 400 and 1,300 transactions."""

VERSION = 4
"""Of the files; raised when what is in them changes."""


class CourseFacts(msgspec.Struct):
    """What a course is.

    `l1_hashes` and `l2_hashes` are those of all blocks from both genesis blocks on, in hex; `blobs` the versioned
    hashes by slot; `signer_proof` the result of eth_getProof for the signer's slot."""

    size: CourseSize
    l1_genesis: int
    l1_hashes: list[str]
    l2_hashes: list[str]
    beacon_genesis_time: int
    slot_seconds: int
    blobs: dict[int, list[str]]
    signer_proof: str
    version: int = VERSION

    @property
    def l1_head(self) -> int:
        """The number of the last L1 block."""
        return self.l1_genesis + len(self.l1_hashes) - 1

    @property
    def last_safe(self) -> str:
        """The hash of the last L2 block that can be derived."""
        return self.l2_hashes[-1]


class CourseWriter:
    """Writes the JWT secret, the bodies of a course one after another, and everything else at the end."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._index: dict[str, tuple[int, int]] = {}
        jwt = folder / "jwt.txt"
        jwt.unlink(missing_ok=True)
        with os.fdopen(os.open(jwt, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(to_hex(SECRET))
        self._file = (folder / "bodies").open("wb")

    def __enter__(self) -> "CourseWriter":
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def add(self, name: str, body: bytes) -> None:
        """Add a body."""
        self._index[name] = (self._file.tell(), len(body))
        self._file.write(body)

    def finish(self, facts: CourseFacts, config: RollupConfig) -> None:
        """Write the other files; the facts are last, and a folder without them is no course."""
        (self._folder / "index").write_bytes(msgspec.msgpack.encode(self._index))
        (self._folder / "rollup.json").write_bytes(orjson.dumps(rollup_config_object(config)))
        (self._folder / "facts.json").write_bytes(msgspec.json.encode(facts))


class CourseFiles:
    """A prepared course in a folder, and its `further` chains. Raises OSError or msgspec.DecodeError without one."""

    def __init__(self, folder: Path, is_first: bool = True) -> None:
        folder = folder.resolve()
        self.facts = read_facts(folder)
        self.further = [CourseFiles(path, False) for path in further_folders(folder, self.facts.size) if is_first]
        self.rollup = folder / "rollup.json"
        self.jwt = folder / "jwt.txt"
        self.config = parse_rollup_config(self.rollup.read_bytes()).config
        self._index = msgspec.msgpack.decode((folder / "index").read_bytes(), type=dict[str, tuple[int, int]])
        with (folder / "bodies").open("rb") as file:
            self._bodies = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def body(self, name: str) -> bytes:
        """Return a body by its name. Raises KeyError."""
        start, size = self._index[name]
        return self._bodies[start : start + size]

    def prepared(self, name: str) -> Prepared:
        """Return a body of L1 by its name. Raises KeyError."""
        return Prepared(self.body(name), self.body(f"{name}/deflated"))

    def close(self) -> None:
        """Close the files of the bodies."""
        for chain in self.further:
            chain.close()
        self._bodies.close()


def further_folders(folder: Path, size: CourseSize) -> list[Path]:
    """Return the folders of a course's chains after the first."""
    return [folder / f"chain-{number}" for number in range(2, size.chains + 1)]


def read_facts(folder: Path) -> CourseFacts:
    """Return what a course is, without its bodies. Raises OSError or msgspec.DecodeError where there is none."""
    return msgspec.json.decode((folder / "facts.json").read_bytes(), type=CourseFacts)
