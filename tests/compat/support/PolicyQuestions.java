import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.rocketmq.auth.authentication.model.Subject;
import org.apache.rocketmq.auth.authorization.chain.AclAuthorizationHandler;
import org.apache.rocketmq.auth.authorization.context.DefaultAuthorizationContext;
import org.apache.rocketmq.auth.authorization.enums.Decision;
import org.apache.rocketmq.auth.authorization.enums.PolicyType;
import org.apache.rocketmq.auth.authorization.model.Acl;
import org.apache.rocketmq.auth.authorization.model.Environment;
import org.apache.rocketmq.auth.authorization.model.Policy;
import org.apache.rocketmq.auth.authorization.model.PolicyEntry;
import org.apache.rocketmq.auth.authorization.model.Resource;
import org.apache.rocketmq.auth.authorization.provider.AuthorizationMetadataProvider;
import org.apache.rocketmq.auth.config.AuthConfig;
import org.apache.rocketmq.common.action.Action;

/**
 * Asks Apache's own handler what a policy allows, a question a line:
 *
 *     custom entries TAB default entries TAB resource TAB actions TAB source
 *
 * where entries are divided by blanks and each is RESOURCE;ACTIONS;SOURCES;DECISION, with commas in
 * lists. Answers yes or no.
 */
public class PolicyQuestions {
    static Acl current;

    public static class Given implements AuthorizationMetadataProvider {
        public void initialize(AuthConfig config, Supplier<?> service) {}
        public void shutdown() {}
        public CompletableFuture<Void> createAcl(Acl acl) { throw new UnsupportedOperationException(); }
        public CompletableFuture<Void> deleteAcl(Subject who) { throw new UnsupportedOperationException(); }
        public CompletableFuture<Void> updateAcl(Acl acl) { throw new UnsupportedOperationException(); }
        public CompletableFuture<Acl> getAcl(Subject who) { return CompletableFuture.completedFuture(current); }
        public CompletableFuture<List<Acl>> listAcl(String one, String other) {
            throw new UnsupportedOperationException();
        }
    }

    static List<Action> actions(String text) {
        List<Action> found = new ArrayList<>();
        for (String each : text.split(",")) {
            found.add(Action.getByName(each));
        }
        return found;
    }

    static Policy policy(PolicyType type, String text) {
        List<PolicyEntry> entries = new ArrayList<>();
        for (String each : text.split(" ")) {
            if (each.isEmpty()) {
                continue;
            }
            String[] part = each.split(";", -1);
            Environment from = part[2].isEmpty() ? null : Environment.of(Arrays.asList(part[2].split(",")));
            entries.add(PolicyEntry.of(
                Resource.of(part[0]), actions(part[1]), from, Decision.getByName(part[3])));
        }
        return entries.isEmpty() ? null : Policy.of(type, entries);
    }

    public static void main(String[] none) throws Exception {
        AuthConfig config = new AuthConfig();
        config.setConfigName("questions");
        config.setAuthorizationMetadataProvider(Given.class.getName());
        AclAuthorizationHandler handler = new AclAuthorizationHandler(config, () -> null);
        Subject who = Subject.of("User:alice");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder said = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] part = line.split("\t", -1);
            List<Policy> policies = new ArrayList<>();
            for (Policy each : new Policy[] {
                policy(PolicyType.CUSTOM, part[0]), policy(PolicyType.DEFAULT, part[1])}) {
                if (each != null) {
                    policies.add(each);
                }
            }
            current = policies.isEmpty() ? null : Acl.of(who, policies);
            boolean may;
            try {
                handler.handle(DefaultAuthorizationContext.of(
                    who, Resource.of(part[2]), actions(part[3]), part[4]), null).join();
                may = true;
            } catch (RuntimeException refused) {
                String text = String.valueOf(refused.getMessage());
                if (!text.contains("has no permission")) {
                    throw refused;
                }
                may = false;
            }
            said.append(may ? "yes\n" : "no\n");
        }
        System.out.print(said);
        System.out.flush();
        System.exit(0);
    }
}
