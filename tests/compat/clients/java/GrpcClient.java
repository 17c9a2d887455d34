import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Drives Java's rocketmq-client-java, which speaks gRPC: java GrpcClient ENDPOINT NAME tls|plain. */
public final class GrpcClient {
    private static final Gson GSON = new Gson();
    private static final PrintStream OUT = System.out;
    private static final Duration HIDDEN = Duration.ofSeconds(10);

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;
    private final Map<String, Producer> producers = new ConcurrentHashMap<>();
    private final Map<String, Closeable> consumers = new ConcurrentHashMap<>();

    private GrpcClient(String endpoint, boolean tls) {
        configuration = ClientConfiguration.newBuilder()
            .setEndpoints(endpoint)
            .enableSsl(tls)
            .setRequestTimeout(Duration.ofSeconds(20))
            .build();
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // libraries write there too
        GrpcClient client = new GrpcClient(arguments[0], arguments[2].equals("tls"));
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
                return described(producer(text(request, "topic")).send(message(request)));
            case "transaction":
                return transaction(request);
            case "consume":
                return consume(request);
            case "stop":
                consumers.remove(text(request, "consumer")).close();
                return true;
            case "quit":
                for (Producer producer : producers.values()) {
                    producer.close();
                }
                return true;
            default:
                throw new IllegalArgumentException("this client cannot " + text(request, "do"));
        }
    }

    // Sending

    private synchronized Producer producer(String topic) throws Exception {
        Producer producer = producers.get(topic);
        if (producer == null) {
            producer = provider.newProducerBuilder()
                .setClientConfiguration(configuration)
                .setTopics(topic)
                .setTransactionChecker(message ->
                    "commit".equals(message.getProperties().get("ends"))
                        ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK)
                .build();
            producers.put(topic, producer);
        }
        return producer;
    }

    private Message message(JsonObject request) {
        MessageBuilder builder = provider.newMessageBuilder()
            .setTopic(text(request, "topic"))
            .setBody(Base64.getDecoder().decode(text(request, "body")));
        if (text(request, "tag") != null) {
            builder.setTag(text(request, "tag"));
        }
        if (text(request, "keys") != null) {
            builder.setKeys(text(request, "keys").split(" "));
        }
        if (text(request, "order") != null) {
            builder.setMessageGroup(text(request, "order"));
        }
        int after = request.get("after_ms").getAsInt();
        if (after > 0) {
            builder.setDeliveryTimestamp(System.currentTimeMillis() + after);
        }
        for (Map.Entry<String, JsonElement> entry
                : request.getAsJsonObject("properties").entrySet()) {
            builder.addProperty(entry.getKey(), entry.getValue().getAsString());
        }
        return builder.build();
    }

    private Object transaction(JsonObject request) throws Exception {
        Producer producer = producer(text(request, "topic"));
        Transaction transaction = producer.beginTransaction();
        SendReceipt receipt = producer.send(message(request), transaction);
        if (!request.getAsJsonObject("properties").has("ends")) { // else the server asks
            if (request.get("commit").getAsBoolean()) {
                transaction.commit();
            } else {
                transaction.rollback();
            }
        }
        return described(receipt);
    }

    private static Map<String, Object> described(SendReceipt receipt) {
        Map<String, Object> line = new HashMap<>();
        line.put("id", receipt.getMessageId().toString());
        return line;
    }

    // Receiving

    private Object consume(JsonObject request) throws Exception {
        String name = text(request, "consumer");
        FilterExpressionType type = request.get("sql").getAsBoolean()
            ? FilterExpressionType.SQL92 : FilterExpressionType.TAG;
        Map<String, FilterExpression> wanted = Collections.singletonMap(
            text(request, "topic"), new FilterExpression(text(request, "expression"), type));
        Map<String, Integer> left = new ConcurrentHashMap<>();
        for (Map.Entry<String, JsonElement> entry : request.getAsJsonObject("fail").entrySet()) {
            left.put(entry.getKey(), entry.getValue().getAsInt());
        }
        if (request.get("simple").getAsBoolean()) {
            SimpleConsumer consumer = provider.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(text(request, "group"))
                .setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(wanted)
                .build();
            consumers.put(name, consumer);
            Thread thread = new Thread(() -> receive(name, consumer, left));
            thread.setDaemon(true);
            thread.start();
            return true;
        }
        consumers.put(name, provider.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(text(request, "group"))
            .setSubscriptionExpressions(wanted)
            .setConsumptionThreadCount(4)
            .setMessageListener(message ->
                take(name, message, left) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE)
            .build());
        return true;
    }

    private void receive(String name, SimpleConsumer consumer, Map<String, Integer> left) {
        while (consumers.get(name) == consumer) {
            try {
                for (MessageView message : consumer.receive(16, HIDDEN)) {
                    if (take(name, message, left)) {
                        consumer.ack(message);
                    }
                }
            } catch (Exception error) {
                error.printStackTrace();
            }
        }
    }

    private static boolean take(String consumer, MessageView message, Map<String, Integer> left) {
        ByteBuffer buffer = message.getBody();
        byte[] body = new byte[buffer.remaining()];
        buffer.get(body);
        Map<String, Object> line = new HashMap<>();
        line.put("received", consumer);
        line.put("body", Base64.getEncoder().encodeToString(body));
        line.put("topic", message.getTopic());
        line.put("tag", message.getTag().orElse(null));
        line.put("keys", message.getKeys().isEmpty() ? null : String.join(" ", message.getKeys()));
        line.put("id", message.getMessageId().toString());
        line.put("reconsumed", message.getDeliveryAttempt() - 1);
        line.put("born_ms", message.getBornTimestamp());
        line.put("properties", message.getProperties());
        tell(line);
        return left.merge((String) line.get("body"), -1, Integer::sum) < 0;
    }

    private static String text(JsonObject request, String field) {
        JsonElement value = request.get(field);
        return value == null || value.isJsonNull() ? null : value.getAsString();
    }
}
