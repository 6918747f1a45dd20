"""All reasons in one table, in the order of the pipeline."""

from rollup_node.stages.derivation.reasons import alt_da, channels, frames, l1, reading, singular, span, stages
from rollup_node.stages.derivation.reasons.reason import DECLARED, Reason

MODULES = (l1, alt_da, frames, channels, reading, singular, span, stages)

REASONS: tuple[type[Reason], ...] = tuple(
    declared for module in MODULES for declared in DECLARED.values() if declared.__module__ == module.__name__
)
