"""`rollup-node check`: everything that would keep a node from its work, in one run and before a start [LIF24]."""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import orjson

from rollup_node.node.checks.finding import Finding, FindingLevel, error, not_checked, ok, warning
from rollup_node.node.options.errors import OptionError, error_lines
from rollup_node.node.options.parsing import read_options
from rollup_node.node.options.rules import uses_el_sync, worker_count
from rollup_node.node.options.supernode import are_for_supernode, read_supernode_options
from rollup_node.node.options.values import NodeOptions, Values
from rollup_node.node.setup.bundles import folder_of_choice
from rollup_node.node.setup.notices import bundles_in_doubt, local_safe, schedule_notices
from rollup_node.node.setup.plan import (
    NodePlan,
    NodeSecrets,
    endpoints_to_check,
    listeners,
    node_configs,
    plan_node,
    processes,
    reject_wrong_options,
)
from rollup_node.node.setup.secrets import DEFAULT_FILE, JwtSecret, encoded_jwt_secret, stored_jwt_secret
from rollup_node.node.supernode import plan_chains
from rollup_node.node.system.exit_codes import ExitCode
from rollup_node.stages.io.http.endpoint_errors import is_ipc
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import plain_text
from rollup_node.stages.p2p.config import MEMORY
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.stages.rpc.status.readiness import bundle_remedy, bundle_warning
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.preflight.preflight import Subject, preflight

DESCRIPTION = """Checks what a node with these options needs: options, JWT secret, L1, execution engine, beacon node,
clocks, ports, directories, disks, static peers, and whether the blobs that derivation needs are still there. All
findings come in one run, each with a code (rollup-node explain CODE). Nothing is written. Exit code 0 without errors, 1
with any."""
EPILOG = "Options are given as to the node (rollup-node --help-all), or as to rollup-node supernode."
_SHOWN = (FindingLevel.OK, FindingLevel.NOT_CHECKED, FindingLevel.WARNING, FindingLevel.ERROR)


def main(arguments: Sequence[str]) -> int:
    """Run all checks; the exit code is SETUP if there is an error."""
    parser = FlagParser("check", DESCRIPTION, EPILOG)
    parser.add_argument("--json", action="store_true", help="the findings as one JSON object")
    flags, rest = parser.parse_known_args(list(arguments))
    if are_for_supernode(rest, os.environ):
        findings = check_supernode(read_supernode_options(rest, os.environ))
    else:
        findings = check(read_options(rest, os.environ, parser.flags))
    if flags.json:
        print(findings_json(findings).decode())
    else:
        _print(findings)
    return ExitCode.SETUP if any(finding.is_error for finding in findings) else ExitCode.OK


def check(options: NodeOptions) -> list[Finding]:
    """Return the findings for a command line. Without valid options nothing else can be checked."""
    try:
        reject_wrong_options(options)
        plan = plan_node(options.values)
    except OptionError as failure:
        result = [error("options", Code.OPTIONS, line) for line in error_lines(failure)]
        return [*result, not_checked("endpoints, ports, files", "the options are wrong")]
    return [*_warnings(options.warnings), *_check_plan(plan)]


def check_supernode(options: NodeOptions) -> list[Finding]:
    """Return the findings for all chains of a supernode: what all of them have once, the rest with its chain."""
    try:
        plans, interop = plan_chains(options)
    except OptionError as failure:
        result = [error("options", Code.OPTIONS, line) for line in error_lines(failure)]
        return [*result, not_checked("endpoints, ports, files", "the options are wrong")]
    verified = () if interop is None else interop.members
    by_chain = {plan.group: _check_plan(plan, plan.l2_chain_id in verified) for plan in plans}
    of_all = set.intersection(*map(set, by_chain.values())) if len(by_chain) > 1 else set()
    own = [
        finding._replace(check=f"chain {chain}: {finding.check}")
        for chain, findings in by_chain.items()
        for finding in findings
        if finding not in of_all
    ]
    shared = [finding for finding in next(iter(by_chain.values())) if finding in of_all]
    return [*_warnings(options.warnings), *shared, *own]


def _warnings(texts: Sequence[str]) -> list[Finding]:
    return [warning("options", Code.OPTIONS, text) for text in texts]


def _check_plan(plan: NodePlan, verified: bool = False) -> list[Finding]:
    notes = _warnings([notice.text for notice in plan.notices])
    for notice in schedule_notices(plan.chain, time.time()):
        option = plain_text(notice.fields["option"])
        advice = Code.FORK_SCHEDULE.remedy.replace("use the option in the line", f"use {option}")
        notes.append(warning("fork times", Code.FORK_SCHEDULE, notice.text, advice))
    secrets, jwt = _jwt_secrets(plan.values)
    notes += [
        error("upgrades", Code.BUNDLE_UNCONFIRMED, bundle_warning(item, time.time()), bundle_remedy(item.fork))
        for item in bundles_in_doubt(plan.values, plan.chain)
    ]
    for notice in () if verified else local_safe(plan.values, plan.chain):
        since, members = (plain_text(notice.fields[name]) for name in ("since", "dependency_set"))
        text = f"from {since} on, {notice.text}: the dependency set is {members}"
        notes.append(warning("upgrades", Code.LOCAL_SAFE, text))
    result = notes or [ok("options", f"{len(plan.values.names_given())} are set, for {plan.chain.name}")]
    return [*result, *secrets, *asyncio.run(preflight(_subject(plan, jwt)))]


def _subject(plan: NodePlan, jwt: JwtSecret) -> Subject:
    # The other secrets concern nobody but the node itself.
    secrets = NodeSecrets(jwt.secret, jwt.source, None, None)
    configs = node_configs(plan, secrets)
    return Subject(
        endpoints_to_check(plan, configs, secrets),
        configs.blobs,
        plan.p2p,
        listeners(configs),
        _files(plan),
        not uses_el_sync(plan.values),
        sum(spec.copies for spec in processes({plan.group: configs}, worker_count(plan.values))),
    )


def _files(plan: NodePlan) -> dict[str, str]:
    """Return the files and directories that the node writes, by their options."""
    paths = {"runtime.dir": str(plan.runtime_dir)}
    if plan.p2p is not None:
        paths["p2p.peerstore.path"] = plan.p2p.peerstore_path
        if not plan.p2p.no_discovery:
            paths["p2p.discovery.path"] = plan.p2p.discovery_path
        paths["p2p.priv.path"] = plan.p2p.priv_path
    for name in ("safedb.path", "rpc.admin-state", "l1.checkpoint.path"):
        if plan.values[name]:
            paths[name] = str(plan.values[name])
    if (folder := folder_of_choice(plan.values)) is not None:
        paths["rollup.bundle-dir"] = folder
    return {option: path for option, path in paths.items() if path != MEMORY}


def _jwt_secrets(values: Values) -> tuple[list[Finding], JwtSecret]:
    """Return the findings for the files of JWT secrets, and the engine's secret, empty where there is none to use."""
    by_ipc, encoded = is_ipc(values["l2"] or ""), encoded_jwt_secret(values)
    wanted = [] if by_ipc or encoded else [("l2.jwt-secret", values["l2.jwt-secret"])]
    if values["rpc.jwt-secret"]:
        wanted.append(("rpc.jwt-secret", values["rpc.jwt-secret"]))
    if values["interop.rpc.addr"]:
        wanted.append(("interop.jwt-secret", values["interop.jwt-secret"]))
    result = [_jwt_secret(option, file) for option, file in wanted]
    engine = JwtSecret(b"", str(Path(values["l2.jwt-secret"] or DEFAULT_FILE).absolute()), False)
    with suppress(OptionError):
        stored = encoded or stored_jwt_secret(values["l2.jwt-secret"])
        if stored is not None and not by_ipc:
            engine = stored
    return result, engine


def _jwt_secret(option: str, file: str | None) -> Finding:
    name = f"--{option}"
    try:
        stored = stored_jwt_secret(file, option)
    except OptionError as failure:
        return error(name, Code.JWT_FILE, str(failure))
    if stored is not None:
        return ok(name, f"{stored.source} has a secret")
    text = f"{Path(file or DEFAULT_FILE).absolute()} has no secret yet: a start makes one"
    return warning(name, Code.JWT_FILE, text)


# --- output ----------------------------------------------------------------------------------------------------------


def findings_json(findings: Sequence[Finding]) -> bytes:
    """Return the findings as one JSON object."""
    rows = [
        {
            "level": finding.level.value,
            "check": finding.check,
            "code": None if finding.code is None else finding.code.text,
            "text": finding.text,
            "remedy": finding.remedy,
        }
        for finding in findings
    ]
    result = {"ok": not any(finding.is_error for finding in findings), "findings": rows}
    return orjson.dumps(result, option=orjson.OPT_INDENT_2)


def _print(findings: Sequence[Finding]) -> None:
    """Print a line each, aligned, the worst last with their remedies."""
    width = min(32, max(len(finding.check) for finding in findings))
    for finding in sorted(findings, key=lambda item: _SHOWN.index(item.level)):
        code = "" if finding.code is None else f"{finding.code.text}: "
        print(f"{finding.level.value:<11}  {escaped_line(finding.check):<{width}}  {code}{escaped_line(finding.text)}")
        if finding.remedy:
            print(f"{'':<11}  {'':<{width}}  -> {escaped_line(finding.remedy)}")
    counts = Counter(finding.level for finding in findings)
    print(", ".join(_counted(counts[level], level) for level in _SHOWN if counts[level]))
    sys.stdout.flush()


def _counted(count: int, level: FindingLevel) -> str:
    plural = "s" if count > 1 and level in (FindingLevel.WARNING, FindingLevel.ERROR) else ""
    return f"{count} {level.value}{plural}"
