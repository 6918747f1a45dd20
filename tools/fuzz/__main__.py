"""`python -m rollup_node.tools.fuzz TARGET`: feeds a parser with damaged bytes until the time is over or it fails.

With `--atheris` the coverage-guided fuzzer of that name runs it, if it is installed; otherwise good inputs are damaged
at random, and the seed makes the run repeatable."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from rollup_node.tools.fuzz.mutations import mutated
from rollup_node.tools.fuzz.targets import TARGETS, FuzzTarget

SEEDS = 40


def main(argv: Sequence[str] | None = None) -> int:
    """0 when nothing failed; an input that fails is written to a file and its error raised."""
    parser = argparse.ArgumentParser(prog="python -m rollup_node.tools.fuzz", description=__doc__)
    parser.add_argument("target", choices=tuple(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", type=Path, default=Path("."), help="folder for an input that fails")
    parser.add_argument("--atheris", action="store_true", help="use atheris; flags of its own may follow")
    given, rest = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    target = TARGETS[given.target]
    if given.atheris:
        return _with_atheris(target, rest)
    count = run(given.target, target, given.seconds, given.seed, given.failures)
    print(f"{given.target}: {count} inputs, none failed")
    return 0


def run(name: str, target: FuzzTarget, seconds: float, seed: int, failures: Path) -> int:
    """How many inputs were tried in the time."""
    chance = Random(seed)
    good = [target.seed(chance) for _ in range(SEEDS)]
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = good[count] if count < SEEDS else mutated(chance, chance.choice(good), good)
        count += 1
        try:
            target.run(data)
        except BaseException:
            path = failures / f"{name}-{seed}-{count}.bin"
            path.write_bytes(data)
            print(f"{name}: input {count} fails, it is in {path}", file=sys.stderr)
            raise
    return count


def _with_atheris(target: FuzzTarget, flags: Sequence[str]) -> int:
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: pip install atheris, or leave --atheris out", file=sys.stderr)
        return 1
    atheris.Setup([sys.argv[0], *flags], target.run)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
