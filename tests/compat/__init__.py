"""What only the real RocketMQ 4.9.3 can tell: its broker, name server and client.

Read in this order:

provision        Java, the jars, Prometheus
real_rocketmq    a real name server and broker as processes
clusters         those and `wakelog up` behind one face
driver           the Java client, which gets its commands line by line
frames           what no Java client would send
conftest         the fixtures

Then the tests:

    each kind of cluster    sending, reading, consuming, go_dialect
    both side by side       broker_answers, name_servers, mixed_cluster
    one store, two brokers  stores, store_owners, store_lock

What the first group asserts holds for the real broker and for wakelog over both transports.
"""
