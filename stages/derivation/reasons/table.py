"""All reasons in one table, in the order of the pipeline."""

from rollup_node.stages.derivation.reasons import batches, channels, l1
from rollup_node.stages.derivation.reasons.reason import DECLARED, Reason

MODULES = (l1, channels, batches)

REASONS: tuple[type[Reason], ...] = tuple(
    declared for module in MODULES for declared in DECLARED.values() if declared.__module__ == module.__name__
)
