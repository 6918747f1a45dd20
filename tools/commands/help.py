"""`rollup-node help`: the options of a topic."""

from collections.abc import Sequence
from dataclasses import replace

from rollup_node.node.options.errors import OptionError, did_you_mean, shown
from rollup_node.node.options.option import AnyOption, Section
from rollup_node.node.options.parsing import option_parser
from rollup_node.node.options.table import FLAGS, SECTIONS
from rollup_node.node.system.exit_codes import PROGRAM, SetupError


def main(arguments: Sequence[str]) -> int:
    """Print the topics, or the options of one. Raises SetupError for an unknown topic."""
    if len(arguments) > 1:
        raise SetupError("help takes one topic")
    requested = not {"-h", "--help"}.isdisjoint(arguments)
    print(topics_text() if requested or not arguments else topic_text(arguments[0]), end="")
    return 0


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
    "metrics": ("Metrics, traces and profiling", ("metrics", "pprof", "heartbeat", "tracing")),
    "status": ("Status page", ("status",)),
    "log": ("Logging", ("log", "snapshotlog")),
    "process": ("Processes and files", ("config", "workers", "runtime")),
    "altda": ("Alt-DA (beta)", ("altda",)),
    "interop": ("Interop (super experimental)", ("interop",)),
    "experimental": ("Experimental", ("experimental", "fetch-withdrawal-root-from-state")),
}
"""By topic: its title, and the first parts of the names of its options. The longest part that fits decides."""


def topics_text() -> str:
    """Return the list of topics."""
    lines = "".join(f"  {name:13} {title}\n" for name, (title, _) in TOPICS.items())
    return f"usage: {PROGRAM} help TOPIC | OPTION | COMMAND\nTopics:\n{lines}"


def topic_text(name: str) -> str:
    """Return the options of a topic, or one option, also a hidden one. Raises OptionError for anything else."""
    flag = name.lstrip("-")
    if name in TOPICS:
        sections = (Section(TOPICS[name][0], *(o for s in SECTIONS for o in s.options if topic_of(o) == name)),)
    elif flag in FLAGS:
        sections = (Section(f"Option of the topic {topic_of(FLAGS[flag])}", replace(FLAGS[flag], hidden=False)),)
    else:
        hint = did_you_mean(name, {*TOPICS, *FLAGS})
        raise OptionError(f"unknown topic {shown(name)}{hint}; topics are {', '.join(TOPICS)}")
    parser = option_parser(sections, information=False)
    parser.description = parser.epilog = None
    return f"{parser.format_help().rstrip()}\n"


def topic_of(option: AnyOption) -> str:
    """Return the topic of an option. Raises ValueError for an option without one."""
    result = [
        (len(part), topic)
        for topic, (_, parts) in TOPICS.items()
        for part in parts
        if option.name == part or option.name.startswith((f"{part}.", f"{part}-"))
    ]
    return max(result)[1]
