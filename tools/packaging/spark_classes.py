"""Keep Spark's classes as a JVM has them in memory, so that the next one need not load them.

python -m tools.packaging.spark_classes FILE

Half of what a small Spark costs is the loading of thousands of classes. Java writes those that a
first Spark has loaded into FILE; later ones map it (``-XX:SharedArchiveFile``), which a JVM does
only if it and its jars are those that wrote it. Nothing is done where FILE is theirs. Where this
Java cannot write one, that is said, and is no failure: Spark only starts as it always did.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rocketpipe.pipeline.launch import prepare_alone
from tools.packaging.wheels import ROOT

#: What a short Spark does: a query, Python's part in one, files, a stream, and a Connect server.
_WORK = """
import sys
from pathlib import Path
from pyspark import SparkContext
from pyspark.sql import SparkSession
scratch = Path(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name, value in {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
    "spark.connect.grpc.binding.port": "0",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
rows = spark.createDataFrame([(1, "a"), (2, "b")], "number int, name string")
rows.write.parquet(str(scratch / "rows"))
rows = spark.read.parquet(str(scratch / "rows"))
rows.createOrReplaceTempView("rows")
spark.sql(
    "SELECT name, count(*), max(a.number) FROM rows a JOIN rows b USING (name) "
    "GROUP BY name ORDER BY 1"
).collect()
rows.mapInArrow(lambda batches: batches, rows.schema).toPandas()
stream = spark.readStream.schema(rows.schema).parquet(str(scratch / "rows"))
writer = stream.writeStream.foreachBatch(lambda batch, number: print(batch.count()))
writer = writer.option("checkpointLocation", str(scratch / "seen"))
writer.trigger(availableNow=True).start().awaitTermination()
spark.stop()
jvm = SparkContext._gateway.proc
SparkContext._gateway.shutdown()
jvm.stdin.close()
jvm.wait()
"""


def say(text: str) -> None:
    print(f"spark classes: {text}", flush=True)


def maker(environ: dict[str, str]) -> str:
    """Who would write the file: the Java, and the jars of Spark."""
    import pyspark

    java = Path(environ["JAVA_HOME"], "bin", "java")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    jars = Path(pyspark.__file__).with_name("jars")
    newest = max(each.stat().st_mtime_ns for each in jars.iterdir())
    return f"{environ.get('JDK_JAVA_OPTIONS', '')}\n{java}\n{said}{jars} {newest}\n"


def write(file: Path, environ: dict[str, str], python: str) -> str:
    """Run a Spark that writes what it has loaded; gives why there is none, or nothing."""
    with tempfile.TemporaryDirectory(prefix="rocketpipe-classes-") as directory:
        made = Path(directory, "made.jsa")
        options = f'-XX:ArchiveClassesAtExit="{made}" -Xlog:disable'
        done = subprocess.run(
            [python, "-c", _WORK, directory],
            env={**environ, "SPARK_SUBMIT_OPTS": options},
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["Spark failed"])[-1]
        if not made.exists():
            return "this Java writes none"
        file.write_bytes(made.read_bytes())
    return ""


def main(arguments: list[str] | None = None, python: str = sys.executable) -> int:
    (name,) = sys.argv[1:] if arguments is None else arguments
    file = Path(ROOT, name)
    note = file.with_suffix(".txt")
    environ = dict(os.environ)
    prepare_alone(environ)
    wanted = maker(environ)
    if note.exists() and note.read_text() == wanted:
        return 0
    say("kept once for the Sparks that follow")
    file.unlink(missing_ok=True)
    reason = write(file, environ, python)
    if reason:
        say(f"not kept: {reason}")
    note.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
