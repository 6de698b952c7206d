import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.ConsumerRunningInfo;

/** What a broker asks clients: request and reply, and an operator's questions about them. */
final class Asking {
    static void register(Map<String, Driver.Command> commands) {
        commands.put("answerRequests", Asking::answerRequests);
        commands.put("ask", Asking::ask);
        commands.put("producers", in -> JSON.toJSON(Administration.admin()
                .examineProducerConnectionInfo(in.getString("group"), in.getString("topic"))));
        commands.put("runningInfo", Asking::runningInfo);
        commands.put("consumeDirectly", in -> JSON.toJSON(Administration.admin()
                .consumeMessageDirectly(in.getString("group"), in.getString("client"),
                        in.getString("messageId"))));
        commands.put("resetOffset", in -> offsets(Administration.admin().resetOffsetByTimestamp(
                in.getString("topic"), in.getString("group"), in.getLongValue("timestamp"),
                in.getBooleanValue("force"))));
        commands.put("status", Asking::status);
    }

    /** Starts a consumer that answers each request with its body in upper case. */
    private static Object answerRequests(JSONObject in) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(in.getString("group") + "_replies");
        producer.setNamesrvAddr(Driver.nameServer);
        producer.setInstanceName(in.getString("group"));
        producer.start();
        Driver.RUNNING.push(producer::shutdown);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(in.getString("group"));
        consumer.setNamesrvAddr(Driver.nameServer);
        consumer.setInstanceName(in.getString("group"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(in.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, where) -> {
            for (MessageExt message : messages) {
                String text = new String(message.getBody(), StandardCharsets.UTF_8);
                try {
                    producer.send(MessageUtil.createReplyMessage(
                            message, text.toUpperCase().getBytes(StandardCharsets.UTF_8)));
                } catch (Exception error) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Driver.RUNNING.push(consumer::shutdown);
        return null;
    }

    private static Object ask(JSONObject in) throws Exception {
        Message request = new Message(
                in.getString("topic"), in.getString("body").getBytes(StandardCharsets.UTF_8));
        Message reply = Sending.producer(in).request(request, in.getLongValue("timeoutMs"));
        Map<String, Object> out = new TreeMap<>();
        out.put("topic", reply.getTopic());
        out.put("body", new String(reply.getBody(), StandardCharsets.UTF_8));
        return out;
    }

    private static Object runningInfo(JSONObject in) throws Exception {
        ConsumerRunningInfo info = Administration.admin().getConsumerRunningInfo(
                in.getString("group"), in.getString("client"), in.getBooleanValue("stack"));
        Map<String, Object> out = new TreeMap<>();
        out.put("queues", info.getMqTable().size());
        out.put("type", info.getProperties().getProperty(ConsumerRunningInfo.PROP_CONSUME_TYPE));
        out.put("hasStack", info.getJstack() != null);
        return out;
    }

    private static Object status(JSONObject in) throws Exception {
        Map<String, Object> out = new TreeMap<>();
        Map<String, Map<MessageQueue, Long>> found = Administration.admin().getConsumeStatus(
                in.getString("topic"), in.getString("group"),
                in.containsKey("client") ? in.getString("client") : "");
        found.forEach((client, queues) -> out.put(client, offsets(queues)));
        return out;
    }

    private static Map<String, Long> offsets(Map<MessageQueue, Long> queues) {
        Map<String, Long> out = new TreeMap<>();
        queues.forEach((queue, offset) -> out.put(String.valueOf(queue.getQueueId()), offset));
        return out;
    }

    private Asking() {}
}
