"""The safe head database: which L2 block became safe with which L1 block."""
