"""What a node says of itself at the start: its chain with the next fork, its endpoints, and the options that are set
[LOG18]."""

from collections.abc import Iterator
from datetime import UTC, datetime

from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import Values
from rollup_node.node.setup.chain import ChosenChain
from rollup_node.node.setup.notices import Notice
from rollup_node.stages.io.endpoint_errors import endpoint_name
from rollup_node.stages.io.log import Level
from rollup_node.stages.protocol.forks.table import FORKS
from rollup_node.stages.rpc.progress import duration

MAX_VALUE = 100
"""Characters of an option's value that are shown."""

HIDDEN = "(set)"


def introduction(values: Values, chain: ChosenChain, now: float) -> list[Notice]:
    """The lines; `now` in Unix seconds. URLs are shown as host and port, since the rest may be a key."""
    return [
        Notice(Level.INFO, "chain", _chain(chain, now)),
        Notice(Level.INFO, "endpoints", dict(_endpoints(values))),
        Notice(Level.INFO, "options that are set", {name: _shown(values, name) for name in values.names_given()}),
    ]


def _chain(chain: ChosenChain, now: float) -> dict[str, object]:
    times = chain.config.fork_times
    active = [fork.name for fork in FORKS if times.get(fork.name, now + 1) <= now]
    coming = sorted((time, fork.name) for fork in FORKS if (time := times.get(fork.name, 0)) > now)
    found: dict[str, object] = {
        "network": chain.name,
        "l1_chain": chain.config.l1_chain_id,
        "l2_chain": chain.config.l2_chain_id,
        "fork": active[-1] if active else "bedrock",
        "next_fork": "none is scheduled",
    }
    if coming:
        time, name = coming[0]
        found["next_fork"] = (
            f"{name} in {duration(time - now)}, at {datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%SZ}"
        )
    return found


def _endpoints(values: Values) -> Iterator[tuple[str, str]]:
    for label, names in (
        ("l1", ("l1",)),
        ("beacon", ("l1.beacon", "l1.beacon-fallbacks")),
        ("engine", ("l2",)),
        ("follows", ("l2.follow.source",)),
    ):
        urls = [url for name in names for url in _list(values[name])]
        if urls:
            yield label, ", ".join(map(endpoint_name, urls))
    yield "workers", str(values["workers"])


def _shown(values: Values, name: str) -> str:
    if OPTIONS[name].secret:
        return HIDDEN
    parts = values.text(name).split(",")
    shown = ",".join(endpoint_name(part.strip()) if "://" in part else part for part in parts)
    return shown if len(shown) <= MAX_VALUE else f"{shown[:MAX_VALUE]}..."


def _list(value: object) -> list[str]:
    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, tuple | list) else [str(value)]
