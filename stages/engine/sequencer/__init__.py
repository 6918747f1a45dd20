"""Building blocks: sequencer, conductor and the build API."""
