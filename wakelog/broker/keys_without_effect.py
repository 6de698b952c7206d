"""Keys of 4.9.3 that have nothing to act on here, and the values that code 26 shows of them.

A file that sets one is no mistake, and whoever asks for the configuration finds the keys that a
4.9.3 broker shows. Sizes of pools that 4.9.3 takes from the number of cores are those of one core:
one loop does that work here, however many there are.

Source: org.apache.rocketmq.common.BrokerConfig, store.config.MessageStoreConfig,
remoting.netty.NettyServerConfig, NettyClientConfig (4.9.3), as its broker answers code 26.
"""

from typing import Final

_DEFAULTS = """
    adminBrokerThreadPoolNums=16
    autoDeleteUnusedStats=false
    channelNotActiveInterval=60000
    clientAsyncSemaphoreValue=65535
    clientCallbackExecutorThreads=1
    clientChannelMaxIdleTimeSeconds=120
    clientCloseSocketIfTimeout=true
    clientManageThreadPoolNums=32
    clientOnewaySemaphoreValue=65535
    clientPooledByteBufAllocatorEnable=false
    clientSocketRcvBufSize=0
    clientSocketSndBufSize=0
    clientWorkerThreads=4
    commercialBaseCount=1
    commercialBigCount=1
    commercialEnable=true
    commercialTimerCount=1
    commercialTransCount=1
    connectTimeoutMillis=3000
    consumerFallbehindThreshold=17179869184
    consumerManageThreadPoolNums=32
    debugLockEnable=false
    disableConsumeIfConsumerReadSlowly=false
    enableCalcFilterBitMap=false
    enableDetailStat=true
    enablePropertyFilter=false
    endTransactionThreadPoolNums=10
    expectConsumerNumUseFilter=32
    fetchNamesrvAddrByAddressServer=false
    filterDataCleanTimeSpan=86400000
    filterServerNums=0
    filterSupportRetry=false
    flushCommitLogTimed=true
    flushConsumerOffsetHistoryInterval=60000
    flushLeastPagesWhenWarmMapedFile=4096
    heartbeatThreadPoolNums=1
    highSpeedMode=false
    isEnableBatchPush=false
    isolateLogEnable=false
    maxDelayTime=40
    maxErrorRateOfBloomFilter=20
    messageStorePlugIn=
    processReplyMessageThreadPoolNums=18
    pullMessageThreadPoolNums=18
    putMessageFutureThreadPoolNums=1
    putMsgIndexHightWater=600000
    putThreadPoolQueueCapacity=10000
    queryMessageThreadPoolNums=9
    rocketmqHome=
    sendMessageThreadPoolNums=1
    serverAsyncSemaphoreValue=64
    serverCallbackExecutorThreads=0
    serverOnewaySemaphoreValue=256
    serverPooledByteBufAllocatorEnable=true
    serverSelectorThreads=3
    serverSocketRcvBufSize=0
    serverSocketSndBufSize=0
    serverWorkerThreads=8
    storeReplyMessageEnable=true
    transactionCheckInterval=60000
    transactionCheckMax=15
    transactionTimeOut=6000
    transferMsgByHeap=true
    useEpollNativeSelector=false
    useReentrantLockWhenPutMessage=true
    useTLS=false
    warmMapedFileEnable=false
    writeBufferHighWaterMark=0
    writeBufferLowWaterMark=0
"""

DEFAULTS_WITHOUT_EFFECT: Final = dict(
    line.strip().split("=", 1) for line in _DEFAULTS.strip().splitlines()
)
"""What 4.9.3 shows where the file is silent."""

_NOT_SHOWN = """
    rmqAddressServerDomain rmqAddressServerSubGroup dLegerGroup
    dLegerPeers dLegerSelfId preferredLeaderId
    enableBatchPush
"""

KEYS_WITHOUT_EFFECT: Final = frozenset({*DEFAULTS_WITHOUT_EFFECT, *_NOT_SHOWN.split()})
"""Every key that is accepted; one without a default is shown only if the file has it."""
