"""What a node says of itself at the start [LOG18]."""

import msgspec

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.chain import choose_chain
from rollup_node.node.setup.introduction import introduction
from rollup_node.node.setup.notices import Notice
from rollup_node.stages.io.log import Level
from rollup_node.stages.protocol.forks.table import FORKS

NOW = 1_800_000_000.0
GIVEN = (
    "--l1=https://user:pa55@l1.example/v2/k3y?token=t0ken,http://127.0.0.1:8545",
    "--l1.beacon=https://beacon.example:5052/k3y",
    "--l1.beacon-header=X-Key: k3y",
    "--l2=http://127.0.0.1:8551",
    "--network=op-sepolia",
)


def lines(*words: str, **times: int) -> list[Notice]:
    values = parse_options((*GIVEN, *words), {}).values
    chain = choose_chain(values, print, print)
    if times:
        chain = chain._replace(config=msgspec.structs.replace(chain.config, fork_times=times))
    return introduction(values, chain, NOW)


def test_the_chain_and_its_next_fork() -> None:
    chain, *_ = lines(canyon=5, ecotone=10, karst=int(NOW) + 90_000, lagoon=int(NOW) + 200_000)
    assert chain == Notice(
        Level.INFO,
        "chain",
        {
            "network": "op-sepolia",
            "l1_chain": 11155111,
            "l2_chain": 11155420,
            "fork": "ecotone",
            "next_fork": "karst in 1d1h, at 2027-01-16T09:00:00Z",
        },
    )
    last, *_ = lines(**{FORKS[-1].name: 5})
    assert last.fields["fork"] == FORKS[-1].name and last.fields["next_fork"] == "none is scheduled"


def test_neither_keys_nor_secrets_are_shown() -> None:
    said = lines()
    assert said[1].fields == {
        "l1": "l1.example:443, 127.0.0.1:8545",
        "beacon": "beacon.example:5052",
        "engine": "127.0.0.1:8551",
        "workers": said[1].fields["workers"],
    }
    assert said[2].fields == {
        "l1": "l1.example:443,127.0.0.1:8545",
        "l1.beacon": "beacon.example:5052",
        "l1.beacon-header": "(set)",
        "l2": "127.0.0.1:8551",
        "network": "op-sepolia",
    }
    assert not any(word in str(said) for word in ("k3y", "pa55", "t0ken", "user"))


def test_long_values_are_cut() -> None:
    shown = lines("--rpc.vhosts=" + "a" * 300)[2].fields["rpc.vhosts"]
    assert shown == "a" * 100 + "..."
