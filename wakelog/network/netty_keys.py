"""Keys of NettyServerConfig without effect here, for the tables of broker and name server.

Source: org.apache.rocketmq.remoting.netty.NettyServerConfig, NettySystemConfig (4.9.3).
"""

from typing import Final

NETTY_SERVER_ROWS: Final = {
    "one loop serves every socket, with the limits in docs/overload.md": """
        serverAsyncSemaphoreValue=64 serverCallbackExecutorThreads=0 serverOnewaySemaphoreValue=256
        serverPooledByteBufAllocatorEnable=true serverSelectorThreads=3 serverWorkerThreads=8
        useEpollNativeSelector=false
    """,
    "the kernel chooses the buffers of a socket, as with 0 in 4.9.3": """
        serverSocketRcvBufSize=0 serverSocketSndBufSize=0
    """,
    "what a connection may have unsent is bounded, as docs/overload.md says": """
        writeBufferHighWaterMark=0 writeBufferLowWaterMark=0
    """,
}
"""``key=default`` by the reason."""
