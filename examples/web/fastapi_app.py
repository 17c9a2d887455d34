"""A web service that sends a message for each order, and writes an invoice for each message.

    rocketpipe serve --data data
    uvicorn --app-dir examples/web fastapi_app:app --workers 2
    curl -X POST 127.0.0.1:8000/orders -H 'content-type: application/json' -d '{"item": "tea"}'

Each worker process has a producer and a member of the group. On SIGTERM handlers finish what they
have, and what was not handled is left to the next who comes.
"""

from __future__ import annotations

import json
import os

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from rocketpipe import ReceivedMessage, RocketPipeError
from rocketpipe.integrations.asgi import Messaging

messaging = Messaging(os.environ.get("ROCKETPIPE_NAMESRV", "127.0.0.1:9876"))
billing = messaging.consumer(group="fastapi-billing", start="first")
app = FastAPI(lifespan=messaging.lifespan)


class Order(BaseModel):
    """What a customer wants."""

    item: str


@billing.on("fastapi-orders")
async def bill(message: ReceivedMessage) -> None:
    """Write an invoice: one more message."""
    order = json.loads(message.body)
    await messaging.producer.send("fastapi-invoices", order["item"].encode(), keys=message.keys)


@app.post("/orders", status_code=202)
async def create(order: Order) -> dict[str, str]:
    """Take an order: once this is answered, it is not lost."""
    sent = await messaging.producer.send("fastapi-orders", order.model_dump_json().encode())
    return {"id": sent.message_id or "", "process": str(os.getpid())}


@app.get("/ready")
async def ready() -> JSONResponse:
    """Tell a load balancer whether to send requests here."""
    readiness = await messaging.readiness()
    return JSONResponse({"reason": readiness.reason}, 200 if readiness else 503)


@app.exception_handler(RocketPipeError)
async def broker_away(request: Request, error: RocketPipeError) -> JSONResponse:
    """Say that an order may be sent again, if so, or that it cannot be taken."""
    return JSONResponse({"reason": str(error)}, 503 if error.retryable else 500)
