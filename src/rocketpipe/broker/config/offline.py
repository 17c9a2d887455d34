"""The settings with which a broker opens its store, for those who open it while no broker does."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rocketpipe.broker.config.loading import broker_settings, load_broker
from rocketpipe.config.load import Given, given_in_environment, given_in_file
from rocketpipe.store.config import StoreConfig


def offline_store(root: Path, files: Iterable[Path] = ()) -> StoreConfig:
    """What a broker would be told of the store in a directory, by its files and the environment.

    Raises:
        ConfigError: If a file cannot be read, or a value is wrong.
    """
    given: list[Given] = []
    for file in files:
        given += given_in_file(file, ("broker", "store"))
    given += given_in_environment(os.environ, broker_settings(), name_servers=False)
    given.append(Given("storePathRootDir", str(root), "DIR"))
    loaded = load_broker(given).config
    return loaded.store or StoreConfig(root=root, delay_levels=loaded.delay_levels)
