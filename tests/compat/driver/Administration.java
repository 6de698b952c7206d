import ch.qos.logback.classic.LoggerContext;
import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.FutureTask;
import org.apache.commons.cli.CommandLine;
import org.apache.commons.cli.Option;
import org.apache.commons.cli.Options;
import org.apache.commons.cli.PosixParser;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.LockBatchRequestBody;
import org.apache.rocketmq.common.protocol.body.UnlockBatchRequestBody;
import org.apache.rocketmq.common.protocol.header.QueryConsumerOffsetRequestHeader;
import org.apache.rocketmq.common.protocol.route.TopicRouteData;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.srvutil.ServerUtil;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;
import org.slf4j.LoggerFactory;

/** What mqadmin and the dashboard do, as far as the tests need it, and queue locks by hand. */
@SuppressWarnings("deprecation") // the way in to the client's inner state
final class Administration {
    private static final long TIMEOUT_MS = 10_000;
    private static DefaultMQAdminExt admin;

    static void register(Map<String, Driver.Command> commands) {
        commands.put("createTopic", Administration::createTopic);
        commands.put("createTopicAsClient", in -> {
            admin().createTopic(
                    in.getString("key"), in.getString("topic"), in.getIntValue("queues"));
            return null;
        });
        commands.put("createGroup", Administration::createGroup);
        commands.put("route", Administration::route);
        commands.put("cluster", in -> JSON.toJSON(admin().examineBrokerClusterInfo()));
        commands.put("consumeOffset", Administration::consumeOffset);
        commands.put("consumers", Administration::consumers);
        commands.put("brokerConfig", in -> new TreeMap<>(
                admin().getBrokerConfig(in.getString("address"))));
        commands.put("headerForm",
                in -> RemotingCommand.getSerializeTypeConfigInThisServer().name());
        commands.put("mqadmin", Administration::mqadmin);
        commands.put("mqadminFlags", Administration::mqadminFlags);
        commands.put("lock", Administration::lock);
        commands.put("unlock", Administration::unlock);
    }

    private static Object createTopic(JSONObject in) throws Exception {
        TopicConfig config = new TopicConfig(in.getString("topic"));
        config.setReadQueueNums(in.getIntValue("queues"));
        config.setWriteQueueNums(in.getIntValue("queues"));
        if (in.containsKey("perm")) {
            config.setPerm(in.getIntValue("perm"));
        }
        config.setOrder(in.getBooleanValue("order"));
        admin().createAndUpdateTopicConfig(in.getString("address"), config);
        return null;
    }

    private static Object createGroup(JSONObject in) throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(in.getString("group"));
        if (in.containsKey("retriesMax")) {
            config.setRetryMaxTimes(in.getIntValue("retriesMax"));
        }
        admin().createAndUpdateSubscriptionGroupConfig(in.getString("address"), config);
        return null;
    }

    private static Object route(JSONObject in) throws Exception {
        TopicRouteData route = admin().examineTopicRouteInfo(in.getString("topic"));
        return JSON.toJSON(route);
    }

    /** How far a group has come in a queue; the broker's QUERY_NOT_FOUND is an error with its code. */
    private static Object consumeOffset(JSONObject in) throws Exception {
        QueryConsumerOffsetRequestHeader header = new QueryConsumerOffsetRequestHeader();
        header.setConsumerGroup(in.getString("group"));
        header.setTopic(in.getString("topic"));
        header.setQueueId(in.getIntValue("queueId"));
        return api().queryConsumerOffset(in.getString("address"), header, TIMEOUT_MS);
    }

    private static Object consumers(JSONObject in) throws Exception {
        return JSON.toJSON(admin().examineConsumerConnectionInfo(in.getString("group")));
    }

    /**
     * Run a command of mqadmin; return what it prints. One without an end gets "endAfterMs". With an
     * "accessKey" its requests are signed.
     */
    private static Object mqadmin(JSONObject in) throws Exception {
        // A new one each time: some keep the client that they have shut down.
        SubCommand command = Startup.find(in.getString("command"))
                .getClass().getDeclaredConstructor().newInstance();
        List<String> words = new ArrayList<>(in.getJSONArray("words").toJavaList(String.class));
        words.add("-n");
        words.add(Driver.nameServer);
        Options options = ServerUtil.buildCommandlineOptions(new Options());
        command.buildCommandlineOptions(options);
        CommandLine line = new PosixParser().parse(options, words.toArray(new String[0]));
        System.setProperty("rocketmq.namesrv.addr", Driver.nameServer);
        PrintStream out = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true));
        RPCHook hook = in.containsKey("accessKey")
                ? new AclClientRPCHook(new SessionCredentials(
                        in.getString("accessKey"), in.getString("secretKey")))
                : null;
        FutureTask<Object> task = new FutureTask<>(() -> {
            command.execute(line, options, hook);
            return null;
        });
        Thread thread = new Thread(task);
        thread.start();
        try {
            thread.join(in.getLongValue("endAfterMs"));
            if (!task.isDone()) {
                thread.interrupt();
                thread.join();
            } else {
                task.get();
            }
        } finally {
            System.setOut(out);
        }
        return printed.toString();
    }

    /** The flags of every command of mqadmin, as short name, long name and whether it is needed. */
    private static Object mqadminFlags(JSONObject in) {
        Map<String, Object> found = new TreeMap<>();
        for (SubCommand command : Startup.commands()) {
            List<Object> flags = new ArrayList<>();
            for (Object each : command.buildCommandlineOptions(new Options()).getOptions()) {
                Option flag = (Option) each;
                flags.add(Arrays.asList(flag.getOpt(), flag.getLongOpt(), flag.hasArg()));
            }
            found.put(command.commandName(), flags);
        }
        return found;
    }

    /** The way in to mqadmin's table of commands. */
    private static final class Startup extends MQAdminStartup {
        static List<SubCommand> commands() {
            if (subCommandList.isEmpty()) {
                initCommand();
                // What the console gets of the log would stand between what commands print.
                ((LoggerContext) LoggerFactory.getILoggerFactory()).reset();
            }
            return subCommandList;
        }

        static SubCommand find(String name) {
            return commands().stream()
                    .filter(command -> command.commandName().equals(name))
                    .findFirst()
                    .orElseThrow(() -> new IllegalArgumentException("no command " + name));
        }
    }

    private static Object lock(JSONObject in) throws Exception {
        LockBatchRequestBody body = new LockBatchRequestBody();
        body.setConsumerGroup(in.getString("group"));
        body.setClientId(in.getString("client"));
        body.setMqSet(queues(in));
        JSONArray out = new JSONArray();
        for (MessageQueue locked : api().lockBatchMQ(in.getString("address"), body, TIMEOUT_MS)) {
            out.add(locked.getQueueId());
        }
        return out;
    }

    private static Object unlock(JSONObject in) throws Exception {
        UnlockBatchRequestBody body = new UnlockBatchRequestBody();
        body.setConsumerGroup(in.getString("group"));
        body.setClientId(in.getString("client"));
        body.setMqSet(queues(in));
        api().unlockBatchMQ(in.getString("address"), body, TIMEOUT_MS, false);
        return null;
    }

    private static Set<MessageQueue> queues(JSONObject in) {
        Set<MessageQueue> queues = new HashSet<>();
        for (Object id : in.getJSONArray("queueIds")) {
            queues.add(new MessageQueue(
                    in.getString("topic"), in.getString("broker"), ((Number) id).intValue()));
        }
        return queues;
    }

    private static MQClientAPIImpl api() throws Exception {
        return Reading.consumer().getDefaultMQPullConsumerImpl().getRebalanceImpl()
                .getmQClientFactory().getMQClientAPIImpl();
    }

    static DefaultMQAdminExt admin() throws Exception {
        if (admin == null) {
            admin = new DefaultMQAdminExt(TIMEOUT_MS);
            admin.setNamesrvAddr(Driver.nameServer);
            admin.setInstanceName("driver-admin");
            admin.start();
            Driver.RUNNING.push(admin::shutdown);
        }
        return admin;
    }

    private Administration() {}
}
