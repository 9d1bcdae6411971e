"""A simulated cluster that runs any policy: Flux's 32 nodes, tuple by tuple (section 3 of the paper).

`Simulation` (`run`) is the door; `cluster` has the numbers, `workload` the keys, `scenarios` what happens when.
The data path is compiled (`plane`, `kernels`); the protocol, the disks and the controller are Python. No clock
and no randomness of its own: the same seed gives the same run, byte for byte.
"""
