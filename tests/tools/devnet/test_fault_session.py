"""`rollup-node devnet --faults`: scenarios on a real network, of which each has a verdict."""

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet

AS_A_SERVER = """
[[scenario]]
name = "l1-throttles"
faults = [{ on = "l1", do = "status", status = 429, headers = { Retry-After = "1" } }]
seconds = 2
names = "HTTP status 429"

[[scenario]]
name = "blobs-are-not-custodied"
faults = [{ on = "beacon", do = "status", method = "blob", status = 404, body = '{"message":"no custody"}' }]
seconds = 5
names = "BLOB-CUSTODY"

[[scenario]]
name = "the-engine-is-busy"
faults = [{ on = "engine", do = "edit", method = "newPayload", path = "status", value = "SYNCING" }]
seconds = 2
"""

WITH_LOSSES = """
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


@pytest.mark.parametrize(
    ("scenarios", "failed", "words"),
    [(AS_A_SERVER, [], ("--l1-block-time", "2")), (WITH_LOSSES, ["not-named"], CALLDATA)],
)
def test_scenarios_on_a_network(
    leftovers: Leftovers, scenarios: str, failed: list[str], words: tuple[str, ...]
) -> None:
    """The last one must fail: its fault is named by nothing."""
    file = leftovers.folder / "scenarios.toml"
    file.write_text(scenarios)
    with Devnet(leftovers, "--faults", str(file), *words) as net:
        finished = net.wait_for_exit(55)
        result = finished.json_result()
        names = [item["name"] for item in result["faults"]]
        assert names == [line.split('"')[1] for line in scenarios.splitlines() if line.startswith("name =")]
        problems = {item["name"]: item["problems"] for item in result["faults"] if not item["passed"]}
        assert list(problems) == failed, f"{problems}\n{net.logs()}"
        assert all(text == ["neither log nor /readyz matched 'the moon is full'"] for text in problems.values())
        assert result["output_roots_equal"] and finished.code == bool(failed)
