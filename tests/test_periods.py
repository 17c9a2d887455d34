"""What happens from time to time happens as often as in RocketMQ.

Peers rely on these numbers: a NameServer forgets a broker, and a broker a client, that is silent
for four beats; a lock outlives two renewals that were lost. Tests elsewhere take them by name, so
only here it shows when one of them is another.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.delivery import tidying
from rocketpipe.broker.tables.clients import SILENT_MS
from rocketpipe.broker.tables.queue_locks import LOCK_MS
from rocketpipe.client import routes, session
from rocketpipe.client.consumer import pull
from rocketpipe.client.consumer.group import rebalance, start
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.producer import producer
from rocketpipe.namesrv import liveness

TUNING = PushTuning()
CONFIG = BrokerConfig(data=Path("x"))


@pytest.mark.parametrize(
    ("ms", "period_ms"),
    [
        pytest.param(session.BEAT_EVERY_MS, 30_000, id="a client tells brokers that it is there"),
        pytest.param(session.FIRST_BEAT_MS, 1000, id="it does so first"),
        pytest.param(session.ROUTES_EVERY_MS, 30_000, id="a client asks for its routes anew"),
        pytest.param(session.IDLE_MS, 120_000, id="a connection ends that nobody uses"),
        pytest.param(routes.FRESH_MS, 60_000, id="a route is used without being asked for"),
        pytest.param(rebalance.EVERY_MS, 20_000, id="queues are shared out anew"),
        pytest.param(TUNING.persist_every_ms, 5000, id="offsets are saved"),
        pytest.param(TUNING.lock_every_ms, 20_000, id="locks are renewed"),
        pytest.param(TUNING.lock_start_ms, 30_000, id="a handler is begun under a lock"),
        pytest.param(TUNING.lock_life_ms, 60_000, id="a result counts that came under a lock"),
        pytest.param(TUNING.consume_timeout_ms, 15 * 60_000, id="a handler may take"),
        pytest.param(pull.AUTO_COMMIT_MS, 5000, id="a pull consumer commits"),
        pytest.param(start.HALF_AN_HOUR_MS, 30 * 60_000, id="a group begins by time so long ago"),
        pytest.param(producer.SEND_TIMEOUT_MS, 3000, id="a send may take"),
        pytest.param(LOCK_MS, 60_000, id="a broker keeps a lock that is not renewed"),
        pytest.param(SILENT_MS, 120_000, id="a broker keeps a client that is silent"),
        pytest.param(CONFIG.register_every_ms, 30_000, id="a broker tells NameServers"),
        pytest.param(liveness.DEFAULT_TIMEOUT_MS, 120_000, id="a NameServer keeps a broker"),
        pytest.param(tidying.TIDY_FIRST_MS, 60_000, id="a broker lets old files be at first"),
        pytest.param(tidying.TIDY_EVERY_MS, 10_000, id="a broker looks for old files"),
    ],
)
def test_what_happens_from_time_to_time_happens_as_often_as_in_rocketmq(
    ms: int, period_ms: int
) -> None:
    assert ms == period_ms
