import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Push consumers, each under a name: they gather what they get until they are asked for it. */
@SuppressWarnings("deprecation") // the way in to the client's inner state
final class Consuming {
    /** After a pull that failed, as one of a queue not locked yet; by default it is a second. */
    private static final long PULL_AGAIN_MS = 50;
    /** What was consumed counts, although the test has it before the client's thread knows. */
    private static final long STOP_MS_MAX = 2_000;

    private static final Map<String, Gatherer> GATHERERS = new HashMap<>();

    static void register(Map<String, Driver.Command> commands) {
        commands.put("consume", Consuming::consume);
        commands.put("consumed", Consuming::consumed);
        commands.put("takeConsumed", in -> GATHERERS.get(in.getString("name")).takeAll());
        commands.put("assigned", in -> GATHERERS.get(in.getString("name")).assigned());
        commands.put("commit", Consuming::commit);
        commands.put("stopConsuming", Consuming::stop);
    }

    /**
     * Starts a push consumer. "failures" says how often each message is to be consumed again before
     * it counts as done; "orderly" takes the queue's lock and suspends the queue instead. "traced"
     * sends a trace of what is consumed. "allocation" is the name of a strategy.
     */
    private static Object consume(JSONObject in) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
                in.getString("namespace"), in.getString("group"), Driver.hook(),
                strategy(in.getString("allocation")), in.getBooleanValue("traced"), null);
        Gatherer gatherer = new Gatherer(consumer, in.getIntValue("failures"));
        consumer.setNamesrvAddr(Driver.nameServer);
        consumer.setInstanceName(in.getString("name"));
        consumer.setPollNameServerInterval(Driver.routesMs(consumer));
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(
                in.containsKey("from") ? in.getString("from") : "CONSUME_FROM_FIRST_OFFSET"));
        if (in.containsKey("timestamp")) {
            consumer.setConsumeTimestamp(
                    UtilAll.timeMillisToHumanString3(in.getLongValue("timestamp")));
        }
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setSuspendCurrentQueueTimeMillis(200);
        consumer.setAwaitTerminationMillisWhenShutdown(STOP_MS_MAX);
        consumer.getDefaultMQPushConsumerImpl().setPullTimeDelayMillsWhenException(PULL_AGAIN_MS);
        if (in.getBooleanValue("broadcast")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (in.containsKey("retriesMax")) {
            consumer.setMaxReconsumeTimes(in.getIntValue("retriesMax"));
        }
        JSONArray topics = in.getJSONArray("topics");
        for (int i = 0; i < topics.size(); i++) {
            if (in.containsKey("sql")) {
                consumer.subscribe(topics.getString(i), MessageSelector.bySql(in.getString("sql")));
            } else {
                consumer.subscribe(topics.getString(i),
                        in.containsKey("expression") ? in.getString("expression") : "*");
            }
        }
        gatherer.listen(in.getBooleanValue("orderly"));
        consumer.start();
        GATHERERS.put(in.getString("name"), gatherer);
        Driver.RUNNING.push(consumer::shutdown);
        return null;
    }

    private static AllocateMessageQueueStrategy strategy(String name) {
        if ("AVG_BY_CIRCLE".equals(name)) {
            return new AllocateMessageQueueAveragelyByCircle();
        }
        return "CONSISTENT_HASH".equals(name)
                ? new AllocateMessageQueueConsistentHash()
                : new AllocateMessageQueueAveragely();
    }

    /** Waits for "count" messages, "timeoutMs" at most, and returns all there are. */
    private static Object consumed(JSONObject in) throws Exception {
        return GATHERERS.get(in.getString("name"))
                .wait(in.getIntValue("count"), in.getLongValue("timeoutMs"));
    }

    /** Tells the broker how far the consumer has come, as the client does every few seconds. */
    private static Object commit(JSONObject in) {
        commit(GATHERERS.get(in.getString("name")));
        return null;
    }

    private static void commit(Gatherer gatherer) {
        gatherer.consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
    }

    /**
     * Stops the consumer and returns what it has received that was not taken. The broker may lose
     * one of a group's first offsets if two come at once, so the consumer tells it twice. Source:
     * ConsumerOffsetManager.commitOffset.
     */
    private static Object stop(JSONObject in) {
        Gatherer gatherer = GATHERERS.remove(in.getString("name"));
        commit(gatherer);
        gatherer.consumer.shutdown();
        return gatherer.takeAll();
    }

    /** One consumer and what it has received. */
    private static final class Gatherer {
        final DefaultMQPushConsumer consumer;
        private final int failures;
        private final List<Object> received = new ArrayList<>();
        private final Map<String, Integer> attempts = new HashMap<>();

        Gatherer(DefaultMQPushConsumer consumer, int failures) {
            this.consumer = consumer;
            this.failures = failures;
        }

        void listen(boolean orderly) {
            if (orderly) {
                consumer.registerMessageListener((MessageListenerOrderly) (messages, where) ->
                        take(messages) ? ConsumeOrderlyStatus.SUCCESS
                                : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
            } else {
                consumer.registerMessageListener((MessageListenerConcurrently) (messages, where) ->
                        take(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                                : ConsumeConcurrentlyStatus.RECONSUME_LATER);
            }
        }

        private synchronized boolean take(List<MessageExt> messages) {
            boolean done = true;
            for (MessageExt message : messages) {
                received.add(Values.received(message));
                done &= attempts.merge(message.getMsgId(), 1, Integer::sum) > failures;
            }
            notifyAll();
            return done;
        }

        synchronized Object wait(int count, long timeoutMs) throws InterruptedException {
            long end = System.currentTimeMillis() + timeoutMs;
            long left = timeoutMs;
            while (received.size() < count && left > 0) {
                wait(left);
                left = end - System.currentTimeMillis();
            }
            return new ArrayList<>(received);
        }

        /** Returns what was received since the last time, and forgets it. */
        synchronized Object takeAll() {
            List<Object> taken = new ArrayList<>(received);
            received.clear();
            attempts.clear();
            return taken;
        }

        /** The queues this consumer has right now, by topic. */
        Object assigned() {
            Map<String, List<Integer>> out = new LinkedHashMap<>();
            for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
                    .getProcessQueueTable().keySet()) {
                out.computeIfAbsent(queue.getTopic(), topic -> new ArrayList<>())
                        .add(queue.getQueueId());
            }
            return out;
        }
    }

    private Consuming() {}
}
