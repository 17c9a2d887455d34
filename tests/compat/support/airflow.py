"""A real Airflow: its scheduler, triggerer, dag processor and API server, as processes.

It is installed from what ``requirements/airflow.txt`` pins, once, into the user's cache, and our
package beside it as pip would. All that it writes goes below the directory that a test gives.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.compat.clients.installing import ROOT, kept, run

STOP_S = 60


def airflow_python() -> Path:
    """A Python with Airflow."""
    pinned = ROOT / "requirements" / "airflow.txt"

    def fetch(into: Path) -> None:
        run(["uv", "venv", "--quiet", "--python", sys.executable, "venv"], into, "uv", os.environ)
        install = ["uv", "pip", "install", "--quiet", "--python", "venv/bin/python"]
        run([*install, "--require-hashes", "-r", str(pinned)], into, "PyPI", os.environ)

    return kept("airflow", [pinned], fetch) / "venv" / "bin" / "python"


def install_ours(python: Path, into: Path) -> None:
    """Put our package where Airflow finds it with its entry point, as it is now."""
    command = ["uv", "pip", "install", "--quiet", "--python", str(python), "--no-deps"]
    pure = {**os.environ, "ROCKETPIPE_PURE": "1"}
    run([*command, "--target", str(into), str(ROOT)], into.parent, "PyPI", pure)


class Airflow:
    """One installation with its database, and the parts of it that run."""

    def __init__(self, home: Path, dags: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self._python = airflow_python()
        self._home = home
        (home / "dags").mkdir(parents=True)
        install_ours(self._python, home / "ours")
        for name, text in dags.items():
            (home / "dags" / name).write_text(text)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._environment = {
            **os.environ,
            **environment,
            "PYTHONPATH": str(home / "ours"),
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
            "AIRFLOW__API__SECRET_KEY": "for this test alone",
            "AIRFLOW__API_AUTH__JWT_SECRET": "for this test alone " * 4,
            "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
            "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        }
        self._parts: dict[str, subprocess.Popen[bytes]] = {}

    def command(self, *words: str) -> str:
        """Run a command of Airflow's to its end, and give what it printed."""
        done = subprocess.run(
            [self._python, "-m", "airflow", *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, part: str) -> None:
        """Start the scheduler, the triggerer, or another part."""
        with (self._home / f"{part}.log").open("ab") as log:
            self._parts[part] = subprocess.Popen(
                [self._python, "-m", "airflow", part],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, part: str) -> None:
        """kill -9 of a part and all its children."""
        process = self._parts.pop(part)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def log(self, part: str) -> str:
        """What a part said."""
        path = self._home / f"{part}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def check(self) -> None:
        """Say which part ended by itself, if one did."""
        for part, process in self._parts.items():
            assert process.poll() is None, f"{part} ended: {self.log(part)[-3000:]}"

    def close(self) -> None:
        """End all parts."""
        for part in tuple(self._parts):
            self.kill(part)
