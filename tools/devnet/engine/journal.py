"""A journal of accepted payloads and forkchoice states, which a restarted engine replays."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

FILE_NAME = "accepted-blocks.jsonl"


def drop_last_blocks(directory: Path, count: int) -> None:
    """Removes the last `count` payloads, and all that follows them, from the journal of an engine that is stopped, as
    if a crash had lost them."""
    path = directory / FILE_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    payloads = [at for at, line in enumerate(lines) if b'"executionPayload"' in line]
    if len(payloads) > count:
        path.write_bytes(b"".join(lines[: payloads[-count]]))


class Journal:
    """One JSON object per line in the engine's data directory. Only the last line can be cut off, by a crash."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / FILE_NAME
        self._file = self._path.open("ab", buffering=0)

    def entries(self) -> Iterator[dict[str, Any]]:
        """The entries, oldest first; an incomplete last line is removed from the file."""
        with self._path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    self._file.truncate(self._path.stat().st_size - len(line))
                    return
                yield orjson.loads(line)

    def insert(self, payload: ExecutionPayload) -> None:
        """Appends an accepted payload."""
        self._append(envelope_to_json(payload))

    def follow(self, head: Hash, safe: Hash, finalized: Hash) -> None:
        """Appends an accepted forkchoice state."""
        hashes = {"head": head, "safe": safe, "finalized": finalized}
        self._append({f"{name}BlockHash": to_hex(value) for name, value in hashes.items()})

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _append(self, entry: dict[str, Any]) -> None:
        self._file.write(orjson.dumps(entry) + b"\n")
