"""Orders become totals by city: a topic is read by Spark, and the result is written to another.

pip install ".[spark]"
rocketpipe serve --data data &
python examples/spark_job.py
"""

from __future__ import annotations

import json
import os

from pyspark.sql import DataFrame, SparkSession

from rocketpipe.blocking import Message, Producer
from rocketpipe.pipeline import launch, register

NAME_SERVERS = os.environ.get("ROCKETPIPE_NAMESRV", "127.0.0.1:9876")
CITIES = ("Oslo", "Lima", "Pune")
ORDERS = 3000


def send_orders() -> None:
    with Producer(NAME_SERVERS) as producer:
        for begin in range(0, ORDERS, 100):
            producer.send_batch(
                [
                    Message(
                        "city-orders",
                        json.dumps({"city": CITIES[number % 3], "cents": number}).encode(),
                        keys=[f"order-{number}"],
                    )
                    for number in range(begin, begin + 100)
                ]
            )


def totals(spark: SparkSession) -> DataFrame:
    """A row for each city; an order that was sent twice counts once, by its key."""
    orders = (
        spark.read.format("rocketpipe")
        .option("nameServer", NAME_SERVERS)
        .option("subscribe", "city-orders")
        .option("decode", "json")
        .option("decodeSchema", "city STRING, cents BIGINT")
        .option("columns", "keys, city, cents")
        .load()
    )
    return (
        orders.selectExpr("keys[0] AS id", "city", "cents")
        .dropDuplicates(["id"])
        .groupBy("city")
        .sum("cents")
        .withColumnRenamed("sum(cents)", "cents")
    )


def main() -> None:
    send_orders()
    launch.prepare()  # finds Java, and gives Spark's workers this Python
    spark = SparkSession.builder.master("local[2]").appName("totals").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    register(spark)
    try:
        by_city = totals(spark).orderBy("city")
        by_city.show()
        (
            by_city.selectExpr("to_json(struct(*)) AS body", "array(city) AS keys")
            .write.format("rocketpipe")
            .option("nameServer", NAME_SERVERS)
            .option("topic", "city-totals")
            .mode("append")
            .save()
        )
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
