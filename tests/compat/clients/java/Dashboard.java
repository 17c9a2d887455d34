import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.body.Connection;
import org.apache.rocketmq.remoting.protocol.body.ConsumerConnection;
import org.apache.rocketmq.remoting.protocol.body.UserInfo;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Makes the calls by which Apache's Dashboard fills its pages and does what its buttons say, and
 * tells what each gave, a line each: name, "ok" or "failed", and the rest in base64.
 */
public final class Dashboard {
    private static final long WITHIN_MS = 30_000;
    private static final String TOPIC = "orders";
    private static final String GROUP = "billing";

    public static void main(String[] arguments) throws Exception {
        String nameServer = arguments[0];
        RPCHook hook =
            arguments.length > 2
                ? new AclClientRPCHook(new SessionCredentials(arguments[1], arguments[2]))
                : null;
        DefaultMQAdminExt admin = new DefaultMQAdminExt(hook, WITHIN_MS);
        admin.setNamesrvAddr(nameServer);
        admin.setInstanceName("dashboard");
        admin.setVipChannelEnabled(false);
        admin.start();
        try {
            if (hook == null) {
                new Dashboard(admin, nameServer).walk();
            } else {
                new Dashboard(admin, nameServer).users();
            }
        } finally {
            System.out.flush();
            Runtime.getRuntime().halt(0);
        }
    }

    private final DefaultMQAdminExt admin;
    private final String nameServer;
    private final String broker;
    private final String cluster;

    private Dashboard(DefaultMQAdminExt admin, String nameServer) throws Exception {
        this.admin = admin;
        this.nameServer = nameServer;
        this.broker =
            admin.examineBrokerClusterInfo().getBrokerAddrTable().get("broker-a").selectBrokerAddr();
        this.cluster =
            admin.examineBrokerClusterInfo().getClusterAddrTable().keySet().iterator().next();
    }

    private void walk() throws Exception {
        clusterPages();
        topicPages();
        SendResult sent = messages();
        consumers(sent);
        upkeep();
        goodbye();
    }

    private void clusterPages() {
        tell("examineBrokerClusterInfo", () ->
            new TreeSet<>(admin.examineBrokerClusterInfo().getBrokerAddrTable().keySet()));
        tell("fetchBrokerRuntimeStats", () -> {
            Map<String, String> facts = admin.fetchBrokerRuntimeStats(broker).getTable();
            for (String wanted : Arrays.asList(
                "brokerVersionDesc", "bootTimestamp", "putTps", "getTransferredTps",
                "msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning", "msgGetTotalTodayNow",
                "msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning", "msgPutTotalTodayNow")) {
                if (facts.get(wanted) == null) {
                    throw new IllegalStateException(wanted + " is not told");
                }
            }
            return facts.get("brokerVersionDesc");
        });
        tell("getBrokerConfig", () -> admin.getBrokerConfig(broker).getProperty("brokerName"));
        tell("getNameServerAddressList", () -> admin.getNameServerAddressList());
        tell("putKVConfig", () -> {
            admin.createAndUpdateKvConfig("dashboard", "k", "v");
            return admin.getKVConfig("dashboard", "k")
                + admin.getKVListByNamespace("dashboard").getTable();
        });
        tell("deleteKvConfig", () -> {
            admin.deleteKvConfig("dashboard", "k");
            return "";
        });
    }

    private void topicPages() {
        tell("createAndUpdateTopicConfig", () -> {
            TopicConfig config = new TopicConfig(TOPIC, 2, 2, 6);
            admin.createAndUpdateTopicConfig(broker, config);
            return "";
        });
        tell("createTopic", () -> {
            admin.createTopic(cluster, "payments", 1, new HashMap<>());
            return "";
        });
        waitForRoute();
        tell("fetchAllTopicList", () -> admin.fetchAllTopicList().getTopicList().contains(TOPIC));
        tell("fetchTopicsByCLuster", () ->
            admin.fetchTopicsByCLuster(cluster).getTopicList().contains(TOPIC));
        tell("examineTopicRouteInfo", () ->
            admin.examineTopicRouteInfo(TOPIC).getQueueDatas().get(0).getReadQueueNums());
        tell("examineTopicConfig", () -> admin.examineTopicConfig(broker, TOPIC).getWriteQueueNums());
        tell("getAllTopicConfig", () ->
            admin.getAllTopicConfig(broker, WITHIN_MS).getTopicConfigTable().containsKey(TOPIC));
        tell("getUserTopicConfig", () ->
            new TreeSet<>(
                admin.getUserTopicConfig(broker, false, WITHIN_MS).getTopicConfigTable().keySet()));
        tell("getTopicClusterList", () -> admin.getTopicClusterList(TOPIC));
        tell("getClusterList", () -> admin.getClusterList(TOPIC));
    }

    private SendResult messages() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("dashboard-producer");
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName("sender");
        producer.start();
        SendResult first = null;
        for (int number = 0; number < 10; number++) {
            Message message =
                new Message(TOPIC, "paid", "A" + number, ("body " + number).getBytes(StandardCharsets.UTF_8));
            SendResult sent = producer.send(message);
            first = first == null ? sent : first;
        }
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        SendResult sent = first;
        MessageQueue queue = sent.getMessageQueue();
        tell("examineProducerConnectionInfo", () ->
            admin.examineProducerConnectionInfo("dashboard-producer", TOPIC).getConnectionSet().size());
        tell("examineTopicStats", () ->
            admin.examineTopicStats(TOPIC).getOffsetTable().values().stream()
                .mapToLong(each -> each.getMaxOffset() - each.getMinOffset()).sum());
        tell("viewMessage", () ->
            new String(admin.viewMessage(TOPIC, sent.getMsgId()).getBody(), StandardCharsets.UTF_8));
        tell("viewMessage by offset id", () ->
            admin.viewMessage(TOPIC, sent.getOffsetMsgId()).getKeys());
        tell("queryMessage", () -> {
            List<MessageExt> found =
                admin.queryMessage(TOPIC, "A3", 64, 0, System.currentTimeMillis() + 60_000).getMessageList();
            return found.size() + found.get(0).getKeys();
        });
        tell("offsets", () ->
            admin.minOffset(queue) + " " + (admin.maxOffset(queue) > 0) + " "
                + admin.searchOffset(queue, 0) + " " + (admin.earliestMsgStoreTime(queue) > 0));
        tell("pull", () -> pulled(queue));
        return sent;
    }

    /** The message page by time reads with a pull consumer of its own. */
    private Object pulled(MessageQueue queue) throws Exception {
        DefaultMQPullConsumer reader = new DefaultMQPullConsumer("TOOLS_CONSUMER", (RPCHook) null);
        reader.setNamesrvAddr(nameServer);
        reader.setInstanceName("reader");
        reader.start();
        try {
            int queues = reader.fetchSubscribeMessageQueues(TOPIC).size();
            long begin = reader.searchOffset(queue, 0);
            PullResult found = reader.pull(queue, "*", begin, 32);
            return queues + " " + found.getPullStatus() + " " + (found.getMsgFoundList().size() > 0);
        } finally {
            reader.shutdown();
        }
    }

    private void consumers(SendResult sent) throws Exception {
        tell("createAndUpdateSubscriptionGroupConfig", () -> {
            SubscriptionGroupConfig config = new SubscriptionGroupConfig();
            config.setGroupName(GROUP);
            config.setRetryMaxTimes(3);
            admin.createAndUpdateSubscriptionGroupConfig(broker, config);
            return admin.examineSubscriptionGroupConfig(broker, GROUP).getRetryMaxTimes();
        });
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(GROUP);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("member");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(200);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener(
            (MessageListenerConcurrently) (found, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        for (int turn = 0; turn < 600 && behind() != 0; turn++) {
            Thread.sleep(100);
        }
        tell("examineConsumeStats", () -> behind());
        tell("examineConsumeStats of a topic", () ->
            admin.examineConsumeStats(GROUP, TOPIC).getOffsetTable().size());
        ConsumerConnection connected = admin.examineConsumerConnectionInfo(GROUP);
        Connection member = connected.getConnectionSet().iterator().next();
        tell("examineConsumerConnectionInfo", () ->
            connected.getConsumeType() + " " + connected.getMessageModel() + " "
                + new TreeSet<>(connected.getSubscriptionTable().keySet()));
        tell("getConsumerRunningInfo", () ->
            admin.getConsumerRunningInfo(GROUP, member.getClientId(), true).getMqTable().keySet().stream()
                .filter(each -> each.getTopic().equals(TOPIC)).count());
        tell("consumeMessageDirectly", () ->
            admin.consumeMessageDirectly(GROUP, member.getClientId(), TOPIC, sent.getMsgId())
                .getConsumeResult());
        tell("messageTrackDetail", () ->
            admin.messageTrackDetail(admin.viewMessage(TOPIC, sent.getMsgId())).stream()
                .map(each -> each.getConsumerGroup() + " " + each.getTrackType())
                .collect(Collectors.toList()));
        tell("queryTopicConsumeByWho", () -> admin.queryTopicConsumeByWho(TOPIC).getGroupList());
        tell("queryConsumeTimeSpan", () -> admin.queryConsumeTimeSpan(TOPIC, GROUP).size());
        tell("getConsumeStatus", () -> {
            Map<String, Map<MessageQueue, Long>> found = admin.getConsumeStatus(TOPIC, GROUP, "");
            return found.size() + " " + found.values().iterator().next().size();
        });
        tell("fetchConsumeStatsInBroker", () ->
            admin.fetchConsumeStatsInBroker(broker, false, WITHIN_MS).getConsumeStatsList().size() > 0);
        tell("getAllSubscriptionGroup", () ->
            admin.getAllSubscriptionGroup(broker, WITHIN_MS).getSubscriptionGroupTable().containsKey(GROUP));
        tell("getUserSubscriptionGroup", () ->
            admin.getUserSubscriptionGroup(broker, WITHIN_MS).getSubscriptionGroupTable().containsKey(GROUP));
        tell("viewBrokerStatsData", () ->
            admin.viewBrokerStatsData(broker, "TOPIC_PUT_NUMS", TOPIC).getStatsDay().getSum() >= 0);
        tell("resetOffsetByTimestamp", () ->
            admin.resetOffsetByTimestamp(TOPIC, GROUP, 0, true).size());
        consumer.shutdown();
        tell("resetOffsetByTimestampOld", () -> {
            while (true) {
                try {
                    admin.examineConsumerConnectionInfo(GROUP);
                    Thread.sleep(100);
                } catch (org.apache.rocketmq.client.exception.MQBrokerException gone) {
                    break; // the page does it for groups that nobody is in
                }
            }
            return admin.resetOffsetByTimestampOld(GROUP, TOPIC, 0, true).size();
        });
        tell("behind after a reset", () -> behind());
        tell("updateConsumeOffset", () -> {
            for (MessageQueue queue : admin.examineConsumeStats(GROUP, TOPIC).getOffsetTable().keySet()) {
                admin.updateConsumeOffset(broker, GROUP, queue, admin.maxOffset(queue));
            }
            return behind();
        });
        tell("resetOffsetNew", () -> {
            admin.resetOffsetNew(GROUP, TOPIC, 0);
            return behind();
        });
    }

    private long behind() throws Exception {
        return admin.examineConsumeStats(GROUP, TOPIC).getOffsetTable().values().stream()
            .mapToLong(each -> each.getBrokerOffset() - each.getConsumerOffset()).sum();
    }

    private void upkeep() {
        tell("updateBrokerConfig", () -> {
            Properties change = new Properties();
            change.setProperty("autoCreateTopicEnable", "false");
            admin.updateBrokerConfig(broker, change);
            return admin.getBrokerConfig(broker).getProperty("autoCreateTopicEnable");
        });
        tell("wipeWritePermOfBroker", () -> admin.wipeWritePermOfBroker(nameServer, "broker-a") > 0);
        tell("addWritePermOfBroker", () -> admin.addWritePermOfBroker(nameServer, "broker-a") > 0);
        tell("cleanExpiredConsumerQueue", () ->
            admin.cleanExpiredConsumerQueue(cluster) + " " + admin.cleanExpiredConsumerQueueByAddr(broker));
        tell("cleanUnusedTopic", () ->
            admin.cleanUnusedTopic(cluster) + " " + admin.cleanUnusedTopicByAddr(broker));
        tell("updateColdDataFlowCtrGroupConfig", () -> {
            Properties limit = new Properties();
            limit.setProperty(GROUP, "1048576");
            admin.updateColdDataFlowCtrGroupConfig(broker, limit);
            return admin.getColdDataFlowCtrInfo(broker).contains(GROUP);
        });
        tell("removeColdDataFlowCtrGroupConfig", () -> {
            admin.removeColdDataFlowCtrGroupConfig(broker, GROUP);
            return "";
        });
        tell("setCommitLogReadAheadMode", () -> admin.setCommitLogReadAheadMode(broker, "0"));
    }

    private void goodbye() {
        tell("deleteSubscriptionGroup", () -> {
            admin.deleteSubscriptionGroup(broker, GROUP, true);
            return admin.getAllSubscriptionGroup(broker, WITHIN_MS).getSubscriptionGroupTable().containsKey(GROUP);
        });
        tell("deleteTopic", () -> {
            Set<String> masters = Collections.singleton(broker);
            admin.deleteTopicInBroker(masters, TOPIC);
            admin.deleteTopicInNameServer(Collections.singleton(nameServer), TOPIC);
            return admin.fetchAllTopicList().getTopicList().contains(TOPIC);
        });
    }

    private void users() {
        tell("createUser", () -> {
            admin.createUser(broker, "ana", "the-secret-of-ana-1", "Normal");
            return admin.getUser(broker, "ana").getUserType();
        });
        tell("listUser", () ->
            admin.listUser(broker, "").stream().map(UserInfo::getUsername)
                .collect(Collectors.toCollection(TreeSet::new)).contains("ana"));
        tell("updateUser", () -> {
            admin.updateUser(broker, "ana", "the-secret-of-ana-2", "Normal", "disable");
            return admin.getUser(broker, "ana").getUserStatus();
        });
        tell("createAcl", () -> {
            admin.createAcl(
                broker, "User:ana", Collections.singletonList("Topic:orders"), Arrays.asList("Pub", "Sub"),
                Collections.emptyList(), "Allow");
            return admin.listAcl(broker, "User:ana", "").get(0).getPolicies().get(0).getEntries().get(0).getResource();
        });
        tell("updateAcl", () -> {
            admin.updateAcl(
                broker, "User:ana", Collections.singletonList("Topic:orders"), Collections.singletonList("Pub"),
                Collections.emptyList(), "Deny");
            return admin.listAcl(broker, "User:ana", "").get(0).getPolicies().get(0).getEntries().get(0).getDecision();
        });
        tell("deleteAcl", () -> {
            admin.deleteAcl(broker, "User:ana", "Topic:orders");
            return admin.listAcl(broker, "User:ana", ""); // no list at all where there are none
        });
        tell("deleteUser", () -> {
            admin.deleteUser(broker, "ana");
            return admin.getUser(broker, "ana") == null;
        });
    }

    private void waitForRoute() {
        for (int turn = 0; turn < 600; turn++) {
            try {
                admin.examineTopicRouteInfo(TOPIC);
                admin.examineTopicRouteInfo("payments");
                return;
            } catch (Exception notYet) {
                try {
                    Thread.sleep(100);
                } catch (InterruptedException stop) {
                    return;
                }
            }
        }
    }

    private static void tell(String name, Callable<Object> call) {
        String state = "ok";
        String text;
        try {
            text = String.valueOf(call.call());
        } catch (Throwable error) {
            state = "failed";
            text = error.toString();
        }
        byte[] raw = text.getBytes(StandardCharsets.UTF_8);
        System.out.println(name + "\t" + state + "\t" + Base64.getEncoder().encodeToString(raw));
    }
}
