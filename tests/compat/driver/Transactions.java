import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What a producer of transactions does; each message says how its transaction ends. */
final class Transactions {
    static void register(Map<String, Driver.Command> commands) {
        commands.put("sendInTransaction", Transactions::send);
    }

    /** "messages" with the properties "local" and "checked": a LocalTransactionState each. */
    private static Object send(JSONObject in) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(in.getString("group"));
        producer.setNamesrvAddr(Driver.nameServer);
        producer.setInstanceName(in.getString("group"));
        producer.setPollNameServerInterval(Driver.routesMs(producer));
        producer.setTransactionListener(new Listener());
        producer.start();
        Driver.RUNNING.push(producer::shutdown);
        List<Object> results = new ArrayList<>();
        JSONArray messages = in.getJSONArray("messages");
        for (int i = 0; i < messages.size(); i++) {
            Message message = Values.message(messages.getJSONObject(i));
            results.add(Values.sent(producer.sendMessageInTransaction(message, null)));
        }
        return results;
    }

    private static final class Listener implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return LocalTransactionState.valueOf(message.getUserProperty("local"));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.valueOf(message.getUserProperty("checked"));
        }
    }

    private Transactions() {}
}
