"""What deploy/spark asks of the Spark operator is what it knows, and our command too.

The fields are those of SparkApplication v1beta2 in the operator's CustomResourceDefinition (main of
2026-08); a field that it does not know is dropped by Kubernetes without a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml
from tests.dockerfile import DEPLOY, ROOT
from tests.test_deploy import command

from rocketpipe.cli import submitted
from rocketpipe.client.credentials import ACCESS_KEY, SECRET_KEY_FILE

SPARK = DEPLOY / "spark"
REQUIRED = {"driver", "executor", "mainApplicationFile", "sparkVersion", "type"}
FIELDS = REQUIRED | {
    *("arguments", "batchScheduler", "batchSchedulerOptions", "deps", "driverIngressOptions"),
    *("driverPodDisruptionBudget", "dynamicAllocation", "failureRetries", "hadoopConf"),
    *("hadoopConfigMap", "image", "imagePullPolicy", "imagePullSecrets", "mainClass"),
    *("memoryOverheadFactor", "mode", "monitoring", "nodeSelector", "proxyUser", "pythonVersion"),
    *("restartPolicy", "retryInterval", "sparkConf", "sparkConfigMap", "sparkUIOptions"),
    *("suspend", "timeToLiveSeconds", "volumes"),
}
#: Of those that driver and executor both have.
POD_FIELDS = {
    *("affinity", "annotations", "configMaps", "coreLimit", "coreRequest", "cores", "env"),
    *("envFrom", "image", "initContainers", "javaOptions", "labels", "memory", "memoryLimit"),
    *("memoryOverhead", "nodeSelector", "podSecurityContext", "secrets", "securityContext"),
    *("serviceAccount", "sidecars", "template", "terminationGracePeriodSeconds", "tolerations"),
    "volumeMounts",
}
RESTART_FIELDS = {
    *("onFailureRetries", "onFailureRetryInterval", "onSubmissionFailureRetries"),
    *("onSubmissionFailureRetryInterval", "type"),
}


@pytest.fixture(autouse=True)
def _environment_put_back() -> Iterator[None]:
    """Flags of TLS speak to whatever a command opens by the environment."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((SPARK / name).read_text()))


@pytest.fixture(params=["table.yaml", "pipeline.yaml"])
def spec(request: pytest.FixtureRequest) -> dict[str, Any]:
    *_, application = documents(request.param)
    assert application["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    assert application["kind"] == "SparkApplication"
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", application["metadata"]["name"])
    found: dict[str, Any] = application["spec"]
    return found


def test_the_operator_knows_every_field(spec: dict[str, Any]) -> None:
    assert spec.keys() >= REQUIRED
    assert spec.keys() <= FIELDS
    assert (spec["type"], spec["mode"]) == ("Python", "cluster")
    assert spec["driver"].keys() <= POD_FIELDS
    assert spec["executor"].keys() <= POD_FIELDS | {"instances", "deleteOnTermination"}
    assert spec["restartPolicy"].keys() <= RESTART_FIELDS
    assert spec["restartPolicy"]["type"] in ("Never", "Always", "OnFailure")
    assert isinstance(spec["sparkVersion"], str)
    assert all(isinstance(word, str) for word in spec["arguments"])


def test_what_is_submitted_is_our_command(spec: dict[str, Any]) -> None:
    place = PurePosixPath(spec["mainApplicationFile"].removeprefix("local://"))
    assert place.parts[-3:] == ("rocketpipe", "cli", "submitted.py")
    assert submitted.__file__.endswith("/".join(place.parts[-3:]))
    options = command(spec["arguments"])
    assert (options.master, options.remote) == (None, None)  # the operator says where
    assert (options.command, options.verb) in {("table", "follow"), ("pipeline", "run")}
    mounts = {each["mountPath"] for each in spec["driver"]["volumeMounts"]}
    kept = options.to if options.command == "table" else str(options.folder)
    assert f"/{PurePosixPath(kept).parts[1]}" in mounts


def test_secrets_are_files_of_driver_and_executors(spec: dict[str, Any]) -> None:
    for pod in (spec["driver"], spec["executor"]):
        (secret,) = pod["secrets"]
        assert secret.keys() == {"name", "path", "secretType"}
        told = {each["name"]: each["value"] for each in pod["env"]}
        assert told.keys() == {ACCESS_KEY, SECRET_KEY_FILE}
        assert told[SECRET_KEY_FILE].startswith(f"{secret['path']}/")
        assert pod["securityContext"]["runAsNonRoot"] is True
    assert command(spec["arguments"]).ca_file.startswith(f"{secret['path']}/")
    volumes = {each["name"] for each in spec["volumes"]}
    for pod in (spec["driver"], spec["executor"]):
        assert {each["name"] for each in pod["volumeMounts"]} == volumes


def test_one_volume_is_there_and_many_pods_may_write_it() -> None:
    claim, _ = documents("table.yaml")
    assert (claim["kind"], claim["metadata"]["name"]) == ("PersistentVolumeClaim", "lake")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_the_image_has_the_version_that_the_operator_is_told(spec: dict[str, Any]) -> None:
    text = (SPARK / "Dockerfile").read_text()
    version = re.search(r"^ARG SPARK=(.+)$", text, re.M)
    assert version is not None
    assert version[1] == spec["sparkVersion"]
    python = re.search(r"^FROM python:(\d+\.\d+)-", text, re.M)
    assert python is not None
    assert f"/python{python[1]}/" in spec["mainApplicationFile"]
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in (SPARK / "Dockerfile.dockerignore").read_text().splitlines()
