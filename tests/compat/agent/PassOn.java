import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Consumes a topic and sends each body on to another one, until the input ends.
 *
 * <p>Arguments: name server, topic, the topic to send to. It knows nothing of traces.
 */
public final class PassOn {
    public static void main(String[] words) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pass_on");
        producer.setNamesrvAddr(words[0]);
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("pass_on");
        consumer.setNamesrvAddr(words[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(words[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            return passOn(producer, words[2], messages);
        });
        consumer.start();
        System.out.println("ready");
        while (System.in.read() >= 0) {
            continue;
        }
        consumer.shutdown();
        producer.shutdown();
        System.exit(0); // the client's timers are not all daemons
    }

    private static ConsumeConcurrentlyStatus passOn(
            DefaultMQProducer producer, String topic, List<MessageExt> messages) {
        try {
            for (MessageExt message : messages) {
                producer.send(new Message(topic, message.getBody()));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        } catch (Exception failure) {
            failure.printStackTrace();
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        }
    }
}
