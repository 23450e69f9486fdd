// Goal: the chart ops/helm/holdfast renders objects that a Kubernetes server takes, for every tier
// and with all of its parts on and off, from 1.20 on; a value that it does not know is refused; its
// pods have no rights that they do not need. Method: Helm and kubectl as npm has them; each object
// against the schema of its kind, closed by ops/helm/check-manifests, whose own check can fail.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/ops/helm_chart.h"

namespace holdfast::ops::helm_test {
namespace {

using nlohmann::json;

constexpr const char* kValueFiles[] = {"plain",  "all-on", "all-off",
                                       "canary", "pair",   "pair-own-keys"};

class HelmChart : public testing::Test {
 protected:
  void SetUp() override {
    if (chart_tool("helm").empty()) {
      GTEST_SKIP() << "no helm in the build's tools/: ops/test fetches it from npm";
    }
  }
  /// Renders with these arguments and checks each object; returns them.
  json expect_valid(const std::string& arguments, const std::string& kubernetes = "1.27") {
    const CommandResult rendered = render_chart(arguments);
    EXPECT_EQ(rendered.status, 0) << arguments << "\n" << rendered.out;
    const CommandResult checked = check(rendered.out, kubernetes);
    EXPECT_EQ(checked.status, 0) << arguments << "\n" << checked.out;
    json objects = objects_of(rendered.out);
    EXPECT_TRUE(objects.is_array()) << rendered.out;
    return objects;
  }
  CommandResult check(const std::string& yaml, const std::string& kubernetes = "1.27") {
    const TextFile file(yaml);
    return run_command(HOLDFAST_SOURCE_DIR "/ops/helm/check-manifests --kubernetes " + kubernetes +
                       " --schemas " + chart_schemas() + " <" + file.path() + " 2>&1");
  }
  void expect_refused(const std::string& arguments, const std::string& why) {
    const CommandResult rendered = render_chart(arguments);
    EXPECT_NE(rendered.status, 0) << arguments << " was rendered";
    EXPECT_NE(rendered.out.find(why), std::string::npos) << arguments << "\n" << rendered.out;
  }
};

std::string values_flag(const std::string& name) {
  return "--values " + chart_values_dir() + name + ".yaml ";
}

TEST_F(HelmChart, Lint_OfEveryValueFile_FindsNothing) {
  for (const char* name : kValueFiles) {
    const CommandResult linted = run_command(chart_tool("helm") + " lint --strict " +
                                             values_flag(name) + chart_dir() + " 2>&1");
    EXPECT_EQ(linted.status, 0) << name << "\n" << linted.out;
  }
}

TEST_F(HelmChart, Tiers_EachRendered_HaveItsSizesAndMatchTheClosedSchemas) {
  json values = objects_of(run_command("cat " + chart_dir() + "/values.yaml").out)[0];
  std::set<std::string> memories;
  for (const char* tier : {"small", "medium", "large", "xlarge"}) {
    const json objects = expect_valid("--set tier=" + std::string(tier));
    json& sizes = values["tiers"][tier];
    json node = object_of(objects, "StatefulSet", "-main")["spec"]["template"]["spec"];
    EXPECT_EQ(node["containers"][0]["resources"]["requests"]["memory"], sizes["memory"]);
    EXPECT_EQ(node["containers"][0]["resources"]["requests"]["cpu"], sizes["cpu"]);
    const json args = node["containers"][0]["args"];
    EXPECT_NE(args.dump().find("--threads\",\"" + sizes["threads"].dump()), std::string::npos);
    json serve = object_of(objects, "StatefulSet", "rel-holdfast");
    const std::string flags = serve["spec"]["template"]["spec"]["containers"][0]["args"].dump();
    EXPECT_NE(flags.find("--context\",\"" + sizes["context"].dump()), std::string::npos) << flags;
    memories.insert(sizes["memory"]);
  }
  EXPECT_EQ(memories.size(), 4u);
}

TEST_F(HelmChart, ValueFiles_OnServersOldAndNew_MatchTheClosedSchemas) {
  for (const char* name : kValueFiles) {
    expect_valid(values_flag(name) + "--kube-version 1.20.0", "1.20");
    for (const char* version : {"1.25.0", "1.35.2"}) {
      expect_valid(values_flag(name) + "--kube-version " + version);
    }
  }
}

TEST_F(HelmChart, ApiVersions_OfAnOldServer_AreThoseThatItHas) {
  const auto version_of = [&](const std::string& server, const std::string& kind) {
    const json objects =
        objects_of(render_chart(values_flag("all-on") + "--kube-version " + server).out);
    return object_of(objects, kind, "-steady").value("apiVersion", "");
  };
  EXPECT_EQ(version_of("1.20.0", "PodDisruptionBudget"), "policy/v1beta1");
  EXPECT_EQ(version_of("1.21.0", "PodDisruptionBudget"), "policy/v1");
  EXPECT_EQ(version_of("1.22.0", "HorizontalPodAutoscaler"), "autoscaling/v2beta2");
  EXPECT_EQ(version_of("1.23.0", "HorizontalPodAutoscaler"), "autoscaling/v2");
  expect_refused("--kube-version 1.19.0", "incompatible");
}

TEST_F(HelmChart, CheckManifests_OfObjectsThatAreWrong_SaysWhat) {
  const std::string head =
      "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: ";
  EXPECT_EQ(check(head + "{maxUnavailable: 1}\n").status, 0);
  for (const auto& [object, why] :
       {std::pair<std::string, std::string>{head + "{maxUnavailabel: 1}\n", "'maxUnavailabel'"},
        {head + "{selector: {matchLabels: {a: 1}}}\n", "is not of type 'string'"},
        {"apiVersion: policy/v9\nkind: Nothing\nmetadata: {name: a}\n", "has no policy/v9"},
        {"", "0 objects"}}) {
    const CommandResult checked = check(object);
    EXPECT_EQ(checked.status, 1) << object;
    EXPECT_NE(checked.out.find(why), std::string::npos) << checked.out;
  }
  EXPECT_EQ(check(head + "{maxUnavailable: 1}\n", "1.20").status, 1) << "1.20 has v1beta1";
}

/// Adds an unknown name to each object of the values in turn, and calls visit(values, its path).
template <class Visit>
void each_with_an_unknown_name(const json& values, const Visit& visit) {
  std::vector<json::json_pointer> objects{json::json_pointer()};
  const json flat = values.flatten();
  for (const auto& [path, value] : flat.items()) {
    json::json_pointer at(path);
    objects.push_back(at);
    while (!at.empty()) {
      at.pop_back();
      objects.push_back(at);
    }
  }
  std::set<std::string> done;
  for (const auto& at : objects) {
    if (!values.at(at).is_object() || !done.insert(at.to_string()).second) continue;
    json changed = values;
    changed.at(at)["noSuchValue"] = 1;
    visit(changed, at.to_string());
  }
}

/// True for maps whose names are the user's: of pools, models, labels, or of Kubernetes' own kinds.
bool is_free_map(const std::string& path) {
  for (const char* end : {"/models/load", "/aliases", "/annotations", "/labels", "/nodeSelector",
                          "/affinity", "/requests", "/limits", "/chat", "/nodes"}) {
    if (path.ends_with(end)) return true;
  }
  for (const char* part : {"/affinity/", "/tolerations/", "Probe", "Constraints/",
                           "/networkPolicy/http/", "/networkPolicy/metrics/"}) {
    if (path.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST_F(HelmChart, Values_WithAnUnknownName_AreRefusedAnywhere) {
  json values = objects_of(run_command("cat " + chart_dir() + "/values.yaml").out)[0];
  values["nodes"]["main"]["storage"] = {{"size", "1Gi"}};
  values["nodes"]["main"]["autoscaling"] = {
      {"kind", "hpa"}, {"min", 1}, {"max", 2}, {"requestsPerNode", 1}};
  int refused = 0;
  each_with_an_unknown_name(values, [&](const json& changed, const std::string& path) {
    if (is_free_map(path)) return;
    const ValuesFile file(changed);
    expect_refused(file.flag(), "noSuchValue");
    ++refused;
  });
  EXPECT_GE(refused, 28);
}

TEST_F(HelmChart, Values_ThatCannotBe_AreRefusedWithTheReason) {
  const std::pair<std::string, std::string> cases[] = {
      {"--set 'config.queue\\.max_request=1'", "queue.max_request"},
      {"--set 'config.queue\\.max_requests=0'", "minimum"},
      {"--set 'config.queue\\.max_requests=many'", "queue.max_requests"},
      {"--set 'config.tenant\\.a\\.wieght=1'", "tenant.a.wieght"},
      {"--set tier=huge", "tier"},
      {"--set nodes.main.tier=huge", "tier"},
      {"--set nodes.Main.replicas=1", "Main"},
      {"--set nodes.main.replicas=4 --set nodes.main.keys=2", "expected at least as many"},
      {"--set models.volume.claim=a --set models.volume.hostPath=/b", "not both"},
      {"--set keys.create=false", "keys.nodeSecret"},
      {"--set keys.create=false --set keys.nodeSecret=a", "keys.apiSecret"},
      {"--set canary.model=m", "canary.alias"},
      {"--set canary.percent=0", "percent"},
      {"--set nodes.main.memory=lots", "memory"},
      {"--set nodes.main.autoscaling.kind=keda --set nodes.main.autoscaling.min=1 "
       "--set nodes.main.autoscaling.max=2 --set nodes.main.autoscaling.requestsPerNode=1",
       "autoscaling.prometheus"},
      {"--set image.digest=latest", "digest"},
      {"--set daemon.port=70000", "port"},
      {"--set ha.enabled=true --set daemon.storage.existingClaim=a", "a volume of its own"},
      {"--set ha.enabled=true --set keys.create=false --set keys.nodeSecret=a "
       "--set keys.apiSecret=b",
       "ha.standbySecret"},
      {"--set ha.topologyKey=", "topologyKey"},
  };
  for (const auto& [arguments, why] : cases) expect_refused(arguments, why);
}

TEST_F(HelmChart, Pods_WithEverythingOn_HaveNoRightsThatTheyDoNotNeed) {
  const json objects = expect_valid(values_flag("all-on"));
  const auto pods = pod_specs_of(objects);
  EXPECT_GE(pods.size(), 8u);
  std::set<std::string> with_token;
  for (const json& pod : pods) {
    EXPECT_EQ(pod.at("automountServiceAccountToken"), false);
    EXPECT_EQ(pod.at("enableServiceLinks"), false) << "HOLDFAST_PORT would be taken for a knob";
    EXPECT_EQ(pod.at("securityContext").at("runAsNonRoot"), true);
    EXPECT_EQ(pod["securityContext"].at("seccompProfile").at("type"), "RuntimeDefault");
    EXPECT_FALSE(pod.value("hostNetwork", false) || pod.value("hostPID", false));
    for (const json& container : containers_of(pod)) {
      const json& security = container.at("securityContext");
      EXPECT_EQ(security.at("readOnlyRootFilesystem"), true) << container["name"];
      EXPECT_EQ(security.at("allowPrivilegeEscalation"), false) << container["name"];
      EXPECT_EQ(security.at("capabilities").at("drop"), json::array({"ALL"}));
      EXPECT_TRUE(container.at("resources").at("limits").contains("memory")) << container["name"];
      for (const json& mount : container.at("volumeMounts")) {
        if (mount["name"] == "token") with_token.insert(container["name"]);
      }
    }
  }
  EXPECT_EQ(with_token, std::set<std::string>{"publish"});
  json role = object_of(objects, "Role", "-keys");
  EXPECT_EQ(role["rules"], json::parse(R"([{"apiGroups": [""], "resources": ["secrets"],
      "resourceNames": ["rel-holdfast-node-keys", "rel-holdfast-api-keys"],
      "verbs": ["get", "patch"]}])"));
}

TEST_F(HelmChart, NetworkPolicy_OfTheDaemon_AdmitsNodesPeersAndHttpAlone) {
  const json objects = expect_valid(values_flag("plain"));
  json policy = object_of(objects, "NetworkPolicy", "-daemon").at("spec");
  EXPECT_EQ(policy["policyTypes"], json::array({"Ingress"}));
  ASSERT_EQ(policy["ingress"].size(), 3u);
  json& nodes = policy["ingress"][0];
  EXPECT_EQ(nodes["ports"][0]["port"], 7070);
  ASSERT_EQ(nodes["from"].size(), 2u);
  EXPECT_EQ(nodes["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"], "node");
  EXPECT_EQ(nodes["from"][1]["podSelector"]["matchLabels"]["holdfast/peer"], "rel-holdfast");
  const json liveness = {{{"port", 7070}, {"protocol", "UDP"}}};
  EXPECT_EQ(policy["ingress"][1]["ports"], liveness);
  ASSERT_EQ(policy["ingress"][1]["from"].size(), 1u) << "signs of life come from nodes alone";
  EXPECT_EQ(policy["ingress"][1]["from"][0], nodes["from"][0]);
  for (const json& rule : policy["ingress"]) {
    ASSERT_FALSE(rule["from"].empty()) << "an empty list is everybody";
    for (const json& peer : rule["from"]) {
      for (const auto& [kind, selector] : peer.items()) EXPECT_FALSE(selector.empty()) << kind;
    }
  }
  json node = object_of(objects, "NetworkPolicy", "-nodes").at("spec");
  EXPECT_EQ(node["ingress"], json::array()) << "nobody connects to a node";
  EXPECT_EQ(node["egress"][0]["ports"][1], liveness[0]);
  json ports = object_of(objects, "Service", "-daemon")["spec"]["ports"];
  ASSERT_EQ(ports.size(), 3u);
  EXPECT_EQ(ports[1]["protocol"], "UDP");
  EXPECT_EQ(ports[1]["port"], ports[0]["port"]);
  // The pods of nodes and of hooks carry the labels that the policies choose by.
  json pool = object_of(objects, "StatefulSet", "-main")["spec"]["template"]["metadata"];
  EXPECT_EQ(pool["labels"]["app.kubernetes.io/component"], "node");
  json hook = object_of(objects, "Job", "");
  EXPECT_EQ(hook["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"],
            "client");
}

/// The pod of the daemon.
json pod_of_daemon(const json& objects) {
  return object_of(objects, "StatefulSet", "rel-holdfast").at("spec").at("template").at("spec");
}

TEST_F(HelmChart, Gateways_WithReplicas_TakeTheClientsAndReachTheDaemon) {
  const json objects = expect_valid(values_flag("all-on"));
  json deployment = object_of(objects, "Deployment", "-gateways")["spec"];
  EXPECT_EQ(deployment["replicas"], 3);
  EXPECT_EQ(deployment["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
  json pod = deployment["template"]["spec"];
  json keys = pod["volumes"][0]["secret"];
  EXPECT_EQ(keys["secretName"], "rel-holdfast-api-keys");
  EXPECT_EQ(keys["items"], json::parse(R"([{"key": "gateway.key", "path": "gateway.key"}])"))
      << "of the API keys it sees none";
  const json labels = deployment["template"]["metadata"]["labels"];
  const json selector = object_of(objects, "Service", "-gateways")["spec"]["selector"];
  for (const auto& [name, value] : selector.items()) EXPECT_EQ(labels[name], value) << name;
  EXPECT_EQ(object_of(objects, "Service", "-gateways")["spec"]["type"], "LoadBalancer");
  EXPECT_EQ(object_of(objects, "Service", "rel-holdfast")["spec"]["type"], "ClusterIP");
  json ingress = object_of(objects, "Ingress", "")["spec"]["rules"][0]["http"]["paths"][0];
  EXPECT_EQ(ingress["backend"]["service"]["name"], "rel-holdfast-gateways");
  json daemon = object_of(objects, "NetworkPolicy", "-daemon")["spec"]["ingress"][0];
  EXPECT_EQ(daemon["from"][1]["podSelector"]["matchLabels"]["app.kubernetes.io/component"],
            "gateway");
  EXPECT_NE(pod_of_daemon(objects).dump().find(R"("name":"GATEWAY","value":"1")"),
            std::string::npos);
}

TEST_F(HelmChart, Gateways_WithoutReplicas_LeaveNoTrace) {
  const json objects = expect_valid(values_flag("plain"));
  for (const json& object : objects) {
    const std::string name = object["metadata"]["name"];
    EXPECT_EQ(name.find("gateway"), std::string::npos) << object["kind"] << " " << name;
  }
  EXPECT_NE(pod_of_daemon(objects).dump().find(R"("name":"GATEWAY","value":"")"),
            std::string::npos);
}

TEST_F(HelmChart, Pair_OfTwoMachines_HasProbesVolumesAndZonesThatFit) {
  const json objects = expect_valid(values_flag("pair"));
  json set = object_of(objects, "StatefulSet", "rel-holdfast")["spec"];
  EXPECT_EQ(set["replicas"], 2);
  EXPECT_EQ(set["serviceName"], "rel-holdfast-pair");
  EXPECT_EQ(set["podManagementPolicy"], "Parallel") << "either comes back while the other is lost";
  ASSERT_EQ(set["volumeClaimTemplates"].size(), 1u) << "a volume for each";
  json pod = set["template"]["spec"];
  json daemon = pod["containers"][0];
  const std::string flags = daemon["args"].dump();
  for (const char* flag : {R"("--record","k8s://ns/rel-holdfast")", R"("--http","none")",
                           R"("tcp://$(POD).rel-holdfast-pair.ns.svc:7070")"}) {
    EXPECT_NE(flags.find(flag), std::string::npos) << flag << flags;
  }
  for (const char* probe : {"startupProbe", "livenessProbe", "readinessProbe"}) {
    const std::string command = daemon[probe].at("exec").at("command").dump();
    EXPECT_EQ(command.find("--check") != std::string::npos, probe == std::string("readinessProbe"));
  }
  json affinity = pod["affinity"];
  json term = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
  EXPECT_EQ(term["topologyKey"], "topology.kubernetes.io/zone");
  const json labels = set["template"]["metadata"]["labels"];
  const json chosen = term["labelSelector"]["matchLabels"];
  EXPECT_EQ(chosen.size(), 3u);
  for (const auto& [name, value] : chosen.items()) EXPECT_EQ(labels[name], value) << name;
  EXPECT_TRUE(affinity.contains("nodeAffinity")) << "what the values say holds too";
  EXPECT_EQ(object_of(objects, "PodDisruptionBudget", "rel-holdfast")["spec"]["maxUnavailable"], 1);
  const json loose = expect_valid(values_flag("pair") + "--set ha.required=false");
  json preferred = pod_of_daemon(loose)["affinity"]["podAntiAffinity"];
  EXPECT_TRUE(preferred.contains("preferredDuringSchedulingIgnoredDuringExecution")) << preferred;
  EXPECT_EQ(preferred.size(), 1u) << preferred;
}

TEST_F(HelmChart, Pair_OfTwoMachines_IsReachedWhicheverIsThePrimary) {
  const json objects = expect_valid(values_flag("pair"));
  const std::string both =
      "tcp://rel-holdfast-0.rel-holdfast-pair.ns.svc:7070,"
      "tcp://rel-holdfast-1.rel-holdfast-pair.ns.svc:7070";
  for (const auto& [kind, name] :
       {std::pair("StatefulSet", "-main"), {"Deployment", "-gateways"}, {"Deployment", "-front"}}) {
    json set = object_of(objects, kind, name);
    const json args = set["spec"]["template"]["spec"]["containers"][0]["args"];
    EXPECT_NE(args.dump().find(R"("--join",")" + both + "\""), std::string::npos) << args;
  }
  json pair = object_of(objects, "Service", "-pair")["spec"];
  EXPECT_EQ(pair["clusterIP"], "None");
  EXPECT_EQ(pair["publishNotReadyAddresses"], true);
  // HTTP comes to the gateway in front, in the Service that Prometheus and clients have too.
  for (const char* service : {"rel-holdfast", "-front"}) {
    json spec = object_of(objects, "Service", service)["spec"];
    EXPECT_EQ(spec["selector"]["app.kubernetes.io/component"], "front") << service;
  }
  EXPECT_EQ(object_of(objects, "Deployment", "-front")["spec"]["replicas"], 1)
      << "nothing is counted twice";
  const std::string hook = object_of(objects, "Job", "").dump();
  EXPECT_NE(hook.find("https://rel-holdfast-front.ns.svc:8080"), std::string::npos) << hook;
  json policy = object_of(objects, "NetworkPolicy", "-daemon")["spec"]["ingress"];
  ASSERT_EQ(policy.size(), 2u) << "the pair's pods have no HTTP";
  std::set<std::string> peers;
  for (const json& peer : policy[0]["from"]) {
    peers.insert(peer["podSelector"]["matchLabels"].value("app.kubernetes.io/component", "peer"));
  }
  EXPECT_EQ(peers, (std::set<std::string>{"node", "gateway", "front", "daemon", "peer"}))
      << "the primary ships to the standby";
}

TEST_F(HelmChart, Rights_OfThePairsPods_AreTheLeaseAlone) {
  const json objects = expect_valid(values_flag("pair"));
  json record = object_of(objects, "Role", "-record");
  EXPECT_EQ(record["rules"], json::parse(R"([
      {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
       "resourceNames": ["rel-holdfast"], "verbs": ["get", "update"]},
      {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}])"));
  json pod = pod_of_daemon(objects);
  EXPECT_EQ(object_of(objects, "RoleBinding", "-record")["subjects"][0]["name"],
            pod["serviceAccountName"]);
  EXPECT_EQ(object_of(objects, "RoleBinding", "-keys")["subjects"][0]["name"], "rel-holdfast-keys");
  EXPECT_EQ(object_of(objects, "Role", "-keys")["rules"][0]["resourceNames"],
            json::parse(R"(["rel-holdfast-node-keys", "rel-holdfast-api-keys",
                            "rel-holdfast-standby-keys"])"));
  std::map<std::string, std::set<std::string>> mounts;
  for (const json& container : containers_of(pod)) {
    for (const json& mount : container.at("volumeMounts")) {
      mounts[mount.at("name")].insert(container.at("name"));
    }
    EXPECT_EQ(container.at("securityContext").contains("runAsUser"), container["name"] == "publish")
        << "processes are shared, so another user has the token";
  }
  EXPECT_EQ(mounts["record-token"], std::set<std::string>{"daemon"});
  EXPECT_EQ(mounts["keys-token"], std::set<std::string>{"publish"});
  EXPECT_EQ(mounts["state"], (std::set<std::string>{"daemon", "keys"}));
}

TEST_F(HelmChart, Pair_WithKeysOfOnesOwn_MakesNone) {
  const json objects = expect_valid(values_flag("pair-own-keys"));
  EXPECT_TRUE(object_of(objects, "Role", "-keys").is_null());
  EXPECT_FALSE(object_of(objects, "Role", "-record").is_null());
  json pod = pod_of_daemon(objects);
  ASSERT_EQ(pod["containers"].size(), 1u);
  EXPECT_EQ(pod["containers"][0]["command"], json::parse(R"(["/usr/bin/holdfast"])"));
  ASSERT_EQ(pod["initContainers"].size(), 1u);
  EXPECT_EQ(pod["initContainers"][0]["name"], "key");
  EXPECT_NE(pod["volumes"].dump().find("mine-standbys"), std::string::npos);
}

TEST_F(HelmChart, Pair_SwitchedOff_LeavesNoTrace) {
  json objects = objects_of(render_chart(values_flag("plain")).out);
  for (json& object : objects) object.erase("data");  // a script has its words
  for (const char* word : {"lease", "standby", "-pair", "-front", "shareProcessNamespace"}) {
    EXPECT_EQ(objects.dump().find(word), std::string::npos) << word;
  }
}

TEST_F(HelmChart, Nodes_OfAPool_LeaveALostMachineInTenSecondsAndHaveTimeToDrain) {
  const json objects = expect_valid(values_flag("plain"));
  json pod = object_of(objects, "StatefulSet", "-main")["spec"]["template"]["spec"];
  EXPECT_EQ(pod["terminationGracePeriodSeconds"], 120);
  std::set<std::string> keys;
  for (const json& toleration : pod["tolerations"]) {
    EXPECT_EQ(toleration["tolerationSeconds"], 10);
    keys.insert(toleration["key"]);
  }
  EXPECT_EQ(keys, (std::set<std::string>{"node.kubernetes.io/not-ready",
                                         "node.kubernetes.io/unreachable"}));
}

TEST_F(HelmChart, Canary_OfAnUpgrade_IsOneVerbWithItsLimits) {
  const json objects = expect_valid(values_flag("all-on"));
  json job = object_of(objects, "Job", "-canary");
  EXPECT_EQ(job["metadata"]["annotations"]["helm.sh/hook"], "post-upgrade");
  json container = job["spec"]["template"]["spec"]["containers"][0];
  EXPECT_EQ(container["args"],
            json::parse(R"(["models", "alias", "fast", "--canary", "qwen-next=2.5",
      "--clear-errors", "3", "--itl-slack-ms", "10", "--max-error-rate", "2", "--max-itl", "150",
      "--max-queue", "400", "--max-refusal-rate", "2", "--max-ttft", "150", "--min-requests", "20",
      "--promote-after", "5", "--ttft-slack-ms", "50", "--window", "60"])"));
  // With the knobs' own limits nothing is said; the alias of a canary is not set beside it.
  const json plain = expect_valid(values_flag("canary"));
  json hook = object_of(plain, "Job", "-canary");
  EXPECT_EQ(hook["spec"]["template"]["spec"]["containers"][0]["args"],
            json::parse(R"(["models", "alias", "chat", "--canary", "new=5"])"));
  for (const json& object : plain) {
    EXPECT_EQ(object["metadata"]["name"].get<std::string>().find("-alias-"), std::string::npos);
  }
}

TEST_F(HelmChart, PrometheusRule_OfTheChart_HasTheRulesOfTheTree) {
  const json objects = expect_valid(values_flag("all-on"));
  const json groups = object_of(objects, "PrometheusRule", "").at("spec").at("groups");
  json ours = json::array();
  for (const char* name : {"recording.yml", "alerts.yml"}) {
    const std::string path = HOLDFAST_SOURCE_DIR "/ops/prometheus/" + std::string(name);
    const json file = objects_of(run_command("cat " + path).out).at(0);
    for (const json& group : file.at("groups")) ours.push_back(group);
  }
  EXPECT_GT(ours.size(), 4u);
  EXPECT_EQ(groups, ours) << "Helm reads nothing outside of a chart, so it has copies: "
                             "cp ops/prometheus/{alerts,recording}.yml ops/helm/holdfast/files";
}

TEST_F(HelmChart, Kubectl_OfRenderedObjects_ReadsThem) {
  const CommandResult rendered = render_chart(values_flag("all-off"));
  const TextFile file(rendered.out);
  const CommandResult read =
      run_command(chart_tool("kubectl") + " label --local --dry-run=client -o name a=b -f " +
                  file.path() + " 2>&1");
  EXPECT_EQ(read.status, 0) << read.out;
  EXPECT_NE(read.out.find("statefulset.apps/rel-holdfast"), std::string::npos) << read.out;
}

}  // namespace
}  // namespace holdfast::ops::helm_test
