"""Pipelines: what became of the last run of each folder that the console was told of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rocketpipe.console.asking import Ask, get
from rocketpipe.errors import RocketPipeError


async def pipelines(ask: Ask) -> dict[str, Any]:
    """The last run of each, with its flows; folders are named when the console starts."""
    folders = ask.console.config.pipelines
    rows = await asyncio.gather(*(asyncio.to_thread(_last_run, folder) for folder in folders))
    return {
        "rows": rows,
        "configured": bool(folders),
        "complete": True,
        "as_of_ms": ask.as_of_ms(),
    }


def _last_run(root: Path) -> dict[str, Any]:
    # Only here: who has no pipelines does not load what they are made of.
    from rocketpipe.projects import folder, records
    from rocketpipe.projects.lock import holder

    try:
        ours = folder.find(root)
        run = records.last(ours)
    except (RocketPipeError, OSError) as error:
        return {"name": root.name, "problem": str(error)}
    if run is None:
        return {"name": ours.name, "state": None, "flows": []}
    died = run.state == "running" and holder(ours) is None
    return {
        "name": ours.name,
        "run": run.run,
        "state": "died" if died else run.state,
        "began_ms": run.began_ms,
        "ended_ms": run.ended_ms,
        "error": run.error,
        "flows": [
            {
                "name": flow.name,
                "target": flow.target,
                "state": "stopped" if died and flow.state == "running" else flow.state,
                "rows": flow.rows,
                "batches": flow.batches,
                "last_batch_ms": flow.last_batch_ms,
                "state_rows": flow.state_rows,
                "error": flow.error,
                "topics": sorted(flow.ends),
            }
            for flow in run.flows.values()
        ],
        "rules": [
            {
                "flow": rule.flow,
                "rule": rule.rule,
                "action": rule.action,
                "rows": rule.rows,
                "failed": rule.failed,
            }
            for rule in run.rules
        ],
    }


ENDPOINTS = (get("/pipelines", pipelines),)
