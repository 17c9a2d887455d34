"""What flows do, in the folder's log and on a port."""

from __future__ import annotations

import logging
from urllib.request import urlopen

from rocketpipe.pipeline import listening
from rocketpipe.pipeline.figures import Figures
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.records import Run
from rocketpipe.projects.telling import LOG_NAME, Teller, batches_told

PROGRESS = {
    "name": "spark_catalog.shop.orders",
    "batchId": 2,
    "batchDuration": 40,
    "durationMs": {"addBatch": 30},
    "sources": [{"numInputRows": 9}],
}


def test_a_batch_is_a_line_in_the_folder_and_a_figure_on_the_port(shop: Folder) -> None:
    shop.own.mkdir()
    said: list[str] = []
    level = listening.log.level
    with batches_told(shop, 0, said.append) as teller:
        teller.heard(PROGRESS)
        teller.heard({**PROGRESS, "durationMs": {}})
        (address,) = [text.removeprefix("metrics at ") for text in said]
        with urlopen(address, timeout=30) as answer:
            assert 'rocketpipe_query_rows_total{query="orders"} 9' in answer.read().decode()
    (line,) = (shop.own / LOG_NAME).read_text().splitlines()
    assert line.endswith("batch query=orders number=2 rows=9 took_ms=40")
    assert (listening.log.level, listening.log.handlers) == (level, [])


def test_without_a_port_there_is_the_log_alone(shop: Folder) -> None:
    shop.own.mkdir()
    said: list[str] = []
    with batches_told(shop, None, said.append) as teller:
        teller.heard(PROGRESS)
    assert said == []
    assert "rows=9" in (shop.own / LOG_NAME).read_text()
    assert logging.getLogger("rocketpipe.pipeline.queries").handlers == []


def test_a_flow_that_failed_is_told_until_a_run_in_which_it_did_not() -> None:
    figures = Figures()
    teller = Teller(figures)
    run = Run.new("shop", 0)
    run.take_message("Flow 'orders' has FAILED.\nError: no broker")
    teller.ended(run)
    assert figures.problem() == "query orders failed: no broker"
    again = Run.new("shop", 1)
    again.take_message("Flow 'orders' has COMPLETED.")
    teller.ended(again)
    assert figures.problem() is None
