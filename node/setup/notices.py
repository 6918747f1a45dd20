"""What a node logs once at its start: notices about options, its introduction, and what is wrong with its forks."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from yarl import URL

from rollup_node.node.options.rules import worker_count
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import Values
from rollup_node.node.setup.chain import ChosenChain
from rollup_node.node.setup.networks import BuiltInNetwork, network_of_chain, network_of_config, registry_version
from rollup_node.node.supervisor.metrics import SUPERVISOR
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.log_formats import formatter
from rollup_node.node.system.log_pipes import Output
from rollup_node.stages.io.http.endpoint_errors import endpoint_name, parsed_url
from rollup_node.stages.io.http.proxies import proxy_name, proxy_of
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields, FieldValue
from rollup_node.stages.protocol.config import utc_time
from rollup_node.stages.protocol.forks.bundles import SELECTABLE
from rollup_node.stages.protocol.forks.schedule import LAGOON, lagoon_from
from rollup_node.stages.protocol.forks.table import ENGINE_FORKS, FORK_NAMES
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.upgrade_transactions import ForkBundle, bundle_of, unconfirmed_bundles
from rollup_node.stages.rpc.status.readiness import bundle_remedy, bundle_warning
from rollup_node.stages.rpc.status.status_builder import active_fork, next_fork


class Notice(NamedTuple):
    """A line to log at the start, with its fields."""

    level: Level
    text: str
    fields: Fields = MappingProxyType({})


def log_notices(notices: Iterable[Notice], settings: NodeSettings) -> None:
    """Log the notices to the output of the node, in its format; those without a code are about options."""
    to_line = formatter(settings.log)
    output = Output(settings.log_output, lambda lines: b"", settings.log_file)
    log.configure(SUPERVISOR, settings.log.level, lambda record: output.write(to_line(record)))
    logger = log.Logger("options")
    for notice in notices:
        coded = notice.fields if notice.level > Level.WARN else {"code": Code.OPTIONS.text, **notice.fields}
        logger.write(notice.level, notice.text, coded)
    output.flush()


MAX_VALUE = 100
"""Characters of an option's value that are shown."""

HIDDEN = "(set)"
_MAY_HAVE_PROXY = (
    "l1",
    "l1.beacon",
    "l1.beacon-fallbacks",
    "l1.checkpoint.beacon",
    "l2.follow.source",
    "altda.da-server",
    "signer.endpoint",
    "conductor.rpc",
)
DAY = 86_400
MAX_SCHEDULE_DAYS = 180
"""Days after which fork times are called old: forks are announced months ahead."""


def introduction(values: Values, chain: ChosenChain, now: float, verified: bool = False) -> list[Notice]:
    """Return the lines; `now` in Unix seconds. `verified`: this node verifies the chain's messages.

    URLs are shown as host and port, since the rest may be a key."""
    return [
        Notice(Level.INFO, "chain", _chain(chain, now)),
        Notice(Level.INFO, "endpoints", dict(_endpoints(values))),
        *_proxies(values),
        Notice(Level.INFO, "options that are set", {name: _shown(values, name) for name in values.names_given()}),
        *_end(chain),
        *_schedule_age(values, now),
        *_bundles(values, chain, now),
        *(() if verified else local_safe(values, chain)),
    ]


def _end(chain: ChosenChain) -> Iterator[Notice]:
    fork = chain.config.foreign_fork
    if fork is not None:
        fields = {"fork": fork.name, "since": utc_time(fork.time), "last_block": chain.config.last_block}
        needed = {
            f"engine_needs_{engine_fork.name}_since": utc_time(chain.config.fork_times[engine_fork.name])
            for engine_fork in ENGINE_FORKS
            if engine_fork.name in chain.config.fork_times
        }
        text = "the network left the OP Stack's rules: it is derived up to the last block before"
        yield Notice(Level.WARN, text, {"code": Code.NETWORK_LEFT.text, **fields, **needed})


def _schedule_age(values: Values, now: float) -> Iterator[Notice]:
    """Yield that the fork times of built-in networks are old; a rollup.json has its own."""
    date = registry_version().checked
    days = int((now - datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()) / DAY)
    if values["network"] and days > MAX_SCHEDULE_DAYS:
        text = "the fork times of built-in networks are old"
        remedy = "install a newer rollup-node, or give newer fork times with --override.FORK or --rollup.config"
        yield Notice(Level.WARN, text, {"registry": date, "days": days, "remedy": remedy})


def bundles_in_doubt(values: Values, chain: ChosenChain) -> tuple[ForkBundle, ...]:
    """Return the unconfirmed bundles of a node that makes blocks, not of one that takes them as they are [UPG22]."""
    if values["l2.follow.source"] and not values["sequencer.enabled"]:
        return ()
    return unconfirmed_bundles(chain.config)


def _bundles(values: Values, chain: ChosenChain, now: float) -> Iterator[Notice]:
    """Yield the bundles of forks to come, or that an option gives, with their hashes [UPG22, UPG23]."""
    for fork in SELECTABLE:
        bundle = bundle_of(chain.config, fork)
        if fork in chain.config.bundles or chain.config.fork_times.get(fork, 0) > now:
            fields = {
                "fork": fork,
                "sha256": bundle.sha256,
                "found": bundle.origin,
                "confirmed_by": bundle.confirmed_by,
            }
            yield Notice(Level.INFO, "upgrade bundle", fields | {"transactions": len(bundle.transactions)})
    for item in bundles_in_doubt(values, chain):
        fields = {"code": Code.BUNDLE_UNCONFIRMED.text, "do": bundle_remedy(item.fork)}
        yield Notice(Level.WARN, bundle_warning(item, now), fields)


def local_safe(values: Values, chain: ChosenChain) -> Iterator[Notice]:
    """Yield a node whose safe heads other chains can still undo, because nobody verifies messages for it [FSR13]."""
    since = lagoon_from(chain.config.fork_times)
    chains = () if chain.dependencies is None else chain.dependencies.chains
    if since is None or len(chains) < 2 or values["l2.follow.source"] or values["interop.rpc.addr"]:
        return
    fields = {"since": utc_time(since), "dependency_set": _listed(chains), "do": Code.LOCAL_SAFE.remedy}
    yield Notice(Level.WARN, "safe heads are not verified across chains", {"code": Code.LOCAL_SAFE.text, **fields})


def _chain(chain: ChosenChain, now: float) -> dict[str, FieldValue]:
    coming = next_fork(chain.config, now)
    result: dict[str, FieldValue] = {
        "network": chain.name,
        "l1_chain": chain.config.l1_chain_id,
        "l2_chain": chain.config.l2_chain_id,
        "fork": active_fork(chain.config, now),
        "next_fork": "none is scheduled",
    }
    if coming is not None:
        result["next_fork"] = f"{coming.name} in {duration(coming.timestamp - now)}, at {utc_time(coming.timestamp)}"
    return result


def _endpoints(values: Values) -> Iterator[tuple[str, FieldValue]]:
    for label, names in (
        ("l1", ("l1",)),
        ("beacon", ("l1.beacon", "l1.beacon-fallbacks")),
        ("checkpoint", ("l1.checkpoint.beacon",)),
        ("engine", ("l2",)),
        ("follows", ("l2.follow.source",)),
    ):
        urls = [url for name in names for url in _list(values[name])]
        if urls:
            yield label, ", ".join(map(endpoint_name, urls))
    yield "workers", worker_count(values)


def _proxies(values: Values) -> Iterator[Notice]:
    """Yield which endpoints are asked through the proxies of the environment [LHD31]."""
    fields = {}
    for name in _MAY_HAVE_PROXY:
        proxies = [(url, proxy_of(parsed_url(url) or URL())) for url in _list(values[name])]
        texts = [f"{endpoint_name(url)} through {proxy_name(proxy)}" for url, proxy in proxies if proxy is not None]
        if texts:
            fields[name] = ", ".join(texts)
    if fields:
        yield Notice(Level.INFO, "endpoints that are asked through a proxy of the environment", fields)


def _shown(values: Values, name: str) -> str:
    if OPTIONS[name].secret:
        return HIDDEN
    parts = ",".join(values.texts(name)).split(",")
    shown = ",".join(endpoint_name(part.strip()) if "://" in part else part for part in parts)
    return shown if len(shown) <= MAX_VALUE else f"{shown[:MAX_VALUE]}..."


def _list(value: object) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, tuple | list) else [str(value)]


def schedule_notices(chain: ChosenChain, now: float) -> list[Notice]:
    """Return a warning for each fork, flag or dependency set that is not the network's; `now` in Unix seconds."""
    known = network_of_config(chain.config)
    result = [] if known is None else [*_forks(chain, known, now), *_dependencies(chain, known)]
    return [*result, *_members(chain)]


def _warning(text: str, option: str) -> Notice:
    fields = {"code": Code.FORK_SCHEDULE.text, "option": option, "do": Code.FORK_SCHEDULE.remedy}
    return Notice(Level.WARN, text, fields)


def _forks(chain: ChosenChain, known: BuiltInNetwork, now: float) -> Iterator[Notice]:
    """Yield where the built-in network differs. A fork that only the file has is newer, and right."""
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
    start = lagoon_from(chain.config.fork_times)
    for chain_id in chain.dependencies.chains:
        other = None if chain_id == chain.config.l2_chain_id else network_of_chain(chain_id)
        if other is None:
            continue
        wanted = lagoon_from(other.config.fork_times)
        if wanted is not None and wanted != start:
            text = f"{LAGOON} {_here(start)}, and on {other.name} of the dependency set at {utc_time(wanted)}"
            yield _warning(text, f"--override.{LAGOON}={wanted}")


def _here(start: int | None) -> str:
    return "is not scheduled here" if start is None else f"begins at {utc_time(start)} here"


def _listed(chains: tuple[int, ...]) -> str:
    return ", ".join(map(str, sorted(chains)))
