"""Every change of a customer: the key of a message is the customer's number.

Changes of one customer are in one queue, so that `queue_offset` has their order.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table(comment="a row for each change, as it came")
def customer_changes() -> DataFrame:
    return (
        spark.readStream.format("rocketpipe")
        .option("subscribe", "customers")
        .option("decode", "json")
        .option("decodeSchema", "at TIMESTAMP, name STRING, city STRING")
        .load()
        .selectExpr(
            "keys[0] AS customer",
            "at",
            "name",
            "city",
            "tags = 'deleted' AS is_deleted",
            "queue_offset",
        )
    )
