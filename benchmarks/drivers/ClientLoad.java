import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * A load through the unmodified client 4.9.3.
 *
 * <p>Usage: {@code ClientLoad NAMESRV MODE WORKERS WARMUP COUNT BODY_BYTES TOPIC}. MODE:
 * {@code sync} (WORKERS threads), {@code async} (WORKERS in flight), {@code oneway} (a message counts once the
 * queues' max offsets cover it), {@code batch} (32 messages a send, COUNT counts messages), {@code transactions}
 * (WORKERS threads, each transaction commits; a message counts once the queues' max offsets cover it), {@code
 * consume} (WARMUP and COUNT messages that are already there), {@code latency} (WORKERS messages a second, send to
 * receive). With the system properties {@code accessKey} and {@code secretKey} a producer signs its requests. After the warm-up it prints {@code warm} and waits for a line
 * (not before consuming, which begins with the first message behind the warm-up). Prints one line of JSON at
 * last; a send or a receive that failed counts as an error, and a run with an error is void.
 */
public final class ClientLoad {
    private static final int BATCH_MESSAGES = 32;
    private static final int LOOK_ATTEMPTS_MAX = 20;
    private static final long LOOK_PAUSE_MILLIS = 100;
    private static final long WAIT_NANOS_MAX = 120_000_000_000L;
    private static final long STANDSTILL_NANOS_MAX = 3_000_000_000L;

    private final String nameServer;
    private final int workers;
    private final int warmup;
    private final byte[] body;
    private final String topic;
    private final AtomicInteger errors = new AtomicInteger();
    private DefaultMQProducer producer;
    private List<MessageQueue> queues;

    private ClientLoad(String nameServer, int workers, int warmup, int bodyBytes, String topic) {
        this.nameServer = nameServer;
        this.workers = workers;
        this.warmup = warmup;
        this.body = new byte[bodyBytes];
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        String mode = arguments[1];
        int workers = Integer.parseInt(arguments[2]);
        int warmup = Integer.parseInt(arguments[3]);
        int count = Integer.parseInt(arguments[4]);
        int bodyBytes = Integer.parseInt(arguments[5]);
        ClientLoad load = new ClientLoad(arguments[0], workers, warmup, bodyBytes, arguments[6]);
        try {
            System.out.println(load.run(mode, count));
        } catch (Exception error) {
            // The client's own threads would keep the process alive.
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private String run(String mode, int count) throws Exception {
        if (mode.equals("consume")) {
            return report(mode, count, consume(count), new long[] {0});
        }
        producer = producer(mode);
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(30_000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        if (mode.equals("latency")) {
            return latency(count);
        }
        if (mode.equals("oneway")) {
            note(producer.send(message(0)));
            oneway(warmup);
            awaitStart();
            return oneway(count);
        }
        send(mode, warmup, new long[warmup]);
        if (mode.equals("transactions")) {
            awaitStored(warmup);
            awaitStart();
            return transactions(count);
        }
        awaitStart();
        long[] latencies = new long[count];
        double seconds = send(mode, count, latencies);
        return report(mode, count, seconds, latencies);
    }

    private static DefaultMQProducer producer(String mode) {
        String accessKey = System.getProperty("accessKey");
        RPCHook signing = accessKey == null ? null
            : new AclClientRPCHook(new SessionCredentials(accessKey, System.getProperty("secretKey")));
        if (!mode.equals("transactions")) {
            return new DefaultMQProducer("benchmark_producer", signing);
        }
        TransactionMQProducer transactional = new TransactionMQProducer("benchmark_producer", signing);
        transactional.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return transactional;
    }

    /** Lets whoever started this look at the broker between the warm-up and what is measured. */
    private static void awaitStart() throws IOException {
        System.out.println("warm");
        if (System.in.read() < 0) {
            throw new IOException("nobody is there");
        }
    }

    private double send(String mode, int count, long[] latencies) throws Exception {
        long begin = System.nanoTime();
        switch (mode) {
            case "sync", "transactions" -> inThreads(count, latencies);
            case "async" -> async(count, latencies);
            case "batch" -> batch(count, latencies);
            default -> throw new IllegalArgumentException("no such mode: " + mode);
        }
        return (System.nanoTime() - begin) / 1e9;
    }

    private void inThreads(int count, long[] latencies) throws Exception {
        CountDownLatch done = new CountDownLatch(workers);
        for (int worker = 0; worker < workers; worker++) {
            int first = worker;
            new Thread(() -> {
                for (int index = first; index < count; index += workers) {
                    long begin = System.nanoTime();
                    try {
                        note(submit(message(index)));
                    } catch (Exception failure) {
                        fail(failure);
                    }
                    latencies[index] = System.nanoTime() - begin;
                }
                done.countDown();
            }).start();
        }
        done.await();
    }

    private SendResult submit(Message message) throws Exception {
        return producer instanceof TransactionMQProducer transactional
            ? transactional.sendMessageInTransaction(message, null)
            : producer.send(message);
    }

    /** A commit is not answered: a message counts once it is in its queue. */
    private String transactions(int count) throws Exception {
        long before = stored();
        long[] latencies = new long[count];
        long begin = System.nanoTime();
        inThreads(count, latencies);
        Stored stored = awaitStored(before + count);
        int committed = (int) (stored.messages - before);
        return report("transactions", committed, (stored.nanos - begin) / 1e9, latencies, count - committed);
    }

    private void async(int count, long[] latencies) throws Exception {
        Semaphore inFlight = new Semaphore(workers);
        for (int index = 0; index < count; index++) {
            inFlight.acquire();
            int at = index;
            long begin = System.nanoTime();
            producer.send(message(index), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    note(result);
                    finish();
                }

                @Override
                public void onException(Throwable failure) {
                    fail(failure);
                    finish();
                }

                private void finish() {
                    latencies[at] = System.nanoTime() - begin;
                    inFlight.release();
                }
            });
        }
        inFlight.acquire(workers);
    }

    /** Sends without answers; what the broker lost or has not stored yet is not counted. */
    private String oneway(int count) throws Exception {
        long before = stored();
        long begin = System.nanoTime();
        for (int index = 0; index < count; index++) {
            producer.sendOneway(message(index));
        }
        Stored stored = awaitStored(before + count);
        int seen = (int) (stored.messages - before);
        return report("oneway", seen, (stored.nanos - begin) / 1e9, new long[] {0}, count - seen);
    }

    /** What the queues hold, and when they came to hold it. */
    private record Stored(long messages, long nanos) {
    }

    /** Returns once the queues hold so many messages, or nothing was added for a time. */
    private Stored awaitStored(long wanted) throws Exception {
        Stored last = new Stored(stored(), System.nanoTime());
        while (last.messages < wanted && System.nanoTime() - last.nanos < STANDSTILL_NANOS_MAX) {
            Thread.sleep(1);
            long now = stored();
            if (now > last.messages) {
                last = new Stored(now, System.nanoTime());
            }
        }
        return last;
    }

    /** How many messages the queues of the topic hold, for everyone to see. */
    private long stored() throws Exception {
        if (queues == null) {
            queues = producer.fetchPublishMessageQueues(topic);
        }
        long sum = 0;
        for (MessageQueue queue : queues) {
            sum += end(queue);
        }
        return sum;
    }

    /** A broker that is flooded one-way may drop the connection, and the client makes another. */
    private long end(MessageQueue queue) throws Exception {
        for (int attempt = 1; ; attempt++) {
            try {
                return producer.maxOffset(queue);
            } catch (MQClientException error) {
                if (attempt == LOOK_ATTEMPTS_MAX) {
                    throw error;
                }
                Thread.sleep(LOOK_PAUSE_MILLIS);
            }
        }
    }

    private void batch(int count, long[] latencies) throws Exception {
        for (int index = 0; index < count; index += BATCH_MESSAGES) {
            List<Message> messages = new ArrayList<>(BATCH_MESSAGES);
            for (int at = 0; at < BATCH_MESSAGES; at++) {
                messages.add(message(index + at));
            }
            long begin = System.nanoTime();
            note(producer.send(messages));
            Arrays.fill(latencies, index, Math.min(count, index + BATCH_MESSAGES), System.nanoTime() - begin);
        }
    }

    private double consume(int count) throws Exception {
        AtomicInteger received = new AtomicInteger();
        AtomicLong begin = new AtomicLong();
        awaitStart();
        DefaultMQPushConsumer consumer = consumer((messages, context) -> {
            if (received.getAndAdd(messages.size()) >= warmup) {
                begin.compareAndSet(0, System.nanoTime());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        waitFor(received, warmup + count);
        double seconds = (System.nanoTime() - begin.get()) / 1e9;
        consumer.shutdown();
        return seconds;
    }

    private String latency(int count) throws Exception {
        long[] latencies = new long[warmup + count];
        AtomicInteger received = new AtomicInteger();
        note(producer.send(message(0)));
        DefaultMQPushConsumer consumer = consumer((messages, context) -> {
            long now = System.nanoTime();
            for (MessageExt message : messages) {
                String sent = message.getUserProperty("sent");
                if (sent != null) {
                    int at = Integer.parseInt(message.getUserProperty("at"));
                    latencies[at] = now - Long.parseLong(sent);
                    received.incrementAndGet();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        long gap = 1_000_000_000L / workers;
        long next = System.nanoTime() + 3_000_000_000L;
        for (int index = 0; index < warmup + count; index++, next += gap) {
            if (index == warmup) {
                awaitStart();
                next = System.nanoTime();
            }
            while (System.nanoTime() < next) {
                java.util.concurrent.locks.LockSupport.parkNanos(Math.max(1, next - System.nanoTime()));
            }
            Message message = message(index);
            message.putUserProperty("at", Integer.toString(index));
            message.putUserProperty("sent", Long.toString(System.nanoTime()));
            note(producer.send(message));
        }
        waitFor(received, warmup + count);
        consumer.shutdown();
        return report("latency", count, count / (double) workers, Arrays.copyOfRange(latencies, warmup, warmup + count));
    }

    private DefaultMQPushConsumer consumer(MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("benchmark_" + System.currentTimeMillis());
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    private void waitFor(AtomicInteger received, int count) throws InterruptedException {
        long deadline = System.nanoTime() + WAIT_NANOS_MAX;
        while (received.get() < count && System.nanoTime() < deadline) {
            Thread.sleep(1);
        }
        errors.addAndGet(Math.max(0, count - received.get()));
    }

    private Message message(int index) {
        return new Message(topic, "TagA", "key" + index, body);
    }

    private void note(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            errors.incrementAndGet();
        }
    }

    private void fail(Throwable failure) {
        if (errors.incrementAndGet() == 1) {
            System.err.println(failure);
        }
    }

    private String report(String mode, int count, double seconds, long[] latencies) {
        return report(mode, count, seconds, latencies, 0);
    }

    private String report(String mode, int count, double seconds, long[] latencies, int lost) {
        long[] sorted = latencies.clone();
        Arrays.sort(sorted);
        return String.format(
            "{\"mode\":\"%s\",\"workers\":%d,\"warmup\":%d,\"messages\":%d,\"seconds\":%.4f,\"per_second\":%.0f,"
                + "\"p50_ms\":%.4f,\"p99_ms\":%.4f,\"lost\":%d,\"errors\":%d}",
            mode, workers, warmup, count, seconds, count / seconds, sorted[sorted.length / 2] / 1e6,
            sorted[(int) (sorted.length * 0.99)] / 1e6, lost, errors.get());
    }
}
