"""Orders and payments joined by order, if the payment came within an hour.

Both topics may be late by ten minutes: so long each side is kept in Spark's state for the other.
An order that nobody paid in time goes to the table as well, without a payment, once the time of
both topics has passed it by an hour and those ten minutes.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


def topic(name: str, schema: str) -> DataFrame:
    return (
        spark.readStream.format("rocketpipe")
        .option("subscribe", name)
        .option("decode", "json")
        .option("decodeSchema", schema)
        .option("columns", "at, order_id, cents, decode_error")
        .load()
        .where("decode_error IS NULL")
        .withWatermark("at", "10 minutes")
    )


@dp.table(comment="each order once, with its payment if it was paid within an hour")
def order_payments() -> DataFrame:
    schema = "at TIMESTAMP, order_id INT, cents INT"
    orders = topic("orders", schema).alias("o")
    payments = topic("payments", schema).alias("p")
    in_time = f.expr("p.order_id = o.order_id AND p.at >= o.at AND p.at <= o.at + INTERVAL 1 HOUR")
    return orders.join(payments, in_time, "left_outer").selectExpr(
        "o.order_id", "o.at AS ordered_at", "o.cents", "p.at AS paid_at", "p.cents AS paid_cents"
    )
