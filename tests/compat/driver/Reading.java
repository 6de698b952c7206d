import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What reads without a push consumer: pulls by queue, lite pull, queries, offsets.
 *
 * <p>The old pull consumer is deprecated and still the one that asks for exactly what it is told.
 */
@SuppressWarnings("deprecation")
final class Reading {
    private static DefaultMQPullConsumer consumer;

    static void register(Map<String, Driver.Command> commands) {
        commands.put("pull", Reading::pull);
        commands.put("pullBlocking", Reading::pullBlocking);
        commands.put("pullAndSend", Reading::pullAndSend);
        commands.put("litePull", Reading::litePull);
        commands.put("litePullShared", Reading::litePullShared);
        commands.put("queryByKey", Reading::queryByKey);
        commands.put("viewById", in -> Values.received(
                consumer().viewMessage(in.getString("topic"), in.getString("id"))));
        commands.put("minOffset", in -> consumer().minOffset(Values.queue(in)));
        commands.put("maxOffset", in -> consumer().maxOffset(Values.queue(in)));
        commands.put("offsetByTime", in -> consumer().searchOffset(
                Values.queue(in), in.getLongValue("timestamp")));
        commands.put("earliestStoreTime", in -> consumer().earliestMsgStoreTime(Values.queue(in)));
        commands.put("updateConsumeOffset", Reading::updateConsumeOffset);
        commands.put("queues", Reading::queues);
    }

    private static Object pull(JSONObject in) throws Exception {
        return Values.pulled(consumer().pull(Values.queue(in), expression(in),
                in.getLongValue("offset"), in.getIntValue("countMax")));
    }

    /** A pull that the broker holds until a message comes or its patience ends. */
    private static Object pullBlocking(JSONObject in) throws Exception {
        return Values.pulled(consumer().pullBlockIfNotFound(Values.queue(in),
                expression(in), in.getLongValue("offset"), in.getIntValue("countMax")));
    }

    /** A pull that the broker holds, and, while it does, the message "send". */
    private static Object pullAndSend(JSONObject in) throws Exception {
        CompletableFuture<PullResult> answer = new CompletableFuture<>();
        consumer().pullBlockIfNotFound(Values.queue(in), expression(in),
                in.getLongValue("offset"), in.getIntValue("countMax"), new PullCallback() {
                    @Override
                    public void onSuccess(PullResult result) {
                        answer.complete(result);
                    }

                    @Override
                    public void onException(Throwable failure) {
                        answer.completeExceptionally(failure);
                    }
                });
        long begin = System.currentTimeMillis();
        Sending.sendOne(in.getJSONObject("send"));
        Map<String, Object> out = Values.pulled(answer.get());
        out.put("tookMs", System.currentTimeMillis() - begin);
        return out;
    }

    /**
     * Polls one queue from an offset until "count" messages came or a poll came back empty.
     *
     * <p>The queue is paused over the seek: what a pull task of the assignment, under way by then,
     * has fetched or is about to fetch can come out after it, whichever broker it is from. The task
     * looks at the seek's offset, takes it as its own and then finds itself cancelled; or it puts
     * what it got among the results once the next task has taken the offset.
     */
    private static Object litePull(JSONObject in) throws Exception {
        DefaultLitePullConsumer lite = new DefaultLitePullConsumer(in.getString("group"));
        lite.setNamesrvAddr(Driver.nameServer);
        lite.setInstanceName(in.getString("group"));
        lite.setAutoCommit(false);
        List<MessageQueue> queues = Collections.singletonList(Values.queue(in));
        lite.assign(queues);
        lite.pause(queues);
        lite.start();
        try {
            lite.seek(queues.get(0), in.getLongValue("offset"));
            lite.resume(queues);
            return polled(lite, in);
        } finally {
            lite.shutdown();
        }
    }

    /** Polls the queues that the group's rebalance gives it, and commits what it got. */
    private static Object litePullShared(JSONObject in) throws Exception {
        DefaultLitePullConsumer lite = new DefaultLitePullConsumer(in.getString("group"));
        lite.setNamesrvAddr(Driver.nameServer);
        lite.setInstanceName(in.getString("group"));
        lite.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        lite.setAutoCommit(false);
        lite.subscribe(in.getString("topic"), expression(in));
        lite.start();
        try {
            List<Object> messages = polled(lite, in);
            lite.commitSync();
            return messages;
        } finally {
            lite.shutdown();
        }
    }

    private static List<Object> polled(DefaultLitePullConsumer lite, JSONObject in) {
        List<Object> messages = new ArrayList<>();
        while (messages.size() < in.getIntValue("count")) {
            List<MessageExt> polled = lite.poll(in.getLongValue("timeoutMs"));
            if (polled.isEmpty()) {
                break;
            }
            messages.addAll(Values.received(polled));
        }
        return messages;
    }

    private static Object queryByKey(JSONObject in) throws Exception {
        QueryResult result = consumer().queryMessage(in.getString("topic"), in.getString("key"),
                in.getIntValue("countMax"), in.getLongValue("begin"), in.getLongValue("end"));
        return Values.received(result.getMessageList());
    }

    /** Tells the broker an offset of the group "driver-pull", and asks for it again. */
    private static Object updateConsumeOffset(JSONObject in) throws Exception {
        consumer().getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(
                Values.queue(in), in.getLongValue("offset"), false);
        return consumer().fetchConsumeOffset(Values.queue(in), true);
    }

    private static Object queues(JSONObject in) throws Exception {
        List<Object> out = new ArrayList<>();
        List<MessageQueue> queues =
                new ArrayList<>(consumer().fetchSubscribeMessageQueues(in.getString("topic")));
        Collections.sort(queues);
        for (MessageQueue queue : queues) {
            JSONObject each = new JSONObject();
            each.put("broker", queue.getBrokerName());
            each.put("queueId", queue.getQueueId());
            out.add(each);
        }
        return out;
    }

    private static String expression(JSONObject in) {
        return in.containsKey("expression") ? in.getString("expression") : "*";
    }

    static DefaultMQPullConsumer consumer() throws Exception {
        if (consumer == null) {
            consumer = new DefaultMQPullConsumer("driver-pull");
            consumer.setNamesrvAddr(Driver.nameServer);
            consumer.setInstanceName("driver-pull");
            consumer.start();
            Driver.RUNNING.push(consumer::shutdown);
        }
        return consumer;
    }

    private Reading() {}
}
