"""From the options of another rollup node to an options file of this one [CMD17]."""
