"""What the settings may say, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpipe import TlsSettings
from rocketpipe.integrations.kombu.options import Options


def test_what_is_not_said_is_as_documented() -> None:
    options = Options.of({"max_retries": 3, "interval_start": 0})
    assert options == Options()
    assert (options.visibility_timeout, options.max_deliveries) == (60, 100)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"visibilty_timeout": 5}, "is 'visibility_timeout' meant"),
        ({"fanout_prefix": True}, "there are access_key"),
        ({"visibility_timeout": 0}, "a number from 1 to"),
        ({"visibility_timeout": "1h"}, "a number from 1 to"),
        ({"topic_queues": True}, "a number from 1 to"),
        ({"priority_steps": [3, 6]}, "0 among them"),
        ({"priority_steps": [0, 11]}, "from 0 to 9"),
    ],
)
def test_what_makes_no_sense_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Options.of(given)


def test_a_secret_is_not_printed() -> None:
    assert "hush" not in repr(Options.of({"secret_key": "hush"}))


def test_tls_is_said_as_celery_says_it_or_as_ours() -> None:
    assert Options().tls_settings(False) is None  # the environment's business
    assert Options().tls_settings(True) is True
    assert Options(tls=False).tls_settings(False) is False
    asked = Options().tls_settings({"ssl_ca_certs": "ca.pem", "certfile": "c", "keyfile": "k"})
    assert asked == TlsSettings(ca_file="ca.pem", cert_file="c", key_file="k")
    assert Options(ca_file="ca.pem", verify=False).tls_settings(False) == TlsSettings(
        ca_file="ca.pem", verify=False
    )
    with pytest.raises(ValueError, match="broker_use_ssl has no 'ciphers'"):
        Options().tls_settings({"ciphers": "x"})
