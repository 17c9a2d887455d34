"""What Airflow is told of RocketPipe when it looks for providers; nothing of its own is loaded."""

from __future__ import annotations


def get_provider_info() -> dict[str, object]:
    """The entry point ``apache_airflow_provider``."""
    return {
        "package-name": "rocketpipe",
        "name": "RocketPipe",
        "description": "Messages of RocketPipe and RocketMQ that start DAGs",
        "queues": ["rocketpipe.integrations.airflow.RocketPipeQueueProvider"],
        "triggers": [
            {
                "integration-name": "RocketPipe",
                "python-modules": ["rocketpipe.integrations.airflow"],
            }
        ],
    }
