"""Sources of direct streams: where rows come from when headgate itself runs the batches."""

from headgate.sources.delta import Delta
from headgate.sources.files import Files
from headgate.sources.iceberg import Iceberg
from headgate.sources.kafka.source import Kafka
from headgate.sources.rate import Rate
from headgate.sources.rows import Rows
from headgate.sources.source import Demand, Range, Ranges, Source

__all__ = ["Delta", "Demand", "Files", "Iceberg", "Kafka", "Range", "Ranges", "Rate", "Rows", "Source"]
