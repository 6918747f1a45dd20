"""A node that only decodes: `python decoding_node.py BODIES RUNTIME_DIR WORKERS KILL,KILL...`; 0 workers for none."""

import os
import sys
from pathlib import Path

from decoding_stages import JobConfig

from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.io.log import Level


def main(bodies: str, runtime: str, workers: int, kills: tuple[int, ...]) -> int:
    """Runs the node until all is decoded."""
    output = os.dup(1)
    job = JobConfig(bodies, runtime, inline=not workers, kills=kills, output=output)
    rows = [
        ProcessSpec("l1", "decoding_stages:idle", None),
        ProcessSpec("blobs", "decoding_stages:idle", None),
        ProcessSpec(
            "compute",
            "rollup_node.stages.compute.process.stage:build",
            ComputeConfig(kzg=False),
            copies=max(1, workers),
            numbered=True,
        ),
        ProcessSpec("derivation", "decoding_stages:build", job, one_shot=True, keep_fds=(output,)),
    ]
    settings = NodeSettings("test", LogSettings(Level.WARN), runtime_dir=Path(runtime), log_output=2)
    return run_node(rows, settings)


if __name__ == "__main__":
    given = tuple(int(number) for number in sys.argv[4].split(",") if number)
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), given))
