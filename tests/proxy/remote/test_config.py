"""What ``rocketpipe proxy`` is told."""

from __future__ import annotations

import pytest

from rocketpipe.config.load import Given
from rocketpipe.errors import ConfigError
from rocketpipe.proxy.remote.config import ProxyServerConfig, load_proxy, proxy_items


def test_without_a_word_it_is_as_its_class_has_it() -> None:
    config, choice = load_proxy([])
    assert config == ProxyServerConfig()
    assert choice.warnings() == []


def test_every_setting_is_listed_with_its_origin() -> None:
    config, choice = load_proxy([Given("grpcServerPort", "0", "f line 1")])
    rows = {key: (text, origin) for key, text, origin in proxy_items(config, choice)}
    assert rows["grpcServerPort"] == ("0", "f line 1")
    assert rows["namesrvAddr"] == ("127.0.0.1:9876", "default")


@pytest.mark.parametrize(
    ("key", "text"), [("grpcServerPort", "70000"), ("namesrvAddr", "a;b"), ("maxMessageSize", "0")]
)
def test_a_wrong_value_is_refused(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load_proxy([Given(key, text, "f line 1")])
