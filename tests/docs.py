"""Which test runs the code of which page. A page with code that is in none of these lists fails `tests/test_docs.py`."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WITH_SPARK = [
    "index.md",
    "start/first-stream.md",
    "port/group-by.md",
    "port/state.md",
    "port/drop-duplicates.md",
    "port/joins.md",
    "recipes/hot-keys.md",
    "recipes/late-data.md",
    "recipes/exploding-joins.md",
    "recipes/backfill.md",
    "operate/watch.md",
    "reference/gates.md",
    "reference/joins.md",
]
"""Pages that run on a session alone: `tests/spark/test_pages.py`."""
WITHOUT_SPARK = [
    "reference/limits.md",
    "research/control.md",
    "research/faucet.md",
    "research/partitioning.md",
    "research/placement.md",
    "understand/placement.md",
    "understand/policies.md",
]
"""Pages that need no Spark: `tests/test_docs.py`."""
ELSEWHERE = {
    "recipes/kafka-to-delta.md": "tests/spark/test_connector_pages.py",
    "recipes/standing-queries.md": "tests/service/http/test_recipe.py",
    "faq/symptoms.md": "tests/spark/test_operating_page.py",
    "operate/metrics.md": "tests/spark/test_metrics_page.py",
    "port/doctor.md": "tests/spark/test_doctor_page.py",
    "reference/databases.md": "tests/spark/test_connector_pages.py",
    "reference/direct.md": "tests/spark/test_direct_page.py",
    "reference/kafka.md": "tests/spark/test_kafka.py",
    "reference/kernels.md": "tests/kernels/test_kernel.py",
    "reference/lakehouse.md": "tests/spark/test_connector_pages.py",
    "reference/object-stores.md": "tests/spark/test_s3_query.py",
    "reference/operators.md": "tests/operators/test_event_operators.py",
    "reference/service.md": "tests/service/http/test_recipe.py",
    "understand/promises.md": "tests/spark/test_promises.py",
}
"""Pages that need brokers, stores or services: the test that starts them."""
