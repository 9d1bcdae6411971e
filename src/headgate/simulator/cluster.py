"""The machines of the simulation: Flux's cluster (sections 3 and 5.4) as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headgate.errors import ConfigError

Transport = Literal["flux", "exchange", "river"]

MB = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """One producer and one consumer on each of `nodes` machines; every producer is
    connected to every consumer.

    `overhead_us` is what a tuple costs besides the operator: 0.5 to produce it and 0.9 to pass it
    on, which is what the paper's 6.9e5 tuples/s leave over. `buffer_tuples` is the transient skew
    buffer of one producer; with transport `exchange` or `river` that space is in the outgoing
    queues instead. `drain_at_once` is the memory-adaptive consumer (section 6.1): for a move it
    takes what is in flight into its own buffers instead of processing all of it first. Without
    `memory_mb` memory is not bounded.
    """

    nodes: int = 32
    bins_per_node: int = 64
    bin_tuples: int = 10_000
    tuple_bytes: int = 80
    service_us: float = 45.0
    service_spread_us: float = 3.0
    overhead_us: float = 1.4
    produce_us: float = 0.5
    loaded_speed: float = 0.43
    buffer_tuples: int = 2048
    connection_tuples: int = 24
    latency_us: float = 70.0
    tick_ms: float = 1.0
    move_mbps: float = 500.0
    move_pair_mbps: float = 250.0
    charge_us: float = 0.2
    memory_mb: float | None = None
    disk_mb: float = 80_000.0
    disk_mb_per_s: float = 20.0
    seek_ms: float = 5.0
    spool_us: float = 10.0
    transport: Transport = "flux"
    drain_at_once: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("nodes", "bins_per_node", "bin_tuples", "connection_tuples", "tick_ms", "service_us"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"cluster: {name}={getattr(self, name)} must be above 0")
        if self.buffer_tuples < 0:
            raise ConfigError(f"cluster: buffer_tuples={self.buffer_tuples} must be 0 or more")
        if not 0 < self.loaded_speed <= 1:
            raise ConfigError(f"cluster: loaded_speed={self.loaded_speed} is outside (0, 1]")
        if self.transport not in ("flux", "exchange", "river"):
            raise ConfigError(f"cluster: transport={self.transport!r} is not flux, exchange or river")
        if self.memory_mb is not None and self.memory_mb * MB < self.bin_bytes:
            raise ConfigError(
                f"cluster: memory_mb={self.memory_mb} does not hold one bin of {self.bin_bytes} bytes: "
                "grant more, or make the bins smaller"
            )

    @property
    def bins(self) -> int:
        """Bins of the whole cluster."""
        return self.nodes * self.bins_per_node

    @property
    def bin_bytes(self) -> int:
        """The state of one bin."""
        return self.bin_tuples * self.tuple_bytes

    @property
    def tick_s(self) -> float:
        """The step of the data path."""
        return self.tick_ms / 1e3

    @property
    def latency_s(self) -> float:
        """The time of one message."""
        return self.latency_us / 1e6

    @property
    def charge_s(self) -> float:
        """The time to extract or to install a bin on an unloaded node."""
        return self.bin_tuples * self.charge_us / 1e6

    @property
    def ideal_rate(self) -> float:
        """Tuples per second with every node always busy."""
        return self.nodes * 1e6 / (self.service_us + self.overhead_us)

    def disk_s(self, size_bytes: float) -> float:
        """The time of one seek and a sequential read or write."""
        return self.seek_ms / 1e3 + size_bytes / (self.disk_mb_per_s * MB)
