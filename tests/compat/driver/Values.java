import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The client's objects to plain maps and back; bodies are Base64 both ways. */
final class Values {
    static Message message(JSONObject in) {
        Message message = new Message(in.getString("topic"), body(in));
        if (in.containsKey("tags")) {
            message.setTags(in.getString("tags"));
        }
        if (in.containsKey("keys")) {
            message.setKeys(in.getString("keys"));
        }
        if (in.containsKey("delayLevel")) {
            message.setDelayTimeLevel(in.getIntValue("delayLevel"));
        }
        message.setFlag(in.getIntValue("flag"));
        JSONObject properties = in.getJSONObject("properties");
        if (properties != null) {
            for (String name : properties.keySet()) {
                // Reserved names too: the tests say what they mean.
                MessageAccessor.putProperty(message, name, properties.getString(name));
            }
        }
        return message;
    }

    static byte[] body(JSONObject in) {
        return Base64.getDecoder().decode(in.getString("body"));
    }

    static MessageQueue queue(JSONObject in) {
        return new MessageQueue(
                in.getString("topic"), in.getString("broker"), in.getIntValue("queueId"));
    }

    static Map<String, Object> sent(SendResult result) {
        if (result == null) {
            return null;
        }
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("status", result.getSendStatus().name());
        out.put("msgId", result.getMsgId());
        out.put("offsetMsgId", result.getOffsetMsgId());
        out.put("queueId", result.getMessageQueue().getQueueId());
        out.put("broker", result.getMessageQueue().getBrokerName());
        out.put("queueOffset", result.getQueueOffset());
        out.put("regionId", result.getRegionId());
        out.put("traceOn", result.isTraceOn());
        return out;
    }

    static Map<String, Object> received(MessageExt message) {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("topic", message.getTopic());
        out.put("broker", message.getBrokerName());
        out.put("queueId", message.getQueueId());
        out.put("queueOffset", message.getQueueOffset());
        out.put("physicalOffset", message.getCommitLogOffset());
        out.put("sizeBytes", message.getStoreSize());
        out.put("msgId", message.getMsgId());
        out.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        out.put("bodyCrc", message.getBodyCRC());
        out.put("tags", message.getTags());
        out.put("keys", message.getKeys());
        out.put("flag", message.getFlag());
        out.put("sysFlag", message.getSysFlag());
        out.put("reconsumeTimes", message.getReconsumeTimes());
        out.put("bornTimestamp", message.getBornTimestamp());
        out.put("storeTimestamp", message.getStoreTimestamp());
        out.put("bornHost", String.valueOf(message.getBornHost()));
        out.put("storeHost", String.valueOf(message.getStoreHost()));
        out.put("properties", new TreeMap<>(message.getProperties()));
        out.put("receivedAt", System.currentTimeMillis());
        return out;
    }

    static List<Object> received(List<MessageExt> messages) {
        List<Object> out = new ArrayList<>();
        if (messages != null) {
            for (MessageExt message : messages) {
                out.add(received(message));
            }
        }
        return out;
    }

    static Map<String, Object> pulled(PullResult result) {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("status", result.getPullStatus().name());
        out.put("nextBeginOffset", result.getNextBeginOffset());
        out.put("minOffset", result.getMinOffset());
        out.put("maxOffset", result.getMaxOffset());
        out.put("messages", received(result.getMsgFoundList()));
        return out;
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    private Values() {}
}
