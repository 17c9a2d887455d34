"""A new pipeline: a folder with a working example, and a test of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rocketpipe.projects.errors import PipelineError
from rocketpipe.projects.folder import SPEC_NAMES, check_name

_FILES: Final = {
    SPEC_NAMES[0]: """\
# A pipeline of Spark Declarative Pipelines. `rocketpipe pipeline run` runs it.
name: {name}
storage: storage
database: {database}
libraries:
  - glob:
      include: transformations/**
configuration:
  # Where the topics are; --namesrv and, without either, ROCKETPIPE_NAMESRV say it as well.
  # spark.rocketpipe.nameServer: 127.0.0.1:9876
  spark.sql.session.timeZone: UTC
""",
    "transformations/orders.py": '''\
"""From the topic `orders` to a table of good rows, and from there to the topic `dear-orders`."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from rocketpipe.projects import expect

spark = SparkSession.active()


@dp.table(comment="orders as they came; those that are no good are in orders_quarantine")
@expect("city IS NOT NULL AND cents IS NOT NULL", "quarantine", name="is an order")
@expect("cents < 100000", "warn", name="is not too dear")
def orders():
    return (
        spark.readStream.format("rocketpipe")
        .option("subscribe", "orders")
        .option("decode", "json")
        .option("decodeSchema", "city STRING, cents INT")
        .load()
        .select("city", "cents", "keys", "store_timestamp")
    )


dp.create_sink("dear_orders", "rocketpipe", {"topic": "dear-orders"})


@dp.append_flow(target="dear_orders")
def to_dear_orders():
    return (
        spark.readStream.table("orders")
        .where("cents >= 1000")
        .selectExpr("to_json(struct(city, cents)) AS body", "keys", "city AS queue_key")
    )
''',
    "transformations/cities.sql": """\
-- What each city has paid, in full after each run.
CREATE MATERIALIZED VIEW cities AS
SELECT city, count(*) AS orders, sum(cents) AS cents
FROM orders
GROUP BY city;
""",
    "tests/test_pipeline.py": '''\
"""The pipeline on a broker inside the test: rows in, rows out. Run it with `pytest`."""

from pathlib import Path

from rocketpipe.testing import PipelineCopy


def test_each_order_is_counted_once(rocketpipe, tmp_path):
    with rocketpipe.blocking.producer() as producer:
        producer.send("orders", b\'{"city": "Oslo", "cents": 1500}\')
        producer.send("orders", b\'{"city": "Oslo", "cents": 20}\')
        producer.send("orders", b"no order at all")

    pipeline = PipelineCopy(Path(__file__).parents[1], tmp_path, rocketpipe.name_server)
    pipeline.run()

    assert pipeline.rows("cities") == [{"city": "Oslo", "orders": 2, "cents": 1520}]
    assert len(pipeline.rows("orders_quarantine")) == 1
    assert pipeline.messages("dear-orders") == [b\'{"city":"Oslo","cents":1500}\']
''',
    ".gitignore": "storage/\n.rocketpipe/\n__pycache__/\n",
}


def make(name: str, where: Path) -> Path:
    """Make the folder of a new pipeline; gives its path.

    Raises:
        PipelineError: If it may not be called so, or there is something already.
    """
    if not check_name(name):
        raise PipelineError(
            f"{name!r} is no name for a pipeline: it has letters, digits, - and _, at most 64, and "
            "begins with a letter"
        )
    root = where / name
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise PipelineError(f"{root} is there already: choose another name, or remove it")
    database = name.lower().replace("-", "_")
    for path, text in _FILES.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(
            text.replace("{name}", name).replace("{database}", database), encoding="utf-8"
        )
    return root
