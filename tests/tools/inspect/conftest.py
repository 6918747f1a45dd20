"""Fixtures of the stages that the inspection commands run."""

from tests.stages.derivation.conftest import recording
from tests.stages.engine.conftest import chain, rollup

__all__ = ["chain", "recording", "rollup"]
