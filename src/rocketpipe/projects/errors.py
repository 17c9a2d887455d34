"""What can be wrong with a pipeline, each told in one line that names the next step."""

from __future__ import annotations

from pathlib import Path

from rocketpipe.errors import RocketPipeError


class PipelineError(RocketPipeError):
    """Something is wrong with a pipeline, or went wrong with its run."""


class NoPipeline(PipelineError):
    """There is no pipeline where the command was typed."""

    def __init__(self, place: Path) -> None:
        super().__init__(
            f"{place}: no spark-pipeline.yml here or above: change into a pipeline's folder, or "
            "make one with `rocketpipe pipeline init NAME`"
        )


class BadSpec(PipelineError):
    """The spec cannot be understood."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(f"{file}: {reason}")


class AlreadyRuns(PipelineError):
    """Another command works on this pipeline."""

    def __init__(self, name: str, pid: int | None) -> None:
        who = f", as process {pid}" if pid else ""
        super().__init__(
            f"pipeline {name} runs already{who}: wait for its end, or stop it with Ctrl-C there"
        )


class AnotherPipeline(PipelineError):
    """The folder's state was made by a pipeline of another name."""

    def __init__(self, place: Path, theirs: str, ours: str) -> None:
        super().__init__(
            f"{place} holds checkpoints and tables of pipeline {theirs!r}, not of {ours!r}: give "
            "the spec its name back, or begin anew with `rocketpipe pipeline reset`"
        )


class MovedPipeline(PipelineError):
    """The folder was moved or copied, or its spec names another storage."""

    def __init__(self, theirs: str, ours: str) -> None:
        super().__init__(
            f"its tables and checkpoints were made in {theirs}, not in {ours}, and Spark knows "
            "them by that place: move the folder back, or begin anew here with `rocketpipe "
            "pipeline reset`"
        )


class NotWritable(PipelineError):
    """What a pipeline keeps in its folder cannot be written: the disk is full, or read-only."""

    def __init__(self, place: Path, reason: OSError) -> None:
        super().__init__(
            f"{place}: {reason.strerror or reason}: make it writable, and run the pipeline again; "
            "it goes on where it was"
        )


class MissingPackage(PipelineError):
    """Spark's pipelines lack a package."""

    def __init__(self, package: str | None) -> None:
        super().__init__(
            f"declared pipelines need {package or 'more packages'}: "
            "`pip install 'pyspark[pipelines]>=4.2,<5' 'pandas<3' pyarrow`"
        )


class UnknownFlow(PipelineError):
    """The pipeline has no such flow, or not one that can be asked for this."""


class ServerFailed(PipelineError):
    """The Spark of a run did not start, or died."""
