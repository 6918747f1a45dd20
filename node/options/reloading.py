"""Which options a running node takes over when it reads its options again [LIF35]."""

from typing import NamedTuple

from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.supernode import is_shared
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import NodeOptions, Values
from rollup_node.stages.blobs.config import BlobsConfig, DaServerConfig
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.p2p.config import SignerConfig

RELOADED_CONFIGS = (L1Config, BlobsConfig, DaServerConfig, SignerConfig)
"""All options of these configurations are taken over."""
RELOADED = frozenset(
    {
        *("log.level", "rpc.corsdomain", "rpc.jwt-secret", "rpc.vhosts"),
        *("rpc.ready-l1-lag", "rpc.ready-safe-age", "rpc.ready-unsafe-age"),
        *("l2.jwt-secret", "l2.jwt-secret-encoded", "l2.engine-rpc-timeout", "sequencer.max-safe-lag"),
        *("conductor.rpc", "conductor.rpc-timeout"),
        *("p2p.static", "p2p.bootnodes", "p2p.netrestrict", "p2p.sequencer.key", "p2p.sequencer.key.path"),
        *("p2p.ban.duration", "p2p.ban.peers", "p2p.ban.threshold", "p2p.gossip.timestamp.threshold"),
    }
)
"""Others that are taken over."""


def is_reloaded(option: AnyOption) -> bool:
    """Whether a running node takes over a new value of the option."""
    field = option.config_field
    return option.name in RELOADED or (field is not None and field[0] in RELOADED_CONFIGS)


class Change(NamedTuple):
    """An option whose value differs: how it is named, and whether the new value is taken over."""

    name: str
    is_reloaded: bool


def changes(old: NodeOptions, new: NodeOptions) -> list[Change]:
    """Return the options whose value differs, or that only one of the two gives.

    Those of a chain of a supernode are named `vn.CHAIN.NAME`; a chain that only one has is a change of `chains`."""
    result = [Change(name, False) for name in _differing(old.own, new.own)]
    for group, values in old.chains.items():
        for name in _differing(values, new.chains.get(group, values)):
            shown = f"vn.{group}.{name}" if group and not is_shared(name) else name
            result.append(Change(shown, is_reloaded(OPTIONS[name])))
    return list(dict.fromkeys(result))


def _differing(old: Values, new: Values) -> list[str]:
    return [name for name in old.names if (old.given(name), old[name]) != (new.given(name), new[name])]


def with_reloaded(old: NodeOptions, new: NodeOptions) -> NodeOptions:
    """Return the old options, with the new values of those that are taken over."""
    chains = {group: _mixed(values, new.chains.get(group, values)) for group, values in old.chains.items()}
    return old._replace(chains=chains)


def _mixed(old: Values, new: Values) -> Values:
    sources = {name: new if is_reloaded(option) else old for name, option in OPTIONS.items()}
    return Values({name: source.fields[name] for name, source in sources.items() if name in source.fields})
