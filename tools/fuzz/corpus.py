"""The inputs of each target that are kept in the repository: a text file with one input a line, in base64."""

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path("tests") / "fuzz_seeds"
"""Below the root of a checkout."""

MAX_INPUT = 3000
"""Bytes of an input that is kept."""


class CorpusError(ValueError):
    """A file of inputs is malformed; the text says where."""


def read_corpus(folder: Path, target: str) -> list[bytes]:
    """Return the inputs kept for a target, none without a file. Raises CorpusError and OSError."""
    path = folder / f"{target}.txt"
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            found.append(base64.b64decode(line, validate=True))
        except (binascii.Error, ValueError):
            raise CorpusError(f"{path.name}, line {number}: not base64") from None
    return found


def write_corpus(folder: Path, target: str, inputs: Iterable[bytes]) -> None:
    """Write the inputs of a target, each once, the shortest first. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [base64.b64encode(data).decode() for data in sorted(set(inputs), key=lambda data: (len(data), data))]
    (folder / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines))
