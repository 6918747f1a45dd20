"""Which chains of a supernode are verified together, and from when on [SNO5]."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rollup_node.node.options.values import Values
from rollup_node.node.setup.plan import NodeConfigs, NodePlan
from rollup_node.stages.interop.config import ChainEngine, InteropConfig, InteropProcessConfig
from rollup_node.stages.protocol.config import KECCAK_COMMITMENT
from rollup_node.stages.protocol.forks.schedule import lagoon_from
from rollup_node.stages.protocol.interop_messages import MESSAGE_EXPIRY_WINDOW

STORE = "interop.db"


class InteropPlan(NamedTuple):
    """The verification of messages between the chains `members` from the time `activation` on, in seconds."""

    members: tuple[int, ...]
    activation: int
    expiry_window: int
    backfill_depth: int
    store_path: Path


def interop_problems(plans: Sequence[NodePlan], activation: int) -> Iterator[str]:
    """Yield what keeps the chains from being verified together; `activation` is the time that is given, 0 for none."""
    sets = {plan.l2_chain_id: _members(plan) for plan in plans if activation or _begins(plan) is not None}
    sets = {chain: members for chain, members in sets.items() if len(members) > 1}
    running = {plan.l2_chain_id for plan in plans}
    for chain, members in sets.items():
        missing = sorted(set(members) - running)
        if missing:
            yield (
                f"chain {chain} executes messages of chain {', '.join(map(str, missing))}, which --chains lacks: add it"
                ", or give the set that is meant with --dependency-set"
            )
    if len({frozenset(members) for members in sets.values()}) > 1:
        shown = ", ".join(f"chain {chain}: {'+'.join(map(str, sorted(members)))}" for chain, members in sets.items())
        yield f"the chains belong to several dependency sets ({shown}): run a supernode for each"
    verified = {chain for members in sets.values() for chain in members}
    if activation and not verified:
        yield (
            "interop.activation-timestamp: no chain of --chains executes messages of another, so nothing would be"
            " verified: give the set with --dependency-set"
        )
    for plan in plans:
        alt_da = plan.chain.config.alt_da
        if plan.l2_chain_id in verified and alt_da is not None and alt_da.commitment_type == KECCAK_COMMITMENT:
            yield (
                f"chain {plan.l2_chain_id} has Alt-DA inputs that can be challenged, so its blocks cannot be verified:"
                " run the chains of its set without verification, each in a node of its own"
            )
    times = {plan.l2_chain_id: _begins(plan) for plan in plans if plan.l2_chain_id in verified}
    if not activation and len(set(times.values())) > 1:
        shown = ", ".join(f"chain {chain}={'never' if time is None else time}" for chain, time in times.items())
        yield f"mismatched Lagoon activation timestamps: {shown}"


def plan_interop(plans: Sequence[NodePlan], own: Values, data_dir: Path) -> InteropPlan | None:
    """Return what is verified, None where no two chains execute messages of each other."""
    activation = own["interop.activation-timestamp"]
    for plan in plans:
        members, begins = _members(plan), _begins(plan)
        if len(members) > 1 and (activation or begins is not None):
            chain = plan.chain.dependencies
            window = (chain.message_expiry_window if chain is not None else 0) or MESSAGE_EXPIRY_WINDOW
            depth = int(own["interop.log-backfill-depth"])
            return InteropPlan(members, activation or begins or 0, window, depth, data_dir / STORE)
    return None


def interop_config(plan: InteropPlan, chains: Mapping[str, NodeConfigs]) -> InteropProcessConfig:
    """Return the configuration of the interop process."""
    members = {int(group): chain.engine for group, chain in chains.items() if int(group) in plan.members}
    rollups = {chain_id: engine.rollup for chain_id, engine in members.items()}
    engines = {id_: ChainEngine(engine.url, engine.jwt_secret, engine.timeout) for id_, engine in members.items()}
    verified = InteropConfig(rollups, plan.activation, plan.expiry_window)
    return InteropProcessConfig(verified, engines, str(plan.store_path), plan.backfill_depth)


def _members(plan: NodePlan) -> tuple[int, ...]:
    return () if plan.chain.dependencies is None else plan.chain.dependencies.chains


def _begins(plan: NodePlan) -> int | None:
    return lagoon_from(plan.chain.config.fork_times)
