import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.util.BitsArray;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * Asks RocketMQ's own filter module: a JSON object a line in, one a line out. An object with an
 * expression is compiled and evaluated on each of its property sets; one with names is hashed into
 * a bloom filter.
 */
public class FilterOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject asked = JSON.parseObject(line, Feature.OrderedField);
            Object answer = asked.containsKey("expression") ? evaluate(asked) : hash(asked);
            answers.println(JSON.toJSONString(answer));
        }
        answers.flush();
    }

    private static Map<String, Object> evaluate(JSONObject asked) {
        Map<String, Object> answer = new HashMap<>();
        List<String> results = new ArrayList<>();
        answer.put("results", results);
        Expression compiled;
        try {
            compiled =
                FilterFactory.INSTANCE
                    .get(ExpressionType.SQL92)
                    .compile(asked.getString("expression"));
        } catch (Exception refusal) {
            answer.put("remark", refusal.getMessage());
            return answer;
        }
        for (Object properties : asked.getJSONArray("properties")) {
            results.add(result(compiled, (JSONObject) properties));
        }
        return answer;
    }

    private static String result(Expression compiled, JSONObject asked) {
        Map<String, String> properties = new HashMap<>();
        asked.forEach((name, value) -> properties.put(name, (String) value));
        try {
            return String.valueOf(compiled.evaluate(new MessageEvaluationContext(properties)));
        } catch (Throwable failure) {
            return "error";
        }
    }

    private static Map<String, Object> hash(JSONObject asked) {
        BloomFilter bloom =
            BloomFilter.createByFn(asked.getIntValue("errorRate"), asked.getIntValue("count"));
        BitsArray bits = BitsArray.create(bloom.getM());
        List<int[]> positions = new ArrayList<>();
        JSONArray names = asked.getJSONArray("names");
        for (int i = 0; i < names.size(); i++) {
            positions.add(bloom.calcBitPositions(names.getString(i)));
            bloom.hashTo(names.getString(i), bits);
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("hashCount", bloom.getK());
        answer.put("bitCount", bloom.getM());
        answer.put("positions", positions);
        StringBuilder hex = new StringBuilder();
        for (byte each : bits.bytes()) {
            hex.append(String.format("%02x", each));
        }
        answer.put("bits", hex.toString());
        return answer;
    }
}
