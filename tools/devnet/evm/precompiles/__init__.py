"""The precompiled contracts, one file per family; `evm.forks` says which are there at which address."""
