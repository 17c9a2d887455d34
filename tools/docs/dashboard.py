"""Print the dashboard for Grafana: python -m tools.docs.dashboard > deploy/grafana/rocketpipe.json.

Panels are data: a title, a unit, and what is asked of Prometheus with the words of its legend.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_WIDTH: Final = 8
_HEIGHT: Final = 7
_COLUMNS: Final = 24
_HERE: Final = 'cluster=~"$cluster",node_id=~"$broker"'
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True)
class Panel:
    """One picture: what is asked, with legends; HERE stands for the choice of brokers."""

    title: str
    unit: str
    asks: tuple[tuple[str, str], ...]
    text: str = ""


def _rate(name: str, by: str, **labels: str) -> str:
    chosen = "".join(f',{label}="{value}"' for label, value in labels.items())
    return f"sum by ({by}) (rate({name}{{HERE{chosen}}}[$__rate_interval]))"


ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Traffic",
        (
            Panel(
                "Messages in",
                "cps",
                ((_rate("rocketmq_messages_in_total", "topic", is_system="false"), "{{topic}}"),),
            ),
            Panel(
                "Messages out",
                "cps",
                (
                    (
                        _rate("rocketmq_messages_out_total", "consumer_group", is_system="false"),
                        "{{consumer_group}}",
                    ),
                ),
            ),
            Panel(
                "Bytes in and out",
                "Bps",
                (
                    (_rate("rocketmq_throughput_in_total", "node_id"), "in {{node_id}}"),
                    (_rate("rocketmq_throughput_out_total", "node_id"), "out {{node_id}}"),
                ),
            ),
            Panel(
                "99 % of answers within",
                "ms",
                (
                    (
                        "histogram_quantile(0.99, "
                        + _rate(
                            "rocketmq_rpc_latency_milliseconds_bucket",
                            "le, request_code",
                            is_long_polling="false",
                        )
                        + ")",
                        "{{request_code}}",
                    ),
                ),
                "Without those that waited for a message.",
            ),
            Panel(
                "Size of messages",
                "bytes",
                (
                    (
                        "histogram_quantile(0.5, "
                        + _rate("rocketmq_message_size_bucket", "le, topic", is_system="false")
                        + ")",
                        "{{topic}}",
                    ),
                ),
                "Half of them are smaller.",
            ),
            Panel(
                "Sends that failed",
                "cps",
                ((_rate("rocketpipe_failed_puts_total", "node_id"), "{{node_id}}"),),
            ),
        ),
    ),
    (
        "Groups",
        (
            Panel(
                "Lag",
                "short",
                (
                    (
                        "sum by (consumer_group, topic) "
                        '(rocketmq_consumer_lag_messages{HERE,is_system="false"})',
                        "{{consumer_group}} {{topic}}",
                    ),
                ),
                "Messages that are not consumed.",
            ),
            Panel(
                "Lag in time",
                "s",
                (
                    (
                        "max by (consumer_group, topic) (rocketpipe_consumer_lag_seconds{HERE})",
                        "{{consumer_group}} {{topic}}",
                    ),
                ),
                "How long the next message has waited.",
            ),
            Panel(
                "In flight",
                "short",
                (
                    (
                        "sum by (consumer_group, topic) "
                        "(rocketmq_consumer_inflight_messages{HERE})",
                        "{{consumer_group}} {{topic}}",
                    ),
                ),
                "Popped, and not acknowledged.",
            ),
            Panel(
                "Dead letters",
                "short",
                (
                    (
                        "sum by (consumer_group, topic) "
                        "(increase(rocketmq_send_to_dlq_messages_total{HERE}[1h]))",
                        "{{consumer_group}} {{topic}}",
                    ),
                ),
                "In the last hour.",
            ),
            Panel(
                "Consumers",
                "short",
                (
                    (
                        "sum by (consumer_group) (rocketmq_consumer_connections{HERE})",
                        "{{consumer_group}}",
                    ),
                ),
            ),
            Panel(
                "Clients",
                "short",
                (
                    (
                        "sum by (language, version) (rocketmq_producer_connections{HERE})",
                        "producers {{language}} {{version}}",
                    ),
                    (
                        "sum by (language, version) (rocketmq_consumer_connections{HERE})",
                        "consumers {{language}} {{version}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "Waiting",
        (
            Panel(
                "Open transactions",
                "short",
                (("sum by (topic) (rocketmq_half_messages{HERE})", "{{topic}}"),),
            ),
            Panel(
                "Ends of transactions",
                "cps",
                (
                    (_rate("rocketmq_commit_messages_total", "topic"), "committed {{topic}}"),
                    (_rate("rocketmq_rollback_messages_total", "topic"), "rolled back {{topic}}"),
                ),
            ),
            Panel(
                "Delayed messages, pulls and sends that wait",
                "short",
                (
                    ("sum by (node_id) (rocketmq_timing_messages{HERE})", "delayed {{node_id}}"),
                    ("sum by (node_id) (rocketpipe_waiting_pulls{HERE})", "pulls {{node_id}}"),
                    ("sum by (node_id) (rocketpipe_waiting_sends{HERE})", "sends {{node_id}}"),
                ),
            ),
        ),
    ),
    (
        "Brokers",
        (
            Panel(
                "Free disk",
                "percentunit",
                (
                    (
                        "rocketpipe_disk_free_bytes{HERE} / rocketpipe_disk_bytes{HERE}",
                        "{{node_id}}",
                    ),
                ),
            ),
            Panel("Log", "bytes", (("rocketpipe_log_bytes{HERE}", "{{node_id}}"),)),
            Panel(
                "Oldest message",
                "ms",
                (
                    (
                        "rocketmq_storage_message_reserve_time_milliseconds{HERE}",
                        "{{node_id}}",
                    ),
                ),
            ),
            Panel(
                "Behind",
                "bytes",
                (
                    ("rocketmq_storage_flush_behind_bytes{HERE}", "disk {{node_id}}"),
                    ("rocketmq_storage_dispatch_behind_bytes{HERE}", "queues {{node_id}}"),
                ),
            ),
            Panel(
                "Topics and groups",
                "short",
                (
                    ("max by (cluster) (rocketmq_topic_number{HERE})", "topics"),
                    ("max by (cluster) (rocketmq_consumer_group_number{HERE})", "groups"),
                ),
            ),
            Panel(
                "Damage found",
                "short",
                (
                    ("rocketpipe_damaged_records_total{HERE}", "records {{node_id}}"),
                    ("rocketpipe_repairs_total{HERE}", "repairs {{node_id}}"),
                ),
            ),
        ),
    ),
    (
        "Replicas",
        (
            Panel(
                "In sync",
                "short",
                (
                    ("rocketpipe_replication_in_sync{HERE}", "{{node_id}}"),
                    ("rocketpipe_replication_min_in_sync{HERE}", "at least {{node_id}}"),
                ),
            ),
            Panel(
                "Followers behind",
                "bytes",
                (
                    (
                        "rocketpipe_replication_follower_lag_bytes{HERE}",
                        "{{node_id}} {{follower}}",
                    ),
                ),
            ),
            Panel("Epoch", "short", (("rocketpipe_replication_epoch{HERE}", "{{node_id}}"),)),
        ),
    ),
    (
        "Spark",
        (
            Panel(
                "Rows",
                "cps",
                (("sum by (query) (rate(rocketpipe_query_rows_total[5m]))", "{{query}}"),),
            ),
            Panel("Behind", "short", (("rocketpipe_query_lag", "{{query}} {{topic}}"),)),
            Panel("Last batch", "s", (("rocketpipe_query_last_batch_seconds", "{{query}}"),)),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "title": "RocketPipe",
        "uid": "rocketpipe",
        "tags": ["rocketpipe", "rocketmq"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"},
                _variable("cluster", "Cluster", "label_values(rocketmq_topic_number, cluster)"),
                _variable(
                    "broker",
                    "Broker",
                    'label_values(rocketmq_topic_number{cluster=~"$cluster"}, node_id)',
                ),
            ]
        },
        "panels": list(_panels()),
    }


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for title, panels in ROWS:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": y},
        }
        y += 1
        for place, panel in enumerate(panels):
            number += 1
            x, line = place * _WIDTH % _COLUMNS, place * _WIDTH // _COLUMNS
            yield _panel(number, panel, x, y + line * _HEIGHT)
        y += _HEIGHT * -(-len(panels) * _WIDTH // _COLUMNS)


def _panel(number: int, panel: Panel, x: int, y: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": x, "y": y},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10}},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _SOURCE,
                "expr": expression.replace("HERE", _HERE),
                "legendFormat": legend,
            }
            for place, (expression, legend) in enumerate(panel.asks)
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n")
