"""A simulated cluster that runs any policy: Flux's 32 nodes, tuple by tuple (section
3 of the paper).

`Simulation` (in `run`) is the entry point. `cluster` has the machines, `workload` the keys,
`scenarios` the events. The data path is compiled (`plane`, `kernels`); the protocol, the disks and
the controller are Python. It has no clock and no randomness of its own: the same seed gives the
same run, byte for byte.
"""
