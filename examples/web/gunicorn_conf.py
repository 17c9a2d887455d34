"""How gunicorn runs django_app.py: consumers start in each worker, after the fork."""

from __future__ import annotations

preload_app = True  # the program is imported once, before the fork; without it all is the same


def post_worker_init(worker: object) -> None:
    """Start the consumers of a worker process."""
    from django_app import messaging

    messaging.start()


def worker_exit(server: object, worker: object) -> None:
    """Stop them: handlers finish what they have."""
    from django_app import messaging

    messaging.close()
