"""A folder of data from endpoints, which other processes, later runs and other machines read before they ask anybody.

Nothing in it is trusted: who reads an entry verifies it as if it came from an endpoint."""

import asyncio
import os
import stat
import zlib
from itertools import count
from pathlib import Path

from rollup_node.stages.io.log.lasting_conditions import LastingCondition, RepeatedWarnings
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.types import Hash

COMPRESSED = ".gz"
_GZIP = zlib.MAX_WBITS | 16
_LEVEL = 1


class Archive:
    """The entries below a folder by name, of which `.gz` ones are compressed; failures are warnings with a code."""

    def __init__(self, folder: str, logger: Logger) -> None:
        self._folder, self._logger = Path(folder), logger
        self._damages, self._unwritable = RepeatedWarnings(logger), LastingCondition(logger)
        self._numbers = count()

    async def read(self, name: str, most: int) -> bytes | None:
        """Return an entry of at most `most` bytes; None if there is none."""
        try:
            return await asyncio.to_thread(_read, self._folder / name, most)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, zlib.error) as error:
            self.damaged(name, str(error))
            return None

    async def keep(self, name: str, data: bytes) -> None:
        """Write an entry, in place of one that is there."""
        target = self._folder / name
        temporary = target.with_name(f".{target.name}.{os.uname().nodename}.{os.getpid()}.{next(self._numbers)}")
        try:
            await asyncio.to_thread(_write, temporary, target, data)
        except OSError as error:
            text = "what is fetched cannot be kept in the archive"
            self._unwritable.report(Code.ARCHIVE_UNWRITABLE, text, folder=str(self._folder), error=error.strerror)
        else:
            self._unwritable.end("the archive can be written again", folder=str(self._folder))

    def damaged(self, name: str, reason: str) -> None:
        """Warn of an entry that is not what its name says."""
        code, path = Code.ARCHIVE_DAMAGED, str(self._folder / name)
        text = "an entry of the archive is damaged and ignored"
        self._damages.warn(code.text, text, code=code.text, entry=path, reason=reason, do=code.remedy)


def _read(path: Path, most: int) -> bytes:
    # A named pipe would be waited for.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no file")
        data = file.read(most + 1)
    if path.suffix == COMPRESSED:
        inflater = zlib.decompressobj(_GZIP)
        data = inflater.decompress(data, most + 1)
        if len(data) <= most and not inflater.eof:
            raise ValueError("it is incomplete")
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data


def _write(temporary: Path, target: Path, data: bytes) -> None:
    if target.suffix == COMPRESSED:
        deflater = zlib.compressobj(_LEVEL, wbits=_GZIP)
        data = deflater.compress(data) + deflater.flush()
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.write_bytes(data)
        os.replace(temporary, target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


_NUMBERS = 1_000


def number_name(chain_id: int, number: int) -> str:
    """Return the entry with the hash of a block, 0x and 64 hex digits."""
    return f"l1-{chain_id}/numbers/{number // _NUMBERS:09d}/{number:012d}"


def block_name(chain_id: int, block_hash: Hash) -> str:
    """Return the entry with the response to eth_getBlockByNumber with full transactions."""
    return f"l1-{chain_id}/blocks/{_spread(block_hash)}.json.gz"


def receipts_name(chain_id: int, block_hash: Hash) -> str:
    """Return the entry with the response to a method for all receipts of a block."""
    return f"l1-{chain_id}/receipts/{_spread(block_hash)}.json.gz"


def blob_name(versioned_hash: Hash) -> str:
    return f"blobs/{_spread(versioned_hash)}"


def _spread(name: Hash) -> str:
    """By the last bytes: the first one of a versioned hash is always the same."""
    text = name.hex()
    return f"{text[-2:]}/{text[-4:-2]}/{text}"
