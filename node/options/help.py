"""The help texts: one screen, all options, and the options of a topic [CMD8]."""

import argparse
from collections.abc import Mapping
from dataclasses import replace

import shtab

from rollup_node.node.options.errors import OptionError, did_you_mean, shown
from rollup_node.node.options.option import AnyOption, Section
from rollup_node.node.options.parsing import FLAGS, option_parser
from rollup_node.node.options.table import SECTIONS
from rollup_node.node.options.value_types import BOOL, OPTIONAL_PATH, PATH
from rollup_node.node.system.exit_codes import PROGRAM

MAIN_OPTIONS = {
    "network": "built-in network, such as op-mainnet or op-sepolia",
    "rollup.config": "in place of --network: the chain's rollup.json",
    "l1": "JSON-RPC of L1, or several separated by commas",
    "l1.beacon": "Beacon API of L1, for blobs",
    "l2": "the execution engine's authenticated port, often 8551",
    "l2.jwt-secret": "file with the secret shared with the engine",
    "syncmode": "consensus-layer (default) or execution-layer",
    "sequencer.enabled": "build blocks instead of only following the chain",
    "p2p.disable": "run without peers",
    "rpc.port": "port of JSON-RPC, /readyz and /status.json (9545)",
    "metrics.enabled": "serve Prometheus metrics (port 7300)",
    "log.level": "error, warn, info (default), debug or detail",
    "config": "TOML file with options",
}
"""The options that --help shows, with their lines."""

TOPICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "l1": ("L1 connection", ("l1",)),
    "beacon": ("Beacon node and blobs", ("l1.beacon",)),
    "engine": ("L2 execution engine", ("l2",)),
    "network": ("Network and rollup", ("network", "rollup", "beta", "ignore-missing-pectra-blob-schedule")),
    "forks": ("Fork overrides", ("override",)),
    "sync": ("Sync, finality and safe heads", ("syncmode", "finality", "verifier", "safedb")),
    "sequencer": ("Sequencer", ("sequencer",)),
    "conductor": ("Conductor", ("conductor",)),
    "signer": ("Remote signer", ("signer",)),
    "p2p": ("Peer-to-peer", ("p2p",)),
    "rpc": ("RPC server", ("rpc",)),
    "metrics": ("Metrics and profiling", ("metrics", "pprof", "heartbeat")),
    "status": ("Status page", ("status",)),
    "log": ("Logging", ("log", "snapshotlog")),
    "process": ("Processes and files", ("config", "workers", "runtime")),
    "altda": ("Alt-DA (beta)", ("altda",)),
    "interop": ("Interop (super experimental)", ("interop",)),
    "experimental": ("Experimental", ("experimental", "fetch-withdrawal-root-from-state")),
}
"""By topic: its title, and the first parts of the names of its options. The longest part that fits decides."""

_EXAMPLES = f"""Examples:
  {PROGRAM} --network=op-sepolia --l1=URL --l1.beacon=URL --l2=URL
  {PROGRAM} explain --rpc=http://127.0.0.1:9545
"""


def help_text(commands: Mapping[str, str]) -> str:
    """Return the text of --help, on one screen of 80 by 36; the commands are given with a line each."""
    options = [(_usage(FLAGS[name]), line) for name, line in MAIN_OPTIONS.items()]
    lines = [
        f"usage: {PROGRAM} [options]   or   {PROGRAM} COMMAND ...",
        f"Options (--help-all: all of them; {PROGRAM} help TOPIC: those of a topic):",
        *(f"  {usage:22} {line}" for usage, line in options),
        f"Commands ({PROGRAM} COMMAND --help):",
        *(f"  {name:10} {line}" for name, line in commands.items()),
    ]
    return "\n".join(lines) + "\n" + _EXAMPLES


def full_help_text(commands: Mapping[str, str]) -> str:
    """Return the text of --help-all: options by section, without hidden ones, and the commands."""
    lines = "".join(f"  {name:10} {line}\n" for name, line in commands.items())
    return f"{option_parser(SECTIONS).format_help().rstrip()}\n\nCommands ({PROGRAM} COMMAND --help):\n{lines}"


def topics_text() -> str:
    """Return the list of topics."""
    lines = "".join(f"  {name:13} {title}\n" for name, (title, _) in TOPICS.items())
    return f"usage: {PROGRAM} help TOPIC | OPTION | COMMAND\nTopics:\n{lines}"


def topic_text(name: str) -> str:
    """Return the options of a topic, or one option, also a hidden one. Raises OptionError for anything else."""
    flag = name.lstrip("-")
    if name in TOPICS:
        sections = (Section(TOPICS[name][0], tuple(o for s in SECTIONS for o in s.options if topic_of(o) == name)),)
    elif flag in FLAGS:
        sections = (Section(f"Option of the topic {topic_of(FLAGS[flag])}", (replace(FLAGS[flag], hidden=False),)),)
    else:
        hint = did_you_mean(name, {*TOPICS, *FLAGS})
        raise OptionError(f"unknown topic {shown(name)}{hint}; topics are {', '.join(TOPICS)}")
    parser = option_parser(sections, information=False)
    parser.description = parser.epilog = None
    return f"{parser.format_help().rstrip()}\n"


def topic_of(option: AnyOption) -> str:
    """Return the topic of an option. Raises ValueError for an option without one."""
    found = [
        (len(part), topic)
        for topic, (_, parts) in TOPICS.items()
        for part in parts
        if option.name == part or option.name.startswith((f"{part}.", f"{part}-"))
    ]
    return max(found)[1]


def _usage(option: AnyOption) -> str:
    is_flag = option.value_type.label == "bool"
    return f"--{option.name}" if is_flag else f"--{option.name} {metavar(option)}"


def metavar(option: AnyOption) -> str:
    """Return what stands for the value of an option in usage lines."""
    return option.value_type.label.split()[0].upper()


USAGE = f"{PROGRAM} [options] | {PROGRAM} COMMAND ..."
EPILOG = """An option may be set by its flag, by the variable in brackets, or in the file of --config; the first of
these that sets it wins."""


def shell_parser(
    summaries: Mapping[str, str], words: Mapping[str, tuple[str, ...]], choices: Mapping[str, tuple[str, ...]]
) -> argparse.ArgumentParser:
    """Return the options that are not hidden, by section, and the commands with their lines.

    `words` are the arguments of commands, `choices` the values of options whose type does not list them."""
    parser = argparse.ArgumentParser(PROGRAM, USAGE, "An OP Stack rollup node.", EPILOG)
    for section in SECTIONS:
        group = parser.add_argument_group(section.title)
        for option in section.options:
            if not option.hidden:
                _add(group, option, choices.get(option.name, option.value_type.allowed))
    commands = parser.add_subparsers(title="Commands")
    for name, line in summaries.items():
        command = commands.add_parser(name, help=line, description=line)
        if name in words:
            command.add_argument("word", choices=words[name], help=f"one of {', '.join(words[name])}", nargs="?")
    return parser


def _add(group: "argparse._ArgumentGroup", option: AnyOption, choices: tuple[str, ...]) -> None:
    default = "" if option.default is None else f" Default: {option.default}."
    text = f"{option.help}{default} [{option.variable}]".replace("%", "%%")
    flag = f"--{option.name}"
    if option.value_type is BOOL:
        group.add_argument(flag, action="store_true", help=text)
        return
    metavar = option.value_type.label.split()[0].upper()
    action = group.add_argument(flag, help=text, metavar=metavar, choices=choices or None)
    if option.value_type in (PATH, OPTIONAL_PATH):
        action.complete = shtab.FILE  # type: ignore[attr-defined]
