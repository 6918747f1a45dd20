"""Fixtures of the stages that the inspection commands run."""

from tests.stages.derivation.conftest import recording
from tests.stages.engine.conftest import rollup, world

__all__ = ["recording", "rollup", "world"]
