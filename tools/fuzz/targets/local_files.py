"""Files that a node reads again: state, secrets, process lists and databases, damaged or written by somebody else."""

import atexit
import os
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import msgspec
import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rollup_node.node.options.errors import OptionError
from rollup_node.node.setup.chain import _dependencies_of_file
from rollup_node.node.setup.secrets import stored_jwt_secret
from rollup_node.node.system.runtime_dir import PROCESSES, read_processes
from rollup_node.stages.engine.calls.safe_head_entries import FindSafeHeads, SafeHeadEntry
from rollup_node.stages.engine.process.safe_heads import HistoryUnavailableError, SafeHeadStore
from rollup_node.stages.engine.process.sequencer_store import (
    AdminStateFile,
    SequencerState,
    SequencerStateFile,
    StoreFailedError,
)
from rollup_node.stages.io.files.sqlite_file import StoreError
from rollup_node.stages.io.profiling.profile import Profile, ProfileFiles, ProfileRequest, Sample
from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.config import SignerConfig
from rollup_node.stages.p2p.signer.io.remote_signer import TlsFileError, TlsFiles
from rollup_node.stages.p2p.signer.io.signed_blocks_file import SignedBlocksFile
from rollup_node.stages.p2p.signer.signed_blocks import BlockFate, BlockRecord, SigningRequest
from rollup_node.stages.p2p.storage.io.key_file import IdentityFileError, load_identity
from rollup_node.stages.p2p.storage.io.node_database import NodeDatabase
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore
from rollup_node.stages.p2p.storage.peer_record import IdentifyRecord, PeerMetadata, PeerScores
from rollup_node.stages.protocol.types import BlockId
from rollup_node.stages.rpc.process.metrics_server import merge_expositions
from rollup_node.tools.fuzz.targets.chain_seeds import rollup
from rollup_node.tools.fuzz.targets.discovery import _STRANGER_RECORD
from rollup_node.tools.fuzz.targets.target import JSON_TOKENS, FuzzTarget, one_of
from rollup_node.tools.history.archive import _read

GENESIS = rollup().genesis.l2.hash
PEER = NetworkIdentity(b"\x01" * 32)
EARLIER_FILES = ("-wal", "-shm", "-journal")


class Scratch:
    """A folder of this user alone, in memory where the system has a file system there. It goes with the process."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self.folder = Path(mkdtemp(prefix="fuzz-rn-", dir=memory if memory.is_dir() else None))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)

    def file(self, name: str, data: bytes) -> str:
        """Return the path of a file with these bytes."""
        path = self.folder / name
        for end in EARLIER_FILES:
            with suppress(FileNotFoundError):
                os.unlink(f"{path}{end}")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(descriptor, data)
        os.close(descriptor)
        return str(path)

    def made(self, name: str, make: Callable[[str], None]) -> bytes:
        """Return the bytes of a file that a function makes."""
        path = self.folder / name
        make(str(path))
        result = path.read_bytes()
        path.unlink()
        return result


@cache
def scratch() -> Scratch:
    """Return the folder of this process."""
    return Scratch()


# --- state, secrets, lists -----------------------------------------------------------------------------------------


def admin_state(data: bytes) -> object:
    """Return the file of `rpc.admin-state`: a change is stored whatever the file holds."""
    path = scratch().file("admin", data)
    return AdminStateFile(path).load().active


def jwt_secret(data: bytes) -> object:
    """Return the file of a JWT secret."""
    result = stored_jwt_secret(scratch().file("jwt", data))
    assert result is None or len(result.secret) == 32
    return result is None


def network_key(data: bytes) -> object:
    """Return the file of the network key."""
    config: Any = SimpleNamespace(priv_raw=None, priv_path=scratch().file("key", data))
    return len(load_identity(config).secret)


def processes(data: bytes) -> object:
    """Return the list of a node's processes in its runtime directory."""
    scratch().file(PROCESSES, data)
    return min(3, len(read_processes(scratch().folder)))


def profile(data: bytes) -> object:
    """Return the request for a profile, and the profile of a process."""
    files = ProfileFiles(scratch().folder)
    scratch().file(_REQUEST_NAME, data)
    scratch().file(_ANSWER_NAME, data)
    return files.read_request() is None, files.read_answer(1, "x") is None


def dependency_set(data: bytes) -> object:
    """Return the file of `interop.dependency-set`."""
    return min(3, len(_dependencies_of_file(scratch().file("set", data), 901).chains))


def sequencer_state(data: bytes) -> object:
    """Return the file that keeps what admin calls set about the sequencer, beside the processes of a node."""
    return SequencerStateFile(scratch().file("sequencer", data)).load() == SequencerState()


def archive_entry(data: bytes) -> object:
    """Return an entry of an archive of L1 data, compressed or not: who reads it verifies it."""
    name = "entry.gz" if data[:1] == b"\x1f" else "entry"
    scratch().file(name, data)
    try:
        result = _read(scratch().folder / name, MAX_ENTRY)
    except (ValueError, zlib.error) as error:
        return type(error).__name__
    assert len(result) <= MAX_ENTRY
    return "entry"


def metrics_file(data: bytes) -> object:
    """Return the metrics of a process: each line that is served is a line of one process, and has its label once."""
    texts = {"l1": data.decode("utf-8", "replace"), "p2p": _METRICS.decode()}
    merged = merge_expositions(texts, {"up"})
    assert _METRICS.splitlines()[-1] in merged.replace('process="p2p",', "").encode()
    return min(9, merged.count("\n"))


def tls_files(data: bytes) -> None:
    """CA, certificate and key for the remote signer, of which the first byte chooses the one that is damaged."""
    parts = list(_tls_parts())
    parts[data[0] % len(parts) if data else 0] = data[1:]
    paths = [scratch().file(f"tls{number}", part) for number, part in enumerate(parts)]
    TlsFiles(SignerConfig("https://127.0.0.1:1", bytes(20), (), True, *paths)).context()


# --- databases -----------------------------------------------------------------------------------------------------


def safe_heads(data: bytes) -> object:
    """Return the database of safe heads."""
    store = SafeHeadStore(scratch().file("safe", data), rollup())
    try:
        store.find(FindSafeHeads(5))
        store.write(_entry(70))
        return store.at_l1(60) is None
    finally:
        store.close()


def peerstore(data: bytes) -> object:
    """Return the peer store."""
    store = PeerStore(scratch().file("peers", data))
    try:
        store.load_gater()
        for peer in store.peers():
            store.addresses(peer)
            store.record(peer, PeerScores), store.record(peer, PeerMetadata), store.record(peer, IdentifyRecord)
        store.collect_garbage()
        return store.problem is None
    finally:
        store.close()


def node_database(data: bytes) -> object:
    """Return the database of nodes that were discovered."""
    store = NodeDatabase(scratch().file("nodes", data))
    try:
        result = store.nodes(), store.local_enr(_STRANGER_RECORD.node_id)
        return len(result[0]), result[1] is None, store.problem is None
    finally:
        store.close()


def signed_blocks(data: bytes) -> object:
    """Return the file of signed blocks: a block is decided about whatever the file holds."""
    store = SignedBlocksFile(GENESIS, scratch().file("signed", data))
    try:
        request = SigningRequest(_block(9, 1), _block(8, 0)._replace(fate=BlockFate.ANCESTOR), 8)
        return store.decide(request, lambda number: None) is None, store.problem is None
    finally:
        store.close()


def _entry(number: int) -> SafeHeadEntry:
    return SafeHeadEntry(BlockId(number, b"\x01" * 32), BlockId(2 * number, b"\x02" * 32))


def _block(number: int, branch: int) -> BlockRecord:
    block_hash, parent = bytes((number, branch)) * 16, bytes((number - 1, 0)) * 16
    return BlockRecord(number, block_hash, parent, BlockId(5, bytes(32)))


def _make_safe_heads(path: str) -> None:
    store = SafeHeadStore(path, rollup())
    for number in range(50, 60):
        store.write(_entry(number))
    store.close()


def _make_peerstore(path: str) -> None:
    store = PeerStore(path)
    store.save_identity(PEER)
    for number in range(5):
        peer = NetworkIdentity(bytes((number + 2,)) * 32).peer_id
        store.add_addresses(peer, [tcp_multiaddr("192.0.2.1", 9222)], 1e9)
        store.set_record(peer, PeerScores(), 1e9)
        store.set_record(peer, PeerMetadata("enr:-a", 901))
    store.close()


def _make_nodes(path: str) -> None:
    store = NodeDatabase(path)
    store.update_nodes([_STRANGER_RECORD], [])
    store.save_local_enr(_STRANGER_RECORD)
    store.close()


def _make_signed_blocks(path: str) -> None:
    store = SignedBlocksFile(GENESIS, path)
    for number in range(6, 9):
        parent = _block(number - 1, 0)._replace(fate=BlockFate.ANCESTOR)
        store.decide(SigningRequest(_block(number, 0), parent, 5), lambda number: None)
    store.close()


@cache
def _database(name: str) -> bytes:
    makers = {
        **{"safe": _make_safe_heads, "peers": _make_peerstore, "nodes": _make_nodes, "signed": _make_signed_blocks}
    }
    return scratch().made(name, makers[name])


def _seed(name: str) -> Callable[[Random], bytes]:
    return lambda chance: _database(name)


_REQUEST_NAME, _ANSWER_NAME = "request.profile", "1.x.profile"
MAX_ENTRY = 100_000
_METRICS = b'# HELP up Is it.\n# TYPE up gauge\nup 1\n# TYPE a gauge\na{b="c\\"d"} 5e-3\n'


@cache
def _tls_parts() -> tuple[bytes, bytes, bytes]:
    """Return a CA, a certificate and its key in PEM form."""
    key = ec.derive_private_key(5, ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fuzz")])
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 5, start, end)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    plain = serialization.NoEncryption()
    return pem, pem, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def _tls(chance: Random) -> bytes:
    number = chance.randrange(len(_tls_parts()))
    return bytes((number,)) + _tls_parts()[number]


def _archived(chance: Random) -> bytes:
    if chance.random() < 0.3:
        return chance.randbytes(60)
    deflater = zlib.compressobj(chance.choice((0, 1, 9)), wbits=zlib.MAX_WBITS | 16)
    return deflater.compress(bytes(chance.choice((10, 1000, 2 * MAX_ENTRY)))) + deflater.flush()


_ASKED = ProfileRequest(1, "cpu", 5.0)
_PROFILE = Profile("cpu", (("cpu", "nanoseconds"),), (Sample((("a", "b", 5),), (5,)),), comments=("c",))
_PROCESS = {"role": "l1", "copy": 0, "pid": 2**22 + 1, "incarnation": 1, "started": 1.5, "start_ticks": 5}
FILE, STORE = "who may write the file", (StoreError,)
TARGETS = {
    "admin-state": FuzzTarget(
        *(FILE, admin_state, one_of([b'{"sequencerStarted":true}', b"{}"]), (StoreFailedError,), JSON_TOKENS)
    ),
    "jwt-secret": FuzzTarget(FILE, jwt_secret, one_of([b"0x" + b"ab" * 32, b" " + b"cd" * 32 + b"\n"]), (OptionError,)),
    "network-key": FuzzTarget(FILE, network_key, one_of([b"0x" + b"ab" * 32, b"01" * 32]), (IdentityFileError,)),
    "process-list": FuzzTarget(FILE, processes, one_of([orjson.dumps([_PROCESS])]), (), JSON_TOKENS),
    "profile-file": FuzzTarget(FILE, profile, one_of([*map(msgspec.msgpack.encode, (_ASKED, _PROFILE))])),
    "dependency-set": FuzzTarget(
        FILE, dependency_set, one_of([b'{"dependencies":{"901":{},"902":{}}}']), (OptionError,), JSON_TOKENS
    ),
    "sequencer-state": FuzzTarget(
        FILE, sequencer_state, one_of([b'{"active":true}', b'{"recover":false}']), (), JSON_TOKENS
    ),
    "archive-entry": FuzzTarget(FILE, archive_entry, _archived),
    "metrics-file": FuzzTarget(FILE, metrics_file, one_of([_METRICS])),
    "tls-files": FuzzTarget(FILE, tls_files, _tls, (TlsFileError,)),
    "safe-heads": FuzzTarget(FILE, safe_heads, _seed("safe"), (StoreError, HistoryUnavailableError)),
    "peerstore": FuzzTarget(FILE, peerstore, _seed("peers"), STORE),
    "node-database": FuzzTarget(FILE, node_database, _seed("nodes"), STORE),
    "signed-blocks": FuzzTarget(FILE, signed_blocks, _seed("signed"), STORE),
}
"""The targets by name."""
