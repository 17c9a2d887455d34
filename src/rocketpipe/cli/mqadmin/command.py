"""``rocketpipe mqadmin``: RocketMQ's own verbs and flags, for scripts and for hands that know them.

As with the original, nothing is asked before it is done. What is printed has the original's titles.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from rocketpipe.cli.mqadmin import (
    brokers,
    clients,
    groups,
    messages,
    name_servers,
    plain_accounts,
    replicas,
    topics,
    upkeep,
    users,
)
from rocketpipe.cli.mqadmin.elsewhere import ELSEWHERE
from rocketpipe.cli.mqadmin.flags import OriginalVerbs
from rocketpipe.cli.parsers import Help, Parser

EXAMPLES: Final = """\
examples:
  rocketpipe mqadmin clusterList -n 127.0.0.1:9876
  rocketpipe mqadmin updateTopic -n 127.0.0.1:9876 -c DefaultCluster -t orders -r 4 -w 4
  rocketpipe mqadmin consumerProgress -n 127.0.0.1:9876 -g shop
  rocketpipe mqadmin resetOffsetByTime -g shop -t orders -s now
  rocketpipe-mqadmin topicStatus -t orders

Unlike our own commands these ask nothing before they destroy, as the original.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the original verbs."""
    parser.epilog = EXAMPLES
    parser.formatter_class = Help
    if isinstance(parser, Parser):
        parser.elsewhere = ELSEWHERE
    verbs = OriginalVerbs(parser)
    nouns = (brokers, upkeep, replicas, topics, groups, clients, messages, name_servers)
    for noun in (*nouns, users, plain_accounts):
        noun.add_verbs(verbs)


def main() -> int:
    """Run ``rocketpipe-mqadmin``, which is ``rocketpipe mqadmin``."""
    from rocketpipe.cli.main import main as whole

    return whole(["mqadmin", *sys.argv[1:]])
