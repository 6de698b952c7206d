import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** What a producer does: one message or many, waited for, called back, or not answered at all. */
final class Sending {
    private static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();
    private static final int ANSWERS_SECONDS_MAX = 30;

    static void register(Map<String, Driver.Command> commands) {
        commands.put("send", Sending::send);
        commands.put("sendAsync", Sending::sendAsync);
        commands.put("sendOneway", Sending::sendOneway);
        commands.put("sendBatch", Sending::sendBatch);
        commands.put("sendOrdered", Sending::sendOrdered);
    }

    /** "messages" one after the other; to "queueId" of "broker" where that is given. */
    private static Object send(JSONObject in) throws Exception {
        List<Object> results = new ArrayList<>();
        for (JSONObject each : messages(in)) {
            results.add(Values.sent(sendOne(producer(in), each)));
        }
        return results;
    }

    /** One message, from a producer that the tests have in common. */
    static void sendOne(JSONObject each) throws Exception {
        sendOne(producer("g", null, false), each);
    }

    private static SendResult sendOne(DefaultMQProducer producer, JSONObject each)
            throws Exception {
        Message message = Values.message(each);
        return each.containsKey("queueId")
                ? producer.send(message, Values.queue(each))
                : producer.send(message);
    }

    /** All "messages" at once; results in the order of the messages, an error in its place. */
    private static Object sendAsync(JSONObject in) throws Exception {
        List<JSONObject> messages = messages(in);
        List<Object> results = Collections.synchronizedList(
                new ArrayList<>(Collections.nCopies(messages.size(), null)));
        CountDownLatch open = new CountDownLatch(messages.size());
        for (int i = 0; i < messages.size(); i++) {
            int place = i;
            producer(in).send(Values.message(messages.get(i)), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    results.set(place, Values.sent(result));
                    open.countDown();
                }

                @Override
                public void onException(Throwable failure) {
                    results.set(place, Collections.singletonMap("error", Driver.describe(failure)));
                    open.countDown();
                }
            });
        }
        if (!open.await(ANSWERS_SECONDS_MAX, TimeUnit.SECONDS)) {
            throw new IllegalStateException(open.getCount() + " messages got no answer");
        }
        return results;
    }

    private static Object sendOneway(JSONObject in) throws Exception {
        for (JSONObject each : messages(in)) {
            if (each.containsKey("queueId")) {
                producer(in).sendOneway(Values.message(each), Values.queue(each));
            } else {
                producer(in).sendOneway(Values.message(each));
            }
        }
        return messages(in).size();
    }

    /** All "messages" in one request. */
    private static Object sendBatch(JSONObject in) throws Exception {
        List<Message> batch = new ArrayList<>();
        for (JSONObject each : messages(in)) {
            batch.add(Values.message(each));
        }
        return Values.sent(producer(in).send(batch));
    }

    /** Each message to the queue that its "orderKey" selects, as an application with order does. */
    private static Object sendOrdered(JSONObject in) throws Exception {
        List<Object> results = new ArrayList<>();
        for (JSONObject each : messages(in)) {
            int key = each.getIntValue("orderKey");
            MessageQueueSelector selector =
                    (queues, message, ignored) -> queues.get(key % queues.size());
            results.add(Values.sent(producer(in).send(Values.message(each), selector, key)));
        }
        return results;
    }

    private static List<JSONObject> messages(JSONObject in) {
        JSONArray array = in.getJSONArray("messages");
        List<JSONObject> messages = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            messages.add(array.getJSONObject(i));
        }
        return messages;
    }

    /** A producer for each "group"; with "namespace", and with "traced", as its first use says. */
    static DefaultMQProducer producer(JSONObject in) throws Exception {
        return producer(
                in.getString("group"), in.getString("namespace"), in.getBooleanValue("traced"));
    }

    private static DefaultMQProducer producer(String group, String namespace, boolean isTraced)
            throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(group);
        if (producer == null) {
            producer = new DefaultMQProducer(namespace, group, Driver.hook(), isTraced, null);
            producer.setNamesrvAddr(Driver.nameServer);
            producer.setInstanceName(group);
            producer.setPollNameServerInterval(Driver.routesMs(producer));
            producer.setSendMsgTimeout(Integer.getInteger("driver.sendTimeoutMs", 10_000));
            // Most tests ask for the failure itself; RocketMQ's own producer tries twice more.
            int retries = Integer.getInteger("driver.sendRetries", 0);
            producer.setRetryTimesWhenSendFailed(retries);
            producer.setRetryTimesWhenSendAsyncFailed(retries);
            producer.start();
            PRODUCERS.put(group, producer);
            Driver.RUNNING.push(producer::shutdown);
        }
        return producer;
    }

    private Sending() {}
}
