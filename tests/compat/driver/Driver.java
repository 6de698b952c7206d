import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;

/**
 * RocketMQ's own client, told what to do line by line.
 *
 * <p>The first line of the input is a JSON object: "nameServer" is an address, "properties" are
 * the system's. In each further one "do" names a command, the rest are its arguments. Each line of
 * the output answers one of those, in order: {"ok": result}, or {"error": {"type", "code",
 * "message"}}. Everything that libraries print goes to the error stream. The end of the input
 * shuts everything down in the reverse order of its start.
 */
public final class Driver {
    /** A command: arguments in, something that can be written as JSON out. */
    interface Command {
        Object run(JSONObject arguments) throws Exception;
    }

    /** What must be shut down, newest first. */
    static final Deque<Runnable> RUNNING = new ArrayDeque<>();

    static String nameServer;

    public static void main(String[] words) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Map<String, Command> commands = new TreeMap<>();
        Sending.register(commands);
        Transactions.register(commands);
        Reading.register(commands);
        Consuming.register(commands);
        Administration.register(commands);
        Asking.register(commands);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        loadClasses();
        begin(in.readLine());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject arguments = JSON.parseObject(line);
            Map<String, Object> answer = answer(commands, arguments);
            String text = JSON.toJSONString(answer, SerializerFeature.WriteMapNullValue,
                    SerializerFeature.DisableCircularReferenceDetect);
            out.write((text + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        }
        while (!RUNNING.isEmpty()) {
            RUNNING.pop().run();
        }
        System.exit(0); // the client's timers are not all daemons
    }

    /** Loads most of what the first command will need, while nobody waits for it. */
    private static void loadClasses() {
        JSON.toJSONString(Collections.singletonMap("ok", null), SerializerFeature.WriteMapNullValue);
        NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());
        client.start();
        client.shutdown();
    }

    /** Takes what the classes of the client read when they are loaded, which is not yet. */
    private static void begin(String line) {
        if (line != null) {
            JSONObject said = JSON.parseObject(line);
            nameServer = said.getString("nameServer");
            JSONObject properties = said.getJSONObject("properties");
            properties.forEach((key, value) -> System.setProperty(key, value.toString()));
        }
    }

    /** How often a client asks for routes: as "driver.routesMs" says, or what it does by itself. */
    static int routesMs(ClientConfig client) {
        return Integer.getInteger("driver.routesMs", client.getPollNameServerInterval());
    }

    /** What signs the requests of a client: "driver.accessKey" and "driver.secretKey", or null. */
    static RPCHook hook() {
        String accessKey = System.getProperty("driver.accessKey");
        return accessKey == null ? null : new AclClientRPCHook(
                new SessionCredentials(accessKey, System.getProperty("driver.secretKey")));
    }

    private static Map<String, Object> answer(Map<String, Command> commands, JSONObject arguments) {
        try {
            Command command = commands.get(arguments.getString("do"));
            if (command == null) {
                throw new IllegalArgumentException("no command, there are " + commands.keySet());
            }
            return Collections.singletonMap("ok", command.run(arguments));
        } catch (Throwable failure) {
            failure.printStackTrace();
            return Collections.singletonMap("error", describe(failure));
        }
    }

    static Map<String, Object> describe(Throwable failure) {
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("type", failure.getClass().getSimpleName());
        error.put("message", failure.getMessage());
        if (failure instanceof MQBrokerException) {
            error.put("code", ((MQBrokerException) failure).getResponseCode());
            error.put("message", ((MQBrokerException) failure).getErrorMessage());
        } else if (failure instanceof MQClientException) {
            error.put("code", ((MQClientException) failure).getResponseCode());
        }
        return error;
    }

    private Driver() {}
}
