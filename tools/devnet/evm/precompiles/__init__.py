"""The precompiled contracts, one file per family; `state_transition.forks` assigns addresses by fork."""
