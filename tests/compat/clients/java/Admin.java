import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin, one a line, and says what each printed.
 *
 * A line has the command's words with a unit separator between them, the answer is base64. Two
 * words are no commands: "consume GROUP TOPIC" and "produce GROUP TOPIC" start a client that stays.
 */
public final class Admin {
    private static final PrintStream OUT = System.out;

    public static void main(String[] arguments) throws Exception {
        String nameServer = arguments[0];
        System.setProperty("rocketmq.namesrv.addr", nameServer);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream catching = new PrintStream(said, true, "UTF-8");
            System.setOut(catching);
            System.setErr(catching);
            try {
                run(nameServer, line.split("\u001f", -1));
            } catch (Throwable error) {
                error.printStackTrace(catching);
            }
            catching.flush();
            OUT.println(Base64.getEncoder().encodeToString(said.toByteArray()));
            OUT.flush();
        }
        System.exit(0);
    }

    private static void run(String nameServer, String[] words) throws Exception {
        if (words[0].equals("consume")) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(words[1]);
            consumer.setNamesrvAddr(nameServer);
            consumer.setInstanceName(words[1]);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(words[2], "*");
            consumer.registerMessageListener(
                (MessageListenerConcurrently) (messages, context) ->
                    ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
            consumer.start();
        } else if (words[0].equals("produce")) {
            DefaultMQProducer producer = new DefaultMQProducer(words[1]);
            producer.setNamesrvAddr(nameServer);
            producer.setInstanceName(words[1]);
            producer.start();
            // Brokers hear of a producer when it has a route.
            producer.send(new Message(words[2], "by Java".getBytes(StandardCharsets.UTF_8)));
            producer
                .getDefaultMQProducerImpl()
                .getMqClientFactory()
                .sendHeartbeatToAllBrokerWithLock();
        } else {
            // Some commands have a producer inside, which starts only once.
            Commands.forgetAll();
            MQAdminStartup.main0(words, null);
        }
    }

    private static final class Commands extends MQAdminStartup {
        static void forgetAll() {
            SUB_COMMANDS.clear();
        }
    }

    private Admin() {}
}
