import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * A load so light that the broker is what saturates: frames are built once, only opaque is patched.
 *
 * <p>Usage: {@code java FrameLoad.java HOST PORT MODE CONNECTIONS WINDOW WARMUP COUNT BODY_BYTES TOPIC
 * QUEUES TOPICS}. MODE is {@code send}, {@code oneway}, {@code batch} (32 messages a frame, COUNT counts
 * messages) or {@code delivery}. TOPIC is a format of the topic's number, and each has QUEUES queues, which get
 * messages in turn. All connections are made before the warm-up. Each keeps WINDOW frames in flight. A one-way
 * message counts once the queues' max offsets cover it, and the time ends when they stand still or cover all. A
 * delivery is timed from the send to the answer of a pull that waits on another connection; WINDOW of them begin
 * in a second. After the warm-up it prints {@code warm} and waits for a line; at last it prints one line of JSON.
 */
public final class FrameLoad {
    private static final int BATCH_MESSAGES = 32;
    private static final int OPAQUE_DIGITS = 9;
    private static final int ONEWAY_FLAG = 2;
    private static final int SEND = 310;
    private static final int SEND_BATCH = 320;
    private static final int GET_MAX_OFFSET = 30;
    private static final int PULL = 11;
    private static final int HOLD_MILLIS = 15_000;
    private static final long STANDSTILL_NANOS_MAX = 3_000_000_000L;
    private static final int READ_BYTES = 1 << 20;
    private static final int READ_BYTES_LEAST = 1 << 14;
    private static final byte[] OFFSET_FIELD = "\"offset\":\"".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] CODE_OK = "\"code\":0".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] CODE_BUSY = "\"code\":2,".getBytes(StandardCharsets.US_ASCII);

    private final String host;
    private final int port;
    private final String mode;
    private final int window;
    private final int bodyBytes;
    private final String topic;
    private final int queues;
    private final int topics;
    private final Template[][] templates;
    private final AtomicLong errors = new AtomicLong();

    private FrameLoad(String[] arguments) {
        host = arguments[0];
        port = Integer.parseInt(arguments[1]);
        mode = arguments[2];
        window = Integer.parseInt(arguments[4]);
        bodyBytes = Integer.parseInt(arguments[7]);
        topic = arguments[8];
        queues = Integer.parseInt(arguments[9]);
        topics = Integer.parseInt(arguments[10]);
        templates = new Template[Integer.parseInt(arguments[3])][queues * topics];
    }

    public static void main(String[] arguments) throws Exception {
        FrameLoad load = new FrameLoad(arguments);
        int connections = Integer.parseInt(arguments[3]);
        int warmup = Integer.parseInt(arguments[5]);
        int count = Integer.parseInt(arguments[6]);
        Socket[] sockets = new Socket[connections];
        for (int index = 0; index < connections; index++) {
            sockets[index] = new Socket(load.host, load.port);
            sockets[index].setTcpNoDelay(true);
        }
        load.run(sockets, warmup);
        load.errors.set(0);  // a broker that is not warm yet may refuse what comes at once
        System.out.println("warm");
        if (System.in.read() < 0) {
            throw new IOException("nobody is there");
        }
        System.out.println(load.run(sockets, count).replace("{", "{\"warmup\":" + warmup + ","));
        for (Socket socket : sockets) {
            socket.close();
        }
    }

    private String run(Socket[] sockets, int count) throws Exception {
        int connections = sockets.length;
        int perFrame = mode.equals("batch") ? BATCH_MESSAGES : 1;
        boolean oneway = mode.equals("oneway");
        int frames = count / connections / perFrame;
        int sent = frames * connections * perFrame;
        long[][] latencies = new long[connections][oneway ? 1 : frames];
        CountDownLatch done = new CountDownLatch(connections);
        long before = oneway ? stored() : 0;
        long begin = System.nanoTime();
        for (int index = 0; index < connections; index++) {
            long[] mine = latencies[index];
            int seed = index;
            new Thread(() -> {
                try {
                    drive(sockets[seed], frames, seed, mine, Math.max(READ_BYTES_LEAST, READ_BYTES / connections));
                } catch (IOException failure) {
                    errors.incrementAndGet();
                    System.err.println(failure);
                } finally {
                    done.countDown();
                }
            }).start();
        }
        done.await();
        long end = System.nanoTime();
        long messages = sent;
        if (oneway) {
            messages = stored() - before;
            end = System.nanoTime();
            while (messages < sent && System.nanoTime() - end < STANDSTILL_NANOS_MAX) {
                Thread.sleep(1);
                long now = stored() - before;
                if (now > messages) {
                    messages = now;
                    end = System.nanoTime();
                }
            }
        }
        return report(connections, messages, (end - begin) / 1e9, latencies, sent - messages);
    }

    private String report(int connections, long messages, double seconds, long[][] latencies, long lost) {
        long[] all = Arrays.stream(latencies).flatMapToLong(Arrays::stream).sorted().toArray();
        return String.format(
            "{\"mode\":\"%s\",\"connections\":%d,\"window\":%d,\"messages\":%d,\"seconds\":%.4f,"
                + "\"per_second\":%.0f,\"p50_ms\":%.4f,\"p99_ms\":%.4f,\"lost\":%d,\"errors\":%d}",
            mode, connections, window, messages, seconds, messages / seconds, all[all.length / 2] / 1e6,
            all[(int) (all.length * 0.99)] / 1e6, lost, errors.get());
    }

    /** How many messages the queues hold, for everyone to see. */
    private long stored() throws IOException {
        long sum = 0;
        try (Socket socket = new Socket(host, port)) {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            for (int queue = 0; queue < queues; queue++) {
                sum += maxOffset(queue, in, socket.getOutputStream());
            }
        }
        return sum;
    }

    private long maxOffset(int queue, DataInputStream in, OutputStream out) throws IOException {
        String fields = "\"queueId\":\"" + queue + "\",\"topic\":\"" + topic + "\"";
        byte[] header;
        do {  // a broker that has too much to do refuses to look: nothing is lost by that
            out.write(request(GET_MAX_OFFSET, fields, 0, new byte[0]));
            header = readHeader(in);
        } while (indexOf(header, CODE_BUSY) >= 0);
        count(header);
        int at = indexOf(header, OFFSET_FIELD) + OFFSET_FIELD.length;
        long offset = 0;
        while (header[at] >= '0' && header[at] <= '9') {
            offset = offset * 10 + header[at++] - '0';
        }
        return offset;
    }

    private void drive(Socket socket, int frames, int seed, long[] latencies, int readBytes) throws IOException {
        DataInputStream in = new DataInputStream(new java.io.BufferedInputStream(socket.getInputStream(), readBytes));
        DataOutputStream out = new DataOutputStream(socket.getOutputStream());
        if (mode.equals("oneway")) {
            driveOneway(frames, in, out, latencies);
            return;
        }
        if (mode.equals("delivery")) {
            driveDeliveries(frames, in, out, latencies);
            return;
        }
        // A frame for each queue, made when it is first sent: one of many connections sends to few queues.
        Template[] mine = templates[seed];
        long[] sentAt = new long[frames];
        int sent = 0;
        int answered = 0;
        while (answered < frames) {
            ByteArrayOutputStream chunk = new ByteArrayOutputStream();
            while (sent < frames && sent - answered < window) {
                int which = (sent + seed) % mine.length;
                if (mine[which] == null) {
                    mine[which] = new Template(frame(which, 0));
                }
                chunk.write(mine[which].numbered(sent));
                sentAt[sent++] = System.nanoTime();
            }
            if (chunk.size() > 0) {
                chunk.writeTo(out);
                out.flush();
            }
            do {
                int opaque = readAnswer(in);
                latencies[opaque] = System.nanoTime() - sentAt[opaque];
                answered++;
            } while (answered < sent && in.available() > 4);
        }
    }

    private void driveOneway(int frames, DataInputStream in, DataOutputStream out, long[] latencies)
        throws IOException {
        byte[][] built = templates(ONEWAY_FLAG);
        long begin = System.nanoTime();
        ByteArrayOutputStream chunk = new ByteArrayOutputStream();
        for (int index = 0; index < frames - 1; index++) {
            chunk.write(built[index % queues]);
            if (chunk.size() > 1 << 17) {
                chunk.writeTo(out);
                chunk.reset();
            }
        }
        chunk.writeTo(out);
        // The last one is answered: a connection closed early would take unread frames with it.
        // Refused, it is one of those that the queues will not show.
        out.write(templates(0)[0]);
        readHeader(in);
        latencies[0] = System.nanoTime() - begin;
    }

    private void driveDeliveries(int frames, DataInputStream in, DataOutputStream out, long[] latencies)
        throws IOException {
        byte[] template = templates(0)[0];
        try (Socket other = new Socket(host, port)) {
            other.setTcpNoDelay(true);
            DataInputStream pulled = new DataInputStream(other.getInputStream());
            long offset = maxOffset(0, pulled, other.getOutputStream());
            long gap = 1_000_000_000L / window;
            long next = System.nanoTime() + gap;
            for (int index = 0; index < frames; index++, offset++, next += gap) {
                other.getOutputStream().write(pull(offset));
                while (System.nanoTime() < next) {
                    LockSupport.parkNanos(Math.max(1, next - System.nanoTime()));
                }
                long sent = System.nanoTime();
                out.write(template);
                count(readHeader(pulled));
                latencies[index] = System.nanoTime() - sent;
                count(readHeader(in));
            }
        }
    }

    private byte[] pull(long offset) {
        String fields = "\"consumerGroup\":\"load\",\"topic\":\"" + topic + "\",\"queueId\":\"0\",\"queueOffset\":\""
            + offset + "\",\"maxMsgNums\":\"32\",\"sysFlag\":\"6\",\"commitOffset\":\"0\",\"suspendTimeoutMillis\":\""
            + HOLD_MILLIS + "\",\"subscription\":\"*\",\"subVersion\":\"1\",\"expressionType\":\"TAG\"";
        return request(PULL, fields, 0, new byte[0]);
    }

    private int readAnswer(DataInputStream in) throws IOException {
        byte[] header = readHeader(in);
        count(header);
        int at = indexOf(header, "\"opaque\":".getBytes(StandardCharsets.US_ASCII)) + 9;
        int opaque = 0;
        while (header[at] >= '0' && header[at] <= '9') {
            opaque = opaque * 10 + header[at++] - '0';
        }
        return opaque - 100_000_000;
    }

    private void count(byte[] header) {
        if (indexOf(header, CODE_OK) < 0) {
            errors.incrementAndGet();
        }
    }

    private byte[] readHeader(DataInputStream in) throws IOException {
        int length = in.readInt();
        int headerBytes = in.readInt() & 0xFFFFFF;
        byte[] header = new byte[headerBytes];
        in.readFully(header);
        in.skipNBytes(length - 4L - headerBytes);
        return header;
    }

    private byte[][] templates(int flag) {
        byte[][] built = new byte[queues][];
        for (int queue = 0; queue < queues; queue++) {
            built[queue] = frame(queue, flag);
        }
        return built;
    }

    private byte[] frame(int number, int flag) {
        int queue = number % queues;
        boolean batch = mode.equals("batch");
        String properties = batch ? "" : "UNIQ_KEY\\u00017F00000100002A139F8C1B2C3D4E0001\\u0002WAIT\\u0001true\\u0002TAGS\\u0001TagA";
        String fields = "\"a\":\"load\",\"b\":\"" + String.format(topic, number / queues) + "\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"" + queue
            + "\",\"f\":\"0\",\"g\":\"" + System.currentTimeMillis() + "\",\"h\":\"0\",\"i\":\"" + properties
            + "\",\"j\":\"0\",\"k\":\"false\",\"m\":\"" + batch + "\"";
        return request(batch ? SEND_BATCH : SEND, fields, flag, batch ? batchBody() : new byte[bodyBytes]);
    }

    private static byte[] request(int code, String fields, int flag, byte[] body) {
        String header = "{\"code\":" + code + ",\"extFields\":{" + fields + "},\"flag\":" + flag
            + ",\"language\":\"JAVA\",\"opaque\":100000000,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}";
        byte[] headerBytes = header.getBytes(StandardCharsets.UTF_8);
        ByteBuffer buffer = ByteBuffer.allocate(8 + headerBytes.length + body.length);
        buffer.putInt(4 + headerBytes.length + body.length).putInt(headerBytes.length);
        buffer.put(headerBytes).put(body);
        return buffer.array();
    }

    private byte[] batchBody() {
        byte[] properties = "TAGS\u0001TagA\u0002WAIT\u0001true".getBytes(StandardCharsets.UTF_8);
        int size = 4 + 4 + 4 + 4 + 4 + bodyBytes + 2 + properties.length;
        ByteBuffer buffer = ByteBuffer.allocate(size * BATCH_MESSAGES);
        for (int index = 0; index < BATCH_MESSAGES; index++) {
            buffer.putInt(size).putInt(0).putInt(0).putInt(0).putInt(bodyBytes).put(new byte[bodyBytes]);
            buffer.putShort((short) properties.length).put(properties);
        }
        return buffer.array();
    }

    /** A frame, and where its opaque is. */
    private record Template(byte[] frame, int opaqueAt) {
        Template(byte[] frame) {
            this(frame, indexOf(frame, "\"opaque\":".getBytes(StandardCharsets.US_ASCII)) + 9);
        }

        /** The same frame, with another opaque from now on. */
        byte[] numbered(int value) {
            int rest = value + 100_000_000;
            for (int digit = OPAQUE_DIGITS - 1; digit >= 0; digit--) {
                frame[opaqueAt + digit] = (byte) ('0' + rest % 10);
                rest /= 10;
            }
            return frame;
        }
    }

    private static int indexOf(byte[] text, byte[] wanted) {
        outer:
        for (int at = 0; at <= text.length - wanted.length; at++) {
            for (int index = 0; index < wanted.length; index++) {
                if (text[at + index] != wanted[index]) {
                    continue outer;
                }
            }
            return at;
        }
        return -1;
    }
}
