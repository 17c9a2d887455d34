"""From the topic `flights` to a table of flights, and from the dead letters to another."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rocketpipe.projects import expect

spark = SparkSession.active()

BODY = (
    "id INT, time_hour TIMESTAMP, minute INT, carrier STRING, flight INT, tailnum STRING, "
    "origin STRING, dest STRING, dep_time INT, dep_delay INT, arr_delay INT, distance INT"
)


def flights_in(messages: DataFrame, *kept: str) -> DataFrame:
    """The flights that messages carry, beside some of the messages' own columns."""
    flight = f.from_json(f.col("body").cast("string"), BODY)
    leaves = f.expr("flight.time_hour + make_interval(0, 0, 0, 0, 0, flight.minute)")
    return (
        messages.withColumn("flight", flight)
        .withColumn("leaves", leaves)
        .select("flight.*", "leaves", *kept)
        .drop("minute")
    )


@dp.table(comment="a row for each flight")
@expect("id IS NOT NULL", "fail", name="is a flight")
def flights() -> DataFrame:
    messages = (
        spark.readStream.format("rocketpipe")
        .schema("queue_id INT, queue_offset BIGINT, body BINARY, store_timestamp TIMESTAMP")
        .option("subscribe", "flights")
        .option("groupId", "delay-tables")
        .option("maxOffsetsPerTrigger", "20000")
        .load()
    )
    return flights_in(messages, "queue_id", "queue_offset", "store_timestamp")


@dp.materialized_view(comment="flights that were rejected too often, and why")
def dead_letters() -> DataFrame:
    letters = (
        spark.read.format("rocketpipe")
        .schema("body BINARY, properties MAP<STRING, STRING>")
        .option("subscribe", "%DLQ%departures")
        .load()
    )
    reason = f.col("properties")["DLQ_REASON"].alias("reason")
    return flights_in(letters, "properties").select("id", "carrier", reason)
