"""How often each page was visited in each minute, written to the topic `visits-per-minute`.

A minute is sent when visits of two minutes later have come: whatever is later than that is left
out. It is sent once, whoever dies meanwhile: batches of a sink that is a topic are staged there.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()

dp.create_sink("visits_per_minute", "rocketpipe", {"topic": "visits-per-minute"})


@dp.append_flow(target="visits_per_minute")
def to_visits_per_minute() -> DataFrame:
    visits = (
        spark.readStream.format("rocketpipe")
        .option("subscribe", "visits")
        .option("decode", "json")
        .option("decodeSchema", "at TIMESTAMP, page STRING")
        .option("columns", "at, page, decode_error")
        .load()
        .where("decode_error IS NULL")
    )
    minutes = (
        visits.withWatermark("at", "2 minutes")
        .groupBy(f.window("at", "1 minute"), "page")
        .agg(f.count("*").alias("visits"))
    )
    return minutes.selectExpr(
        "to_json(struct(window.start AS minute, page, visits)) AS body",
        "page AS keys",
        "page AS queue_key",
    )
