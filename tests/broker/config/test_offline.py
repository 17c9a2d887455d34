"""What is told of a store while no broker runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.config.offline import offline_store
from rocketpipe.errors import ConfigError


def test_files_count_and_the_environment_counts_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not offline_store(tmp_path).index_tags
    conf = tmp_path / "broker.conf"
    conf.write_text("indexTags=true\nmessageDelayLevel=1s 9s\nstorePathRootDir=/elsewhere\n")
    told = offline_store(tmp_path, [conf])
    assert (told.index_tags, told.delay_levels, told.root) == (True, "1s 9s", tmp_path)
    monkeypatch.setenv("ROCKETPIPE_INDEX_TAGS", "false")
    assert not offline_store(tmp_path, [conf]).index_tags
    conf.write_text("messageDelayLevel=soon\n")
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        offline_store(tmp_path, [conf])
