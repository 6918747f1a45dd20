"""Fixtures of the stages that the inspection commands run."""

from tests.stages.derivation.conftest import made, recording
from tests.stages.engine.conftest import chain, rollup

__all__ = ["chain", "made", "recording", "rollup"]
