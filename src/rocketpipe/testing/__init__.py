"""What this project's own tests stand on, for its users' tests too."""

from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.cluster import Cluster, cluster
from rocketpipe.testing.kit import Kit, kit
from rocketpipe.testing.pipelines import PipelineCopy
from rocketpipe.testing.servers import Servers, ServersFailed, serving

__all__ = [
    "Cluster",
    "Kit",
    "ManualClock",
    "PipelineCopy",
    "Servers",
    "ServersFailed",
    "cluster",
    "kit",
    "serving",
]
