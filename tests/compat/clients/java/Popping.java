import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Java's push consumers in POP mode: java Popping NAMESERVER BROKER TOPIC COUNT CONSUMERS. */
public final class Popping {
    private static final String GROUP = "popping";
    private static final int PATIENCE_S = 60;

    private Popping() { }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // libraries write there too
        String names = arguments[0];
        String topic = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(names);
        admin.start();
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName(GROUP);
        admin.createAndUpdateSubscriptionGroupConfig(arguments[1], group);
        admin.setMessageRequestMode(arguments[1], topic, GROUP, MessageRequestMode.POP, 0, 5000);
        CountDownLatch left = new CountDownLatch(count);
        Set<String> failed = ConcurrentHashMap.newKeySet();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(arguments[4]); number++) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(GROUP);
            String name = "c" + number;
            consumer.setNamesrvAddr(names);
            consumer.setInstanceName(name);
            consumer.setClientRebalance(false);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    String body = new String(message.getBody(), StandardCharsets.UTF_8);
                    synchronized (out) {
                        out.println("got " + name + " " + body + " " + message.getReconsumeTimes());
                    }
                    if (body.startsWith("fail") && failed.add(body)) {
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                    left.countDown();
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        DefaultMQProducer producer = new DefaultMQProducer("popping-producer");
        producer.setNamesrvAddr(names);
        producer.start();
        for (int number = 0; number < count; number++) {
            String body = (number == 0 ? "fail-" : "ok-") + number;
            producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8)));
            Thread.sleep(10); // so that one message does not find all of them asleep
        }
        boolean all = left.await(PATIENCE_S, TimeUnit.SECONDS);
        out.println(all ? "done" : "left " + left.getCount());
        for (DefaultMQPushConsumer consumer : consumers) {
            consumer.shutdown();
        }
        producer.shutdown();
        admin.shutdown();
        System.exit(0);
    }
}
