"""`rollup-node devnet --faults`: scenarios on a real network, of which each has a verdict."""

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet

SCENARIOS = """
[[scenario]]
name = "l1-throttles"
faults = [{ on = "l1", do = "status", status = 429, headers = { Retry-After = "1" } }]
seconds = 2
names = "HTTP status 429"

[[scenario]]
name = "l1-alternates-in-a-reorg"
faults = [{ on = "l1", do = "lag", blocks = 3, every = 2 }]
events = [{ reorg = 2, after = 0.5 }]
seconds = 3

[[scenario]]
name = "the-engine-loses-blocks"
events = [{ restart = "engine", lose = 3, seconds = 0.5 }]
seconds = 2

[[scenario]]
name = "derivation-is-killed-without-l1"
faults = [{ on = "l1", do = "reset" }]
events = [{ kill = "derivation", after = 0.5 }]
seconds = 2
dies = ["derivation"]

[[scenario]]
name = "not-named"
faults = [{ on = "l1", do = "delay", seconds = 0.01 }]
seconds = 1
names = "the moon is full"
"""


def test_scenarios_on_a_network(leftovers: Leftovers) -> None:
    """The last one must fail: its fault is named by nothing."""
    file = leftovers.folder / "scenarios.toml"
    file.write_text(SCENARIOS)
    with Devnet(leftovers, "--faults", str(file), *CALLDATA) as net:
        finished = net.wait_for_exit(55)
        result = finished.json_result()
        names = [item["name"] for item in result["faults"]]
        assert names == [line.split('"')[1] for line in SCENARIOS.splitlines() if line.startswith("name =")]
        problems = {item["name"]: item["problems"] for item in result["faults"] if not item["passed"]}
        expected = {"not-named": ["neither log nor /readyz matched 'the moon is full'"]}
        assert problems == expected, f"{problems}\n{net.logs()}"
        assert result["output_roots_equal"] and finished.code == 1
