"""Planned nodes, from words of a command line, for the tests of set-up."""

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.rules import worker_count
from rollup_node.node.setup.endpoint_checks import check_chains
from rollup_node.node.setup.notices import Notice
from rollup_node.node.setup.plan import (
    NodeConfigs,
    NodePlan,
    NodeSecrets,
    endpoints_to_check,
    node_configs,
    node_settings,
    plan_node,
    processes,
)
from rollup_node.node.setup.secrets import load_secrets
from rollup_node.node.setup.start import check_state_files
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.config_json import rollup_config_object

NETWORK = ("--network=op-sepolia",)
REQUIRED = ("--l2=http://e:8551", "--l1.beacon=http://b:5052")
JWT = b"\x11" * 32


class PreparedNode(NamedTuple):
    """A node after all steps before its start."""

    plan: NodePlan
    secrets: NodeSecrets
    configs: NodeConfigs
    notices: list[str]

    @property
    def processes(self) -> tuple[ProcessSpec, ...]:
        return processes({"": self.configs}, worker_count(self.plan.values))

    @property
    def settings(self) -> NodeSettings:
        check = partial(check_chains, [endpoints_to_check(self.plan, self.configs, self.secrets)])
        return node_settings(self.plan, [self.configs], check)


def plan_of(*words: str, chain: tuple[str, ...] = NETWORK) -> NodePlan:
    """Return the plan alone."""
    return plan_node(parse_options([*chain, *REQUIRED, *words], {}).values)


def prepare(*words: str, chain: tuple[str, ...] = NETWORK) -> PreparedNode:
    """Plan, secrets, state files and configurations, in the order of a start."""
    plan = plan_of(*words, chain=chain)
    notices: list[Notice] = [*plan.notices]
    secrets = load_secrets(plan, notices.append)
    check_state_files(plan.p2p, plan.chain.config, plan.values["safedb.path"])
    return PreparedNode(plan, secrets, node_configs(plan, secrets), [notice.text for notice in notices])


def rollup_file(folder: Path, config: RollupConfig, **changes: Any) -> str:
    """Write the rollup.json of a chain with changes, of which None removes a key; return the option for it."""
    values = rollup_config_object(config) | changes
    path = folder / "rollup.json"
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))
    return f"--rollup.config={path}"
