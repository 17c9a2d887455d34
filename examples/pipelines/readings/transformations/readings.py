"""Readings of sensors, each kept once though senders that had no answer send again.

A reading has a key of its own, which it keeps when it is sent again. Keys are remembered for an
hour of the readings' own time: one that comes again later than that is a row again.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table(comment="each reading once")
def readings() -> DataFrame:
    return (
        spark.readStream.format("rocketpipe")
        .option("subscribe", "readings")
        .option("decode", "json")
        .option("decodeSchema", "at TIMESTAMP, sensor STRING, celsius DOUBLE")
        .load()
        .where("decode_error IS NULL")
        .selectExpr("keys[0] AS reading", "at", "sensor", "celsius")
        .withWatermark("at", "1 hour")
        .dropDuplicatesWithinWatermark(["reading"])
    )
