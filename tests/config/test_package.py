"""docs/reference/configuration.md says what the classes say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rocketpipe.broker.config.loading import broker_settings, load_broker
from rocketpipe.config.load import given_in_file
from rocketpipe.config.setting import settings_of
from rocketpipe.namesrv.config import NamesrvConfig

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "configuration.md"


def test_the_page_is_what_the_program_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "tools.docs.configuration"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout.decode()
    assert PAGE.read_text() == printed, (
        "python -m tools.docs.configuration > docs/reference/configuration.md"
    )


def test_every_setting_has_a_line_with_a_word_of_help() -> None:
    page = PAGE.read_text()
    for one in (*broker_settings(), *settings_of(NamesrvConfig)):
        assert f"`{one.attribute}`" in page
        assert one.help, f"{one.key} says nothing about itself"


def test_the_sample_in_the_page_can_be_used(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    sample = tmp_path / "sample.toml"
    sample.write_text(found[1])
    loaded = load_broker(given_in_file(sample, ("broker", "store")))
    assert loaded.choice.warnings() == []
    assert not loaded.config.auto_create_topics
