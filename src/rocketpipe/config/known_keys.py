"""Every key that RocketMQ's own servers read, so that its files are taken as they are.

The names are those of the setters of its configuration classes (4.9.8 to 5.3.4), by which it fills
them from a file. A key that stands here and that no part of ours uses has no effect, and the user
is told so; any other name is a mistake.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Of the port and the connections, for either server.
_REMOTING: Final = _words(
    """
        bindAddress channelNotActiveInterval clientAsyncSemaphoreValue
        clientCallbackExecutorThreads clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout
        clientOnewaySemaphoreValue clientPooledByteBufAllocatorEnable clientSocketRcvBufSize
        clientSocketSndBufSize clientWorkerThreads connectTimeoutMillis disableCallbackExecutor
        disableNettyWorkerGroup enableReconnectForGoAway enableShutdownGracefully listenPort
        maxReconnectIntervalTimeSeconds scanAvailableNameSrv serverAsyncSemaphoreValue
        serverCallbackExecutorThreads serverChannelMaxIdleTimeSeconds
        serverNettyWorkerGroupEnable serverOnewaySemaphoreValue
        serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog
        serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads
        shutdownWaitTimeSeconds socksProxyConfig useEpollNativeSelector useTLS
        writeBufferHighWaterMark writeBufferLowWaterMark
    """
)

#: Of TLS, for either server: system properties, and what ``tls.properties`` may say.
_TLS: Final = _words(
    """
        tls.client.authServer tls.client.certPath tls.client.keyPassword tls.client.keyPath
        tls.client.trustCertPath tls.config.file tls.enable tls.server.authClient
        tls.server.certPath tls.server.keyPassword tls.server.keyPath tls.server.mode
        tls.server.need.client.auth tls.server.trustCertPath tls.test.mode.enable
    """
)

#: What a broker reads: BrokerConfig, MessageStoreConfig, AuthConfig, and those of its port.
BROKER_KEYS: Final = (
    _REMOTING
    | _TLS
    | _words(
        """
        accessMessageInMemoryHotRatio accessMessageInMemoryMaxRatio accountStatsEnable
        accountStatsPrintZeroValues ackMessageThreadPoolNums ackThreadPoolQueueCapacity
        aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond aclEnable
        adminBrokerThreadPoolNums adminBrokerThreadPoolQueueCapacity allAckInSyncStateSet
        allowRecallWhenBrokerNotWriteable appendAckAsync appendCkAsync asyncLearner
        asyncSendEnable authConfigPath authenticationEnabled authenticationMetadataProvider
        authenticationProvider authenticationStrategy authenticationWhitelist
        authorizationEnabled authorizationMetadataProvider authorizationProvider
        authorizationStrategy authorizationWhitelist autoCreateSubscriptionGroup
        autoCreateTopicEnable autoDeleteUnusedStats autoMessageVersionOnTopicLen
        batchDispatchRequestThreadPoolNums bitMapLengthConsumeQueueExt
        bottomMostCompressionTypeForConsumeQueueStore broadcastOffsetExpireMaxSecond
        broadcastOffsetExpireSecond brokerClusterName brokerConfigPath brokerElectionPriority
        brokerFastFailureEnable brokerHeartbeatInterval brokerId brokerIP1 brokerIP2 brokerName
        brokerNotActiveTimeoutMillis brokerPermission brokerRole brokerTopicEnable
        cgColdReadThreshold channelExpiredTimeout checkCRCOnRecover checkSyncStateSetPeriod
        cleanFileForciblyEnable cleanOfflineBrokerInterval cleanResourceInterval
        cleanRocksDBDirtyCQIntervalMin cleanSwapedMapInterval clearRetryTopicWhenDeleteTopic
        clientManagerThreadPoolQueueCapacity clientManageThreadPoolNums clusterName
        clusterTopicEnable coldCtrStrategyEnable coldDataFlowControlEnable coldDataScanEnable
        combineAssignOffsetCQType combineCQEnableCheckSelf combineCQLoadingCQTypes
        combineCQMaxExtraSearchCommitLogFiles combineCQPreferCQType commercialBaseCount
        commercialBigCount commercialEnable commercialSizePerMsg commercialTimerCount
        commercialTransCount commitCommitLogLeastPages commitCommitLogThoroughInterval
        commitIntervalCommitLog commitLogForceSwapMapInterval commitLogRollingInterval
        commitLogRollingMinimumSize commitLogSwapMapInterval commitLogSwapMapReserveFileNum
        compactionCqMappedFileSize compactionMappedFileSize compactionScheduleInternal
        compactionThreadNum compatibleWithOldNameSrv compressedRegister configBlackList
        configManagerVersion configName consumerFallbehindThreshold
        consumerManagerThreadPoolQueueCapacity consumerManageThreadPoolNums
        consumerOffsetUpdateVersionStep controllerAddr controllerHeartBeatTimeoutMills
        correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval
        dataReadAheadEnable debugLockEnable defaultMessageRequestMode defaultPopShareQueueNum
        defaultQueryMaxNum defaultTopicQueueNums delayOffsetUpdateVersionStep
        deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval deleteFileBatchMax
        deleteWhen destroyMapedFileIntervalForcibly disableConsumeIfConsumerReadSlowly
        disappearTimeAfterStart diskFallRecorded diskMaxUsedSpaceRatio
        diskSpaceCleanForciblyRatio diskSpaceWarningLevelRatio dispatchCqCacheNum
        dispatchCqThreads dispatchFromSenderThread dLegerGroup dLegerPeers dLegerSelfId
        duplicationEnable enableAcceleratedRecovery enableAsyncReput enableAutoInSyncReplicas
        enableBatchPush enableBroadcastOffsetStore enableBuildConsumeQueueConcurrently
        enableCalcFilterBitMap enableCleanExpiredOffset enableCompaction enableConnectionMetrics
        enableConsumeQueueExt enableControllerMode enableCreateSysGroup enabledAppendPropCRC
        enableDetailStat enableDLegerCommitLog enableFastChannelEventProcess
        enableLagAndDlqMetrics enableLmq enableLmqStats
        enableLogConsumeQueueRepeatedlyBuildWhenRecover enableMessageStoreMetrics
        enableMixedMessageType enableMultiDispatch enableNetWorkFlowControl
        enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag enablePopBatchAck
        enablePopBufferMerge enablePopLog enablePopMessageThreshold enablePopMetrics
        enablePropertyFilter enableRegisterProducer enableRemoteEscape enableRemotingMetrics
        enableRequestMetrics enableRetryTopicV2 enableRocksDBLog enableRunningFlagsInFlush
        enableScheduleAsyncDeliver enableScheduleMessageStats enableSingleTopicRegister
        enableSkipLongAwaitingAck enableSlaveActingMaster enableSplitMetadata
        enableSplitRegistration enableStatsMetrics enableTransactionMetrics
        endTransactionPoolQueueCapacity endTransactionThreadPoolNums estimateAccumulation
        expectConsumerNumUseFilter fastFailIfNoBufferInStorePool fetchControllerAddrByDnsLookup
        fetchNamesrvAddrByAddressServer fetchNameSrvAddrByDnsLookup fetchNamesrvAddrInterval
        fileReservedTime filterDataCleanTimeSpan filterServerNums filterSupportRetry
        flushCommitLogLeastPages flushCommitLogThoroughInterval flushCommitLogTimed
        flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval
        flushConsumerOffsetHistoryInterval flushConsumerOffsetInterval flushDelayOffsetInterval
        flushDiskType flushIntervalCommitLog flushIntervalConsumeQueue
        flushLeastPagesWhenWarmMapedFile forceRegister forceVerifyPropCRC forwardTimeout
        globalColdReadThreshold haFlowControlEnable haHousekeepingInterval haListenPort
        haMasterAddress haMaxGapNotInSync haMaxTimeSlaveNotCatchup haSendHeartbeatInterval
        haSlaveFallbehindMax haTransferBatchSize heartbeatThreadPoolNums
        heartbeatThreadPoolQueueCapacity highSpeedMode inBrokerContainer initAuthenticationUser
        initPopOffsetByCheckMsgInMem innerClientAuthenticationCredentials inSyncReplicas
        isolateLogEnable listenPort litePullMessageEnable litePullMessageThreadPoolNums
        litePullThreadPoolQueueCapacity loadBalancePollNameServerInterval
        loadBalanceProcessorThreadPoolNums loadBalanceThreadPoolQueueCapacity lockInStrictMode
        logicalDiskSpaceCleanForciblyThreshold logicQueueForceSwapMapInterval
        logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum longPollingEnable
        mappedFileSizeCommitLog mappedFileSizeConsumeQueue mappedFileSizeConsumeQueueExt
        mappedFileSizeTimerLog mappedFileSwapEnable mapperFileSizeBatchConsumeQueue
        maxAsyncPutMessageRequests maxBatchDeleteFilesNum maxChecksumRange maxConsumeQueueScan
        maxDelayTime maxErrorRateOfBloomFilter maxFilterMessageSize maxHashSlotNum
        maxHaTransferByteInSecond maxIndexNum maxLmqConsumeQueueNum maxMessageSize
        maxMsgsNumBatch maxOffsetMapSize maxPopPollingSize maxRecoveryCommitlogFiles
        maxSlaveResendLength maxStatsIdleTimeInMinutes maxTopicLength
        maxTransferBytesOnMessageInDisk maxTransferBytesOnMessageInMemory
        maxTransferCountOnMessageInDisk maxTransferCountOnMessageInMemory
        memTableFlushIntervalMs messageDelayLevel messageIndexEnable messageIndexSafe
        messageStorePlugIn metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills
        metricLoggingExporterIntervalInMills metricsExporterType metricsGrpcExporterHeader
        metricsGrpcExporterTarget metricsInDelta metricsLabel metricsOtelCardinalityLimit
        metricsPromExporterHost metricsPromExporterPort migrateAuthFromV1Enabled
        minInSyncReplicas msgTraceTopicName namesrvAddr notifyConsumerIdsChangedEnable
        objectStoreAccessKey objectStoreBucket objectStoreEndpoint objectStoreSecretKey
        offsetCheckInSlave osPageCacheBusyTimeOutMills popCkMaxBufferSize
        popCkOffsetMaxQueueSize popCkStayBufferTime popCkStayBufferTimeOut
        popConsumerFSServiceInit popConsumerKVServiceEnable popConsumerKVServiceInit
        popConsumerKVServiceLog popFromRetryProbability popInflightMessageThreshold
        popLongPollingForceNotifyInterval popPollingMapExpireTimeSeconds popPollingMapSize
        popPollingSize popResponseReturnActualRetryTopic popReviveMaxAttemptTimes
        popReviveMaxReturnSizePerRead preferredLeaderId printChannelGroups
        printChannelGroupsMinNum processReplyMessageThreadPoolNums pullBatchMaxMessageCount
        pullMessageThreadPoolNums pullThreadPoolQueueCapacity putConsumeQueueDataByFileChannel
        putMessageFutureThreadPoolNums putMessageTimeout putMsgIndexHightWater
        putThreadPoolQueueCapacity queryMessageThreadPoolNums queryThreadPoolQueueCapacity
        readAheadCacheEnable readAheadCacheExpireDuration readAheadCacheSizeThresholdRate
        readAheadMessageCountThreshold readAheadMessageSizeThreshold readOnlyCommitLogStorePaths
        readUnCommitted realTimeNotifyConsumerChange realTimePersistRocksDBConfig
        recallMessageEnable recheckReputOffsetFromCq recordGetMessageResult recoverConcurrently
        recoverThreadPoolNums redeleteHangedFileInterval regionId registerBrokerTimeoutMills
        registerNameServerPeriod rejectPullConsumerEnable rejectTransactionMessage
        replicasPerDiskPartition replyThreadPoolQueueCapacity retrieveMessageFromPopRetryTopicV1
        reviveAckWaitMs reviveInterval reviveMaxSlow reviveQueueNum reviveScanTime rocketmqHome
        rocksdbCompressionType rocksdbCQDoubleWriteEnable rocksdbFlushWalFrequency
        rocksdbWalFileRollingThreshold sampleCountThreshold sampleSteps
        scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked
        searchBcqByCacheEnable sendHeartbeatTimeoutMillis sendMessageThreadPoolNums
        sendThreadPoolQueueCapacity serverLoadBalancerEnable shortPollingTimeMills skipPreOnline
        skipWhenCKRePutReachMaxTimes slaveReadEnable slaveTimeout
        spinLockCollisionRetreatOptimalDegree splitMetadataSize splitRegistrationSize
        startAcceptSendRequestTimeStamp statefulAuthenticationCacheExpiredSecond
        statefulAuthenticationCacheMaxNum statefulAuthorizationCacheExpiredSecond
        statefulAuthorizationCacheMaxNum statRocksDBCQIntervalSec storePathBrokerIdentity
        storePathCommitLog storePathDLedgerCommitLog storePathEpochFile storePathRootDir
        storeReplyMessageEnable storeType subscriptionExpiredTimeout syncBrokerMemberGroupPeriod
        syncBrokerMetadataPeriod syncControllerMetadataPeriod syncFlushTimeout syncFromLastFile
        syncMasterFlushOffsetWhenStartup tieredBackendServiceProvider
        tieredMetadataServiceProvider tieredStorageLevel tieredStoreCommitLogMaxSize
        tieredStoreConsumeQueueMaxSize tieredStoreCrcCheckEnable tieredStoreDeleteFileEnable
        tieredStoreDeleteFileInterval tieredStoreFilePath tieredStoreFileReservedTime
        tieredStoreGroupCommit tieredStoreGroupCommitCount tieredStoreGroupCommitSize
        tieredStoreGroupCommitTimeout tieredStoreIndexFileMaxHashSlotNum
        tieredStoreIndexFileMaxIndexNum tieredStoreMaxGroupCommitCount
        tieredStoreMaxPendingLimit timerColdDataCheckIntervalMs timerCongestNumEachSlot
        timerEnableCheckMetrics timerEnableRetryUntilSuccess timerFlushIntervalMs
        timerGetMessageThreadNum timerInterceptDelayLevel timerMaxDelaySec
        timerMetricSmallThreshold timerPrecisionMs timerProgressLogIntervalMs
        timerPutMessageThreadNum timerRollWindowSlot timerSkipUnknownError timerStopEnqueue
        timerWheelEnable topicQueueLockNum totalReplicas traceOn traceTopicEnable
        transactionCheckInterval transactionCheckMax transactionMetricFlushInterval
        transactionOpBatchInterval transactionOpMsgMaxSize transactionTimeOut transferMsgByHeap
        transientStorePoolEnable transientStorePoolSize travelCqFileNumWhenGetMessage
        updateNameServerAddrPeriod useABSLock usePIDColdCtrStrategy userCacheExpiredSecond
        userCacheMaxNum userCacheRefreshSecond useReentrantLockWhenPutMessage
        useServerSideResetOffset useStaticSubscription validateSystemTopicWhenUpdateTopic
        waitTimeMillsInAckQueue waitTimeMillsInAdminBrokerQueue waitTimeMillsInHeartbeatQueue
        waitTimeMillsInLitePullQueue waitTimeMillsInPullQueue waitTimeMillsInSendQueue
        waitTimeMillsInTransactionQueue wakeCommitWhenPutMessage wakeFlushWhenPutMessage
        warmMapedFileEnable writeWithoutMmap
    """
    )
)

#: Written in many files that are passed on, though none of these versions reads them.
ORPHANED_KEYS: Final = _words(
    """
        abortFile checkTransactionMessageEnable storeCheckpoint storePathConsumeQueue
        storePathIndex
    """
)

#: What a NameServer reads: NamesrvConfig, ControllerConfig, and those of its port.
NAMESRV_KEYS: Final = (
    _REMOTING
    | _TLS
    | _words(
        """
        clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity clusterTest
        configBlackList configStorePath controllerDLegerGroup controllerDLegerPeers
        controllerDLegerSelfId controllerRequestThreadPoolQueueCapacity controllerStorePath
        controllerThreadPoolNums controllerType defaultThreadPoolNums
        defaultThreadPoolQueueCapacity deleteTopicWithBrokerRegistration
        electMasterMaxRetryCount enableAllTopicList enableControllerInNamesrv
        enableElectUncleanMaster enableTopicList jraftConfig kvConfigPath mappedFileSize
        metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills
        metricLoggingExporterIntervalInMills metricsExporterType metricsGrpcExporterHeader
        metricsGrpcExporterTarget metricsInDelta metricsLabel metricsPromExporterHost
        metricsPromExporterPort needWaitForService notifyBrokerRoleChanged
        notifyMinBrokerIdChanged orderMessageEnable processReadEvent productEnvName
        returnOrderTopicConfigToBroker rocketmqHome scanInactiveMasterInterval
        scanNotActiveBrokerInterval supportActingMaster unRegisterBrokerQueueCapacity
        waitSecondsForService
    """
    )
)
