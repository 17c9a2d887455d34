"""The same in Django, in one file: orders become messages, and messages become invoices.

    rocketpipe serve --data data
    gunicorn --chdir examples/web -c examples/web/gunicorn_conf.py -w 2 django_app:application
    uvicorn --app-dir examples/web django_app:asgi --workers 2         the same by ASGI
    curl -X POST 127.0.0.1:8000/orders -d tea

Nothing is opened at import: a server may import this before it forks, or after.
"""

from __future__ import annotations

import os

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_POST

from rocketpipe import ReceivedMessage, RocketPipeError
from rocketpipe.integrations.wsgi import Messaging

messaging = Messaging(os.environ.get("ROCKETPIPE_NAMESRV", "127.0.0.1:9876"))
billing = messaging.consumer(group="django-billing", start="first")


@billing.on("django-orders")
def bill(message: ReceivedMessage) -> None:
    """Write an invoice: one more message. It runs in a thread of the consumer's."""
    messaging.producer.send("django-invoices", message.body, keys=message.keys)


@require_POST
def create(request: HttpRequest) -> JsonResponse:
    """Take an order: once this is answered, it is not lost."""
    try:
        sent = messaging.producer.send("django-orders", request.body)
    except RocketPipeError as error:
        return JsonResponse({"reason": str(error)}, status=503 if error.retryable else 500)
    return JsonResponse({"id": sent.message_id, "process": str(os.getpid())}, status=202)


def ready(request: HttpRequest) -> JsonResponse:
    """Tell a load balancer whether to send requests here."""
    readiness = messaging.readiness()
    return JsonResponse({"reason": readiness.reason}, status=200 if readiness else 503)


urlpatterns = [path("orders", create), path("ready", ready)]

settings.configure(
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("SECRET_KEY", "only for this example"),
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
)
django.setup()

application = get_wsgi_application()
asgi = messaging.around(get_asgi_application())
