"""A node that only decodes: `python -m tests.stages.derivation.decoding_node BODIES RUNTIME_DIR WORKERS KILL,KILL...`;
with 0 workers channels are decoded in the process itself."""

import os
import sys
from pathlib import Path

from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.io.log.logger import Level
from tests.stages.derivation.decoding_stages import DecodingJob

STAGES = "tests.stages.derivation.decoding_stages"


def main(bodies: str, runtime: str, workers: int, kills: tuple[int, ...]) -> int:
    """Run the node until everything is decoded."""
    output = os.dup(1)
    job = DecodingJob(bodies, runtime, inline=not workers, kills=kills, output=output)
    rows = [
        ProcessSpec("l1", f"{STAGES}:idle", None),
        ProcessSpec("blobs", f"{STAGES}:idle", None),
        ProcessSpec(
            "compute",
            "rollup_node.stages.compute.process.stage:build",
            ComputeConfig(),
            copies=max(1, workers),
            numbered=True,
        ),
        ProcessSpec("derivation", f"{STAGES}:build", job, one_shot=True, keep_fds=(output,)),
    ]
    settings = NodeSettings("test", LogSettings(Level.WARN), runtime_dir=Path(runtime), log_output=2)
    return run_node(rows, settings)


if __name__ == "__main__":
    value = tuple(int(number) for number in sys.argv[4].split(",") if number)
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), value))
