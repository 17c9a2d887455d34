"""Verbs of RocketMQ's mqadmin that are not here, and what does their work."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_LOOK: Final = "nothing here has what it is about"
_NO_CONTROLLER: Final = "there is no controller: rocketpipe cluster status shows who leads"
_BENCH: Final = "try rocketpipe bench produce TOPIC"
_EXPORT: Final = "try rocketpipe topic list -o json, rocketpipe group list -o json"

#: What to do instead, by verb.
ELSEWHERE: Final = MappingProxyType(
    {
        "addBroker": "rocketpipe broker runs one",
        "allocateMQ": "try rocketpipe client show GROUP CLIENT",
        "brokerConsumeStats": "try rocketpipe group list",
        "checkMsgSendRT": _BENCH,
        "clusterRT": _BENCH,
        "consumeMessage": "try rocketpipe message tail TOPIC",
        "consumerStatus": "try rocketpipe client list --group GROUP, rocketpipe client show",
        "getAclConfig": "no broker tells secrets: try listUser, listAcl, or rocketpipe acl list",
        "exportConfigs": "try rocketpipe broker config NAME -o json",
        "exportMetadata": _EXPORT,
        "exportMetrics": "try /metrics of a server with --http, or rocketpipe broker show NAME",
        "printMsgByQueue": "try rocketpipe message tail TOPIC --queue N --from earliest",
        "queryCq": "try rocketpipe store dump DIR --topic TOPIC --queue N",
        "queryMsgTraceById": "try Admin.traces, in Python",
        "removeBroker": "stop it; rocketpipe broker forget, for a replica that is gone for good",
        "sendMsgStatus": _BENCH,
        "startMonitoring": "try rocketpipe doctor",
        "statsAll": "try rocketpipe topic list --stats, rocketpipe group list",
        "updateSubGroupList": "try updateSubGroup, once for each",
        "updateTopicList": "try updateTopic, once for each",
        **dict.fromkeys(
            (
                "cleanBrokerMetadata",
                "getControllerConfig",
                "getControllerMetaData",
                "updateControllerConfig",
            ),
            _NO_CONTROLLER,
        ),
        **dict.fromkeys(
            (
                "checkRocksdbCqWriteProgress",
                "dumpCompactionLog",
                "exportMetadataInRocksDB",
                "exportPopRecord",
                "getColdDataFlowCtrInfo",
                "remappingStaticTopic",
                "removeColdDataFlowCtrGroupConfig",
                "resetMasterFlushOffset",
                "rocksDBConfigToJson",
                "setCommitLogReadAheadMode",
                "setConsumeMode",
                "updateColdDataFlowCtrGroupConfig",
                "updateStaticTopic",
            ),
            _LOOK,
        ),
    }
)
