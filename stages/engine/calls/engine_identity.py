"""Which engine it is and which forks it knows, by what it says of itself [ENG41, ENG42]."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rollup_node.stages.messages.engine import ForkDoubt
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.table import FORKS, Fork
from rollup_node.stages.protocol.texts import one_line

KINDS = {"reth": "reth", "erigon": "erigon", "geth": "geth", "go-ethereum": "geth"}
"""Kinds of engines as in `l2.enginekind`, by a part of the engine's name."""

CODES = {"GE": "geth", "RH": "reth", "EG": "erigon"}
"""The same by the code of `engine_getClientVersionV1`, for a name that is none of them."""

FIRST_RELEASES: Mapping[str, Mapping[str, tuple[int, ...] | None]] = {"lagoon": {"reth": (2, 10, 0), "geth": None}}
"""By fork and kind, the first release of op-reth and op-geth that has the fork's time of the built-in networks; None
where none has it, as op-geth's support has ended."""

MAX_TEXT = 100
NEVER = 1 << 63
"""A time, in seconds, that is none."""
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class EngineIdentity(msgspec.Struct, frozen=True):
    """The name of an engine and its version, as it writes them; `code` is that of execution-apis, empty if unknown."""

    name: str
    version: str
    code: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def kind(self) -> str | None:
        """Its kind as in `l2.enginekind`; None for an engine of another kind [ENG41]."""
        lowered = self.name.lower()
        return next((kind for part, kind in KINDS.items() if part in lowered), CODES.get(self.code))

    @property
    def release(self) -> tuple[int, ...] | None:
        """The numbers of its version; None for a build without a release."""
        result = _VERSION.search(self.version)
        numbers = () if result is None else tuple(map(int, result.groups()))
        return numbers if any(numbers) else None


def identity_of_versions(answer: Any) -> EngineIdentity | None:
    """Return the first identity in an answer to `engine_getClientVersionV1`; None for another form."""
    if not isinstance(answer, list) or not answer or not isinstance(answer[0], dict):
        return None
    name, version, code = (answer[0].get(key) for key in ("name", "version", "code"))
    if not isinstance(name, str) or not name:
        return None
    shown = version if isinstance(version, str) else ""
    return EngineIdentity(_cut(name), _cut(shown), code if isinstance(code, str) and code in CODES else "")


def identity_of_text(answer: Any) -> EngineIdentity | None:
    """Return the identity in a `web3_clientVersion` such as `op-reth/v2.10.0/x86_64`; None for another form."""
    if not isinstance(answer, str) or not answer.strip():
        return None
    name, _, rest = answer.partition("/")
    return EngineIdentity(_cut(name), _cut(rest.partition("/")[0].removeprefix("v")))


def _cut(text: str) -> str:
    return one_line(text.strip())[:MAX_TEXT]


def fork_doubts(
    rollup: RollupConfig, identity: EngineIdentity | None, chain_config: Any, network: str, now: float
) -> Iterator[ForkDoubt]:
    """Return a doubt for each fork after `now`, in Unix seconds, that the engine or the configuration does not know.

    `chain_config` is the answer to `debug_chainConfig`, None without one; `network` the built-in network with the
    chain's fork times, empty for none [ENG42]."""
    for fork in FORKS:
        start = rollup.fork_times.get(fork.name)
        if not _concerns_engines(fork):
            continue
        theirs = _configured_time(chain_config, fork)
        if start is None and theirs is not None and now < theirs < NEVER:
            yield ForkDoubt(fork.name, theirs, "the rollup config has no time of it")
        if start is None or start <= now:
            continue
        release = FIRST_RELEASES.get(fork.name, {}) if network else {}
        reason = _doubt(fork, start, identity, chain_config, release)
        if reason is not None:
            yield ForkDoubt(fork.name, start, reason)


def _concerns_engines(fork: Fork) -> bool:
    """Return whether the fork changes L2 blocks: Delta, for one, changes batches alone."""
    return fork.l2 is not None or fork.activation is not None


def _configured_time(chain_config: Any, fork: Fork) -> int | None:
    theirs = chain_config.get(f"{fork.name}Time") if isinstance(chain_config, dict) else None
    return theirs if isinstance(theirs, int) else None


def _doubt(
    fork: Fork,
    start: int,
    identity: EngineIdentity | None,
    chain_config: Any,
    releases: Mapping[str, tuple[int, ...] | None],
) -> str | None:
    key, theirs = f"{fork.name}Time", _configured_time(chain_config, fork)
    if theirs is not None:
        return None if theirs == start else f"the engine's configuration has {key} {theirs}, not {start}"
    kind = None if identity is None else identity.kind
    if kind in releases and kind is not None:
        first = releases[kind]
        if first is None:
            return f"{identity} has no release that has it: op-geth's support has ended, use op-reth"
        if identity is not None and identity.release is not None:
            # A release knows its networks, whatever its chain config shows.
            wanted = ".".join(map(str, first))
            return f"{identity} does not have it, upgrade to {wanted}" if identity.release < first else None
    if isinstance(chain_config, dict):
        return f"the engine's configuration has no {key}"
    return None
