"""The process that hands a pipeline's definitions to Spark, and says what Spark says of the run.

    python -m rocketpipe.projects.runner

It is a process of its own because users' files run in it, and because Spark's client waits for
ever for a server that has died. What to do comes as lines of JSON on standard input, what happens
goes out as lines of JSON; whatever else prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from rocketpipe.pipeline.failures import lacking
from rocketpipe.projects import folder as folders
from rocketpipe.projects.folder import Folder

Tell = Callable[..., None]


def main() -> int:
    """Do what is asked until nothing more is."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)

        def tell(event: str, **facts: object) -> None:
            out.write(json.dumps({"event": event, **facts}) + "\n")
            out.flush()

        return _serve(sys.stdin, tell)


def _serve(asked: TextIO, tell: Tell) -> int:
    spark: Any = None
    for line in asked:
        request = json.loads(line)
        folder = folders.read(Path(request["spec"]))
        try:
            if spark is None:
                spark = _session(folder)
            _pass(spark, folder, request, tell)
        except Exception as error:
            traceback.print_exc()
            tell("failed", text=told(error, folder.root))
        else:
            tell("done")
    if spark is not None:
        spark.stop()
    return 0


def _session(folder: Folder) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config("spark.sql.connect.serverStacktrace.enabled", "false")
    for key, value in folder.configuration.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _pass(spark: Any, folder: Folder, request: Mapping[str, Any], tell: Tell) -> None:
    from pyspark.pipelines import cli
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    from rocketpipe.projects.registry import Registry

    spec = cli.load_pipeline_spec(folder.spec)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS `{folder.database}`")
    graph_id = create_dataflow_graph(spark, spec.catalog, folder.database, spec.configuration)
    registry = Registry(
        spark,
        graph_id,
        pipeline=folder.name,
        name_servers=request.get("name_servers"),
        starts=request.get("starts", {}),
    )
    try:
        cli.register_definitions(folder.spec, registry, spec, spark, graph_id)
    finally:
        tell("graph", graph=registry.graph.to_json())
    results = start_run(
        spark,
        graph_id,
        full_refresh=request.get("full_refresh", []),
        full_refresh_all=False,
        refresh=[],
        dry=request.get("dry", False),
        storage=folder.storage,
    )
    for result in results:
        if "pipeline_event_result" in result:
            event = result["pipeline_event_result"].event
            tell("message", text=event.message, at_ms=event.timestamp.ToMilliseconds())


def told(error: BaseException, root: Path) -> str:
    """What is wrong, in one line, with the place in the user's files if it is there."""
    lack = lacking(str(error)) if type(error).__module__.startswith("pyspark.") else None
    if lack is not None:
        return lack
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    if type(error).__module__.startswith("pyspark."):
        if text.endswith(":") and len(lines) > 1:
            text = f"{text} {lines[1]}"
    else:
        text = f"{type(error).__name__}: {text}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_below(Path(error.filename), root)}:{error.lineno}: {text}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        place = Path(frame.filename)
        if place.is_relative_to(root):
            return f"{_below(place, root)}:{frame.lineno}: {text}"
    return text


def _below(place: Path, root: Path) -> Path:
    return place.relative_to(root) if place.is_relative_to(root) else place


if __name__ == "__main__":
    sys.exit(main())
