"""`python -m rollup_node.tools.fuzz TARGET`: feeds mutated inputs to a parser until the time is up or the parser fails.

With `--atheris` the coverage-guided fuzzer atheris runs the target, where it is installed. Otherwise valid inputs are
mutated at random, and `--seed` makes the run repeatable."""

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
    """Returns 0 when no input fails. A failing input is written to a file and its error is raised."""
    parser = argparse.ArgumentParser(prog="python -m rollup_node.tools.fuzz", description=__doc__)
    parser.add_argument("target", choices=tuple(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", type=Path, default=Path("."), help="folder for a failing input")
    parser.add_argument("--atheris", action="store_true", help="run with atheris; its own flags may follow")
    given, rest = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    target = TARGETS[given.target]
    if given.atheris:
        return _with_atheris(target, rest)
    count = run(given.target, target, given.seconds, given.seed, given.failures)
    print(f"{given.target}: {count} inputs, none failed")
    return 0


def run(name: str, target: FuzzTarget, seconds: float, seed: int, failures: Path) -> int:
    """Runs a target for `seconds`; the number of inputs. Raises the error of the first input that fails."""
    chance = Random(seed)
    good = [target.seed(chance) for _ in range(SEEDS)]
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = good[count] if count < SEEDS else mutated(chance, chance.choice(good), good)
        count += 1
        try:
            target.run(data)
        except BaseException:  # MemoryError, RecursionError and interrupts as well: the input is worth keeping
            path = failures / f"{name}-{seed}-{count}.bin"
            path.write_bytes(data)
            print(f"{name}: input {count} failed, written to {path}", file=sys.stderr)
            raise
    return count


def _with_atheris(target: FuzzTarget, flags: Sequence[str]) -> int:
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: pip install atheris, or omit --atheris", file=sys.stderr)
        return 1
    atheris.Setup([sys.argv[0], *flags], target.run)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
