"""Apache Kafka as a peer: broker and controller in one process, from Maven's jars."""

from __future__ import annotations

import os
import subprocess
from typing import Final

import pytest
from benchmarks.broker.generator import QUEUES, Unavailable
from benchmarks.broker.peer import Durability, Peer, Start
from tests.compat.support.apache import find_jars

from rocketpipe.pipeline.java import find_java

VERSION: Final = "4.1.1"
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
FORMAT_TIMEOUT_S: Final = 60


def kafka() -> Peer:
    """Kafka with its defaults, a heap of 1 GiB and as many partitions as the others have queues.

    Raises:
        Unavailable: If there is no Java, or Maven cannot fetch the jars.
    """
    java = find_java(os.environ)
    if java is None:
        raise Unavailable("no Java that can run Kafka")
    wanted = [f"org.apache.kafka:kafka_2.13:{VERSION}"]
    try:
        jars = find_jars("kafka", VERSION, wanted, java.home)
    except pytest.skip.Exception as error:
        raise Unavailable(str(error)) from error
    program = [str(java.home / "bin" / "java"), "-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC"]
    program += ["-cp", f"{jars}/*"]

    def command(start: Start) -> list[str]:
        conf = start.directory / "server.properties"
        conf.write_text(_settings(start))
        if not (start.directory / "logs").exists():
            form = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(conf)]
            subprocess.run(
                [*program, *form],
                cwd=start.directory,
                capture_output=True,
                timeout=FORMAT_TIMEOUT_S,
                check=True,
            )
        return [*program, "kafka.Kafka", str(conf)]

    return Peer(
        name="kafka",
        title=f"Apache Kafka {VERSION}",
        durability=Durability(
            "acks=1: once the system has it; synced when a segment is full",
            "log.flush.interval.messages=1",
        ),
        protocols={
            "send": "kafka",
            "batch": "kafka-batch",
            "pull": "kafka-fetch",
            "stream": "kafka",
        },
        command=command,
        most_topics=1,  # making ten thousand would take longer than all else
        warmup_s=20.0,
    )


def _settings(start: Start) -> str:
    controller = f"127.0.0.1:{start.port + 1}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{start.port},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{start.port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": start.directory / "logs",
        "num.partitions": QUEUES,
        "auto.create.topics.enable": "true",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    if start.sync:
        settings["log.flush.interval.messages"] = 1
    return "".join(f"{name}={value}\n" for name, value in settings.items())
