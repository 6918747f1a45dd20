"""`rollup-node supernode`: many chains on one L1, each message between them verified."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rollup_node.node.options.errors import OptionError, WrongOptions, error_lines
from rollup_node.node.options.supernode import (
    ALL,
    INFORMATION,
    PORTS,
    help_text,
    read_supernode_options,
    scoped,
)
from rollup_node.node.options.values import NodeOptions, Values
from rollup_node.node.setup.interop import interop_problems, plan_interop
from rollup_node.node.setup.networks import network_of_chain
from rollup_node.node.setup.plan import NodePlan, plan_node, wrong_lines
from rollup_node.node.setup.reload import Plans, RunningOptions
from rollup_node.node.setup.start import start_chains
from rollup_node.node.system.exit_codes import ExitCode, SetupError
from rollup_node.node.system.runtime_dir import take_lock

DATABASES = {
    "safedb.path": "safe_db",
    "p2p.priv.path": "p2p/opnode_p2p_priv.txt",
    "p2p.peerstore.path": "p2p/peerstore_db",
    "p2p.discovery.path": "p2p/discovery_db",
    "rollup.bundle-dir": "",
}
"""What a chain keeps in its folder of `data-dir` [SNO4]."""


def main(arguments: Sequence[str]) -> int:
    """Run a supernode; the exit code. Raises SetupError."""
    if any(word.lstrip("-") in INFORMATION for word in arguments if word.startswith("-")):
        print(help_text(), end="")
        return ExitCode.OK
    read = partial(read_supernode_options, arguments, os.environ)
    options = RunningOptions(read(), read, plan_chains)
    options.plans()
    return _run(options)


def _run(running: RunningOptions) -> int:
    options = running.options
    data_dir = Path(options.own["data-dir"]).absolute()
    _make_folders(data_dir, options)
    lock = take_lock(data_dir)
    try:
        return start_chains(running)
    finally:
        os.close(lock)


def plan_chains(options: NodeOptions) -> Plans:
    """Return the plans of all chains. Raises WrongOptions with a line for everything that is wrong in any of them."""
    wrong: dict[str, tuple[str, ...]] = {}
    plans: list[NodePlan] = []
    for chain_id, of_chain in options.chains.items():
        values = chain_values(options.own, int(chain_id), of_chain)
        try:
            lines = wrong_lines(NodeOptions({"": values}))
            if not lines:
                runtime_dir = plans[0].runtime_dir if plans else None
                plans.append(plan_node(values, chain_id, runtime_dir))
        except OptionError as error:
            lines = error_lines(error)
        wrong[chain_id] = lines
    of_all = set.intersection(*map(set, wrong.values())) if wrong else set()
    errors = [*options.errors, *(scoped(line, ALL) for line in next(iter(wrong.values()), ()) if line in of_all)]
    for chain_id, lines in wrong.items():
        own = (line for line in lines if line not in {*of_all, *options.errors})
        errors += [f"chain {chain_id}: {scoped(line, chain_id)}" for line in own]
    errors += _contradictions(plans)
    if len(plans) == len(options.chains):
        errors += interop_problems(plans, _activation(options))
    if errors:
        raise WrongOptions(errors)
    data_dir = Path(options.own["data-dir"]).absolute()
    return plans, plan_interop(plans, options.own, data_dir)


def _activation(options: NodeOptions) -> int:
    try:
        return int(options.own["interop.activation-timestamp"])
    except OptionError:
        return 0


def _contradictions(plans: Sequence[NodePlan]) -> Iterator[str]:
    l1_chains = {plan.group: plan.chain.config.l1_chain_id for plan in plans}
    for plan in plans:
        source = plan.values.source("network" if plan.values["network"] else "rollup.config")
        if str(plan.l2_chain_id) != plan.group:
            yield f"chain {plan.group}: {source} is chain {plan.l2_chain_id}"
    listening: dict[tuple[str, str, int], str] = {}
    for plan in plans:
        for option in PORTS if plan.p2p is not None else ():
            port = plan.values[option]
            other = listening.setdefault((option, plan.values["p2p.listen.ip"], port), plan.group)
            if port and other != plan.group:
                clash = f"{plan.values.source(option)}: chain {other} listens on {port} too"
                yield f"chain {plan.group}: {clash}: give another port"
    if len(set(l1_chains.values())) > 1:
        shown = ", ".join(f"chain {chain}: {l1}" for chain, l1 in l1_chains.items())
        yield f"the chains of --chains have different L1 chains ({shown}): run a supernode for each L1"


def chain_values(own: Values, chain_id: int, values: Values) -> Values:
    """Return the values of a chain with what the supernode sets [SNO3, SNO4]."""
    folder = Path(own["data-dir"]).absolute() / str(chain_id)
    texts = {name: str(folder / path) for name, path in DATABASES.items() if not values.given(name)}
    texts |= {name: "0" for name in ("p2p.listen.tcp", "p2p.listen.udp") if not values.given(name)}
    texts["rpc.port"] = str(own["rpc.port"])
    if own["disable-p2p"]:
        texts["p2p.disable"] = "true"
    if own.given("dependency-set"):
        texts["interop.dependency-set"] = own["dependency-set"]
    known = network_of_chain(chain_id)
    if known is not None and not values.given("network") and not values.given("rollup.config"):
        texts["network"] = known.name
    return values.with_texts(texts, "the supernode")


def _make_folders(data_dir: Path, options: NodeOptions) -> None:
    try:
        for chain_id in options.chains:
            (data_dir / chain_id / "p2p").mkdir(mode=0o700, parents=True, exist_ok=True)
        data_dir.chmod(0o700)
    except OSError as error:
        raise SetupError(f"{error.filename}: {error.strerror} (--data-dir)") from None
