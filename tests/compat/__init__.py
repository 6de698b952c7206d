"""What only the real RocketMQ 4.9.3 can tell: its broker, name server and client.

Read in this order: ``provision`` (Java, the jars, Prometheus), ``real_rocketmq`` (a real name
server and broker as processes), ``driver`` (the Java client, told what to do line by line),
``conftest`` (the fixtures), then the tests, each of which asserts the same of the real broker and
of wakelog.
"""
