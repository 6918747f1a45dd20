"""Compares the chain with the built-in network that it is [OPT82].

A time that this node lacks, or has differently, and another dependency set take it off the chain."""

from collections.abc import Iterator

from rollup_node.node.setup.chain import ChosenChain
from rollup_node.node.setup.networks import BuiltInNetwork, network_of_chain, network_of_config
from rollup_node.node.setup.notices import Notice
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import utc_time
from rollup_node.stages.protocol.forks.schedule import DEPENDENCY_FORK, dependency_set_needed_from
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.texts import duration


def schedule_notices(chain: ChosenChain, now: float) -> list[Notice]:
    """Return a warning for each fork, flag or dependency set that is not the network's; `now` in Unix seconds."""
    known = network_of_config(chain.config)
    found = [] if known is None else [*_forks(chain, known, now), *_dependencies(chain, known)]
    return [*found, *_members(chain)]


def _warning(text: str, option: str) -> Notice:
    fields = {"code": Code.FORK_SCHEDULE.text, "option": option, "do": Code.FORK_SCHEDULE.remedy}
    return Notice(Level.WARN, text, fields)


def _forks(chain: ChosenChain, known: BuiltInNetwork, now: float) -> Iterator[Notice]:
    """Yield a fork that only the file has is newer than the built-in network, and right."""
    ours, theirs = chain.config, known.config
    for fork in FORK_NAMES:
        start, wanted = ours.fork_times.get(fork), theirs.fork_times.get(fork)
        if wanted is None or start == wanted:
            continue
        left = f", in {duration(wanted - now)}" if wanted > now else ""
        text = f"{fork} {_here(start)}, and on {known.name} at {utc_time(wanted)}{left}"
        yield _warning(text, f"--override.{fork}={wanted}")
    if ours.keep_karst_upgrade_gas is not theirs.keep_karst_upgrade_gas:
        ours_text, text = (str(value).lower() for value in (ours.keep_karst_upgrade_gas, theirs.keep_karst_upgrade_gas))
        option = f"--override.keep-karst-upgrade-gas={text}"
        yield _warning(f"keep_karst_upgrade_gas is {ours_text} here, and {text} on {known.name}", option)


def _dependencies(chain: ChosenChain, known: BuiltInNetwork) -> Iterator[Notice]:
    own = chain.dependencies
    if own is not None and sorted(own.chains) != sorted(known.dependencies):
        text = f"the dependency set is {_listed(own.chains)} here, and {_listed(known.dependencies)} on {known.name}"
        yield _warning(text, "--interop.dependency-set")


def _members(chain: ChosenChain) -> Iterator[Notice]:
    """All members of a dependency set have one Lagoon time [OPT81]."""
    if chain.dependencies is None or len(chain.dependencies.chains) < 2:
        return
    start = dependency_set_needed_from(chain.config.fork_times)
    for chain_id in chain.dependencies.chains:
        other = None if chain_id == chain.config.l2_chain_id else network_of_chain(chain_id)
        if other is None:
            continue
        wanted = dependency_set_needed_from(other.config.fork_times)
        if wanted is not None and wanted != start:
            text = f"{DEPENDENCY_FORK} {_here(start)}, and on {other.name} of the dependency set at {utc_time(wanted)}"
            yield _warning(text, f"--override.{DEPENDENCY_FORK}={wanted}")


def _here(start: int | None) -> str:
    return "is not scheduled here" if start is None else f"begins at {utc_time(start)} here"


def _listed(chains: tuple[int, ...]) -> str:
    return ", ".join(map(str, sorted(chains)))
