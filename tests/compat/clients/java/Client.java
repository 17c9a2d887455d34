import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.RequestResponseFuture;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** Drives Java's rocketmq-client: java Client NAMESERVER NAME. */
public final class Client {
    private static final Gson GSON = new Gson();
    private static final PrintStream OUT = System.out;
    private static final int POLL_MS = 1000;
    // Of a send that a busy machine makes time out the client makes two.
    private static final int SEND_TIMEOUT_MS = 30_000;
    private static final long ASK_TIMEOUT_MS = 10_000;

    private final String nameServer;
    private final String name;
    private final Map<String, DefaultMQPushConsumer> consumers = new ConcurrentHashMap<>();
    private DefaultMQProducer producer;
    private TransactionMQProducer transactions;

    private Client(String nameServer, String name) {
        this.nameServer = nameServer;
        this.name = name;
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // libraries write there too
        Client client = new Client(arguments[0], arguments[1]);
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonObject request = GSON.fromJson(line, JsonObject.class);
            threads.execute(() -> client.answer(request));
        }
        System.exit(0);
    }

    private void answer(JsonObject request) {
        Map<String, Object> line = new HashMap<>();
        line.put("id", request.get("id"));
        try {
            line.put("ok", serve(request));
        } catch (Throwable error) {
            line.put("error", error.toString());
        }
        tell(line);
    }

    private static void tell(Map<String, Object> line) {
        String text = GSON.toJson(line);
        synchronized (OUT) {
            OUT.println(text);
            OUT.flush();
        }
    }

    private Object serve(JsonObject request) throws Exception {
        switch (text(request, "do")) {
            case "send":
                return send(request);
            case "batch":
                return batch(request);
            case "transaction":
                return transaction(request);
            case "request":
                return described((MessageExt) ask(message(request)));
            case "consume":
                return consume(request);
            case "stop":
                consumers.remove(text(request, "consumer")).shutdown();
                return true;
            case "queues":
                return producer().fetchPublishMessageQueues(text(request, "topic")).size();
            case "by_key":
                return byKey(request);
            case "by_id":
                return described(
                    producer().viewMessage(text(request, "topic"), text(request, "messageId")));
            case "quit":
                return quit();
            default:
                throw new IllegalArgumentException("this client cannot " + text(request, "do"));
        }
    }

    /** Signs requests, where the environment says as whom. */
    private static RPCHook hook() throws Exception {
        String user = System.getenv("CLIENT_ACCESS_KEY");
        if (user == null) {
            return null;
        }
        // Of another jar in each version, and in none where nobody signs.
        String room = "org.apache.rocketmq.acl.common.";
        Object credentials = Class.forName(room + "SessionCredentials")
            .getConstructor(String.class, String.class)
            .newInstance(user, System.getenv("CLIENT_SECRET_KEY"));
        return (RPCHook) Class.forName(room + "AclClientRPCHook")
            .getConstructor(credentials.getClass()).newInstance(credentials);
    }

    // Sending

    private synchronized DefaultMQProducer producer() throws Exception {
        if (producer == null) {
            producer = new DefaultMQProducer(name + "-producers", hook());
            producer.setNamesrvAddr(nameServer);
            producer.setPollNameServerInterval(POLL_MS);
            producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
            // Replies reach it once a broker has heard of it.
            producer.setHeartbeatBrokerInterval(POLL_MS);
            producer.start();
        }
        return producer;
    }

    private synchronized TransactionMQProducer transactions() throws Exception {
        if (transactions == null) {
            transactions = new TransactionMQProducer(name + "-transactions", hook());
            transactions.setNamesrvAddr(nameServer);
            transactions.setPollNameServerInterval(POLL_MS);
            transactions.setSendMsgTimeout(SEND_TIMEOUT_MS);
            transactions.setTransactionListener(new TransactionListener() {
                @Override
                public LocalTransactionState executeLocalTransaction(Message message, Object commit) {
                    if (message.getUserProperty("ends") != null) {
                        return LocalTransactionState.UNKNOW;
                    }
                    return (Boolean) commit ? LocalTransactionState.COMMIT_MESSAGE
                        : LocalTransactionState.ROLLBACK_MESSAGE;
                }

                @Override
                public LocalTransactionState checkLocalTransaction(MessageExt message) {
                    return "commit".equals(message.getUserProperty("ends"))
                        ? LocalTransactionState.COMMIT_MESSAGE
                        : LocalTransactionState.ROLLBACK_MESSAGE;
                }
            });
            transactions.start();
        }
        return transactions;
    }

    private static Message message(JsonObject request) {
        byte[] body = Base64.getDecoder().decode(text(request, "body"));
        Message message = new Message(text(request, "topic"), body);
        if (text(request, "tag") != null) {
            message.setTags(text(request, "tag"));
        }
        if (text(request, "keys") != null) {
            message.setKeys(text(request, "keys"));
        }
        if (request.get("delay").getAsInt() > 0) {
            message.setDelayTimeLevel(request.get("delay").getAsInt());
        }
        if (request.get("after_ms").getAsInt() > 0) {
            MessageAccessor.putProperty(message, "TIMER_DELAY_MS", text(request, "after_ms"));
        }
        for (Map.Entry<String, JsonElement> entry
                : request.getAsJsonObject("properties").entrySet()) {
            message.putUserProperty(entry.getKey(), entry.getValue().getAsString());
        }
        return message;
    }

    private Object send(JsonObject request) throws Exception {
        Message message = message(request);
        String order = text(request, "order");
        if (order != null) {
            return described(producer().send(message, new SelectMessageQueueByHash(), order));
        }
        switch (text(request, "how")) {
            case "oneway":
                producer().sendOneway(message);
                return new HashMap<>();
            case "async":
                CompletableFuture<SendResult> sent = new CompletableFuture<>();
                producer().send(message, new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        sent.complete(result);
                    }

                    @Override
                    public void onException(Throwable error) {
                        sent.completeExceptionally(error);
                    }
                });
                return described(sent.get(10, TimeUnit.SECONDS));
            default:
                return described(producer().send(message));
        }
    }

    private Object batch(JsonObject request) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (JsonElement one : request.getAsJsonArray("messages")) {
            messages.add(message(one.getAsJsonObject()));
        }
        return described(producer().send(messages));
    }

    private Object transaction(JsonObject request) throws Exception {
        boolean commit = request.get("commit").getAsBoolean();
        return described(transactions().sendMessageInTransaction(message(request), commit));
    }

    /**
     * Asks in the form that waits, as most users do.
     *
     * In 5.3.1 to 5.3.3 that form gives up as soon as the question is stored, unless the reply was
     * quicker: RequestResponseFuture.acquireCountDownLatch ends the wait, and is gone since. There
     * one has to ask with a callback, and to choose the queue oneself.
     */
    private Message ask(Message question) throws Exception {
        if (waits()) {
            return producer().request(question, ASK_TIMEOUT_MS);
        }
        CompletableFuture<Message> reply = new CompletableFuture<>();
        producer().request(question, new SelectMessageQueueByHash(), "any", new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                reply.complete(message);
            }

            @Override
            public void onException(Throwable error) {
                reply.completeExceptionally(error);
            }
        }, ASK_TIMEOUT_MS);
        return reply.get(2 * ASK_TIMEOUT_MS, TimeUnit.MILLISECONDS);
    }

    private static boolean waits() {
        for (Method method : RequestResponseFuture.class.getMethods()) {
            if (method.getName().equals("acquireCountDownLatch")) {
                return false;
            }
        }
        return true;
    }

    private static Map<String, Object> described(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.toString());
        }
        Map<String, Object> line = new HashMap<>();
        line.put("id", result.getMsgId());
        line.put("offset_id", result.getOffsetMsgId());
        line.put("queue", result.getMessageQueue().getQueueId());
        line.put("offset", result.getQueueOffset());
        return line;
    }

    // Receiving

    private Object consume(JsonObject request) throws Exception {
        String consumerName = text(request, "consumer");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            text(request, "group"), hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(nameServer);
        consumer.setPollNameServerInterval(POLL_MS);
        // When two of its threads want to beat at once, the client leaves one beat out.
        consumer.setHeartbeatBrokerInterval(POLL_MS);
        consumer.setInstanceName(consumerName + "-" + ProcessHandle.current().pid());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        if (request.get("broadcast").getAsBoolean()) {
            broadcasting(consumer);
        }
        if (text(request, "maxRetries") != null) {
            consumer.setMaxReconsumeTimes(request.get("maxRetries").getAsInt());
        }
        String expression = text(request, "expression");
        if (request.get("sql").getAsBoolean()) {
            consumer.subscribe(text(request, "topic"), MessageSelector.bySql(expression));
        } else {
            consumer.subscribe(text(request, "topic"), expression);
        }
        Map<String, Integer> left = new ConcurrentHashMap<>();
        for (Map.Entry<String, JsonElement> entry : request.getAsJsonObject("fail").entrySet()) {
            left.put(entry.getKey(), entry.getValue().getAsInt());
        }
        if (request.get("orderly").getAsBoolean()) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                take(consumerName, messages.get(0), left) ? ConsumeOrderlyStatus.SUCCESS
                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                take(consumerName, messages.get(0), left)
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        consumers.put(consumerName, consumer);
        consumer.start();
        return true;
    }

    /** Sets the model, whose type is in another package since 5.0. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void broadcasting(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                Class<Enum> model = (Class<Enum>) method.getParameterTypes()[0];
                method.invoke(consumer, Enum.valueOf(model, "BROADCASTING"));
            }
        }
    }

    private boolean take(String consumer, MessageExt message, Map<String, Integer> left) {
        Map<String, Object> line = described(message);
        line.put("received", consumer);
        tell(line);
        if (MessageUtil.getReplyToClient(message) != null) {
            reply(message);
        }
        return left.merge((String) line.get("body"), -1, Integer::sum) < 0;
    }

    private void reply(MessageExt question) {
        try {
            byte[] body = ("reply to " + new String(question.getBody(), StandardCharsets.UTF_8))
                .getBytes(StandardCharsets.UTF_8);
            producer().send(MessageUtil.createReplyMessage(question, body));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private Object byKey(JsonObject request) throws Exception {
        List<Object> found = new ArrayList<>();
        long now = System.currentTimeMillis();
        for (MessageExt message : producer().queryMessage(text(request, "topic"),
                text(request, "key"), 32, now - 3_600_000, now + 3_600_000).getMessageList()) {
            found.add(described(message));
        }
        return found;
    }

    private static Map<String, Object> described(MessageExt message) {
        Map<String, Object> line = new HashMap<>();
        line.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        line.put("topic", message.getTopic());
        line.put("tag", message.getTags());
        line.put("keys", message.getKeys());
        line.put("id", message.getMsgId());
        line.put("queue", message.getQueueId());
        line.put("offset", message.getQueueOffset());
        line.put("reconsumed", message.getReconsumeTimes());
        line.put("born_ms", message.getBornTimestamp());
        line.put("stored_ms", message.getStoreTimestamp());
        line.put("properties", message.getProperties());
        return line;
    }

    private synchronized Object quit() {
        if (producer != null) {
            producer.shutdown();
        }
        if (transactions != null) {
            transactions.shutdown();
        }
        return true;
    }

    private static String text(JsonObject request, String field) {
        JsonElement value = request.get(field);
        return value == null || value.isJsonNull() ? null : value.getAsString();
    }
}
