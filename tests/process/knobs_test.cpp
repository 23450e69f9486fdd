// Goal: the knobs whose effect is in sockets, files and processes do what their lines say; each is
// shown as it is set, and one that the environment changes between two starts is in effect and
// explained. Method: the real programs with each knob at two values; raw sockets where a peer must
// misbehave. Times are compared with each other or with long patience, never precisely with a
// clock. tests/core/knob_effects_test has the rows of all other knobs, and checks that none is
// missing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/wire/frame.h"
#include "shared/wire/socket.h"
#include "tests/process/cluster_node.h"
#include "tests/process/test_server.h"

namespace holdfast::process::knobs_test {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

bool wait_for(const std::function<bool()>& done, int patience_ms = 20'000) {
  const auto until = SteadyClock::now() + std::chrono::milliseconds(patience_ms);
  while (!done()) {
    if (SteadyClock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void pause_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/// A server with one knob set, one model, fake engines.
struct Set {
  TempDir dir;
  TestServer server{dir.path() + "/state"};
  std::unique_ptr<client::Client> watcher;
  bool ready = false;

  Set(const std::string& knob, std::int64_t value, const std::string& engine = "{}",
      std::vector<std::string> more = {}) {
    std::vector<std::string> flags = {"--model",          "demo=" + demo_model(),
                                      "--engine",         "fake",
                                      "--engine-options", engine,
                                      "--config",         knob + "=" + std::to_string(value)};
    flags.insert(flags.end(), more.begin(), more.end());
    ready = server.start(flags);
    if (!ready) return;
    watcher = server.operator_client();
    EXPECT_EQ(config(knob)["effective"], value) << knob;
    EXPECT_EQ(config(knob)["source"], "command line");
  }
  json ask(const std::string& verb, const json& args = json::object()) {
    const auto answer = watcher->op(client::AllTenants::local(), verb, args.dump());
    const auto* text = std::get_if<std::string>(&answer);
    return text == nullptr ? json::object() : json::parse(*text);
  }
  json config(const std::string& knob) { return ask("config.explain", {{"name", knob}}); }
  json status(const std::string& pointer) {
    return ask("status").value(json::json_pointer(pointer), json(-1));
  }
  wire::Socket raw(const std::string& socket_name, const wire::Context& context,
                   wire::SocketOptions options = {}) {
    options.message_bytes_max = 1 << 30;
    wire::Socket socket =
        std::move(wire::Socket::open(context, wire::SocketKind::kDealer, options)).value();
    EXPECT_TRUE(socket.connect("ipc://" + server.state() + "/run/" + socket_name + ".sock"));
    return socket;
  }
};

bool send(wire::Socket& socket, const wire::Message& message) {
  const std::string frame = wire::encode(message);
  return wait_for([&] { return socket.send(frame) == wire::SendStatus::kSent; });
}

// ---- models for nodes

TEST(Knobs, NodesFetchBytes_WhenLimited_SlowTheFetch) {
  std::vector<double> seconds;
  for (const char* limit : {"0", "2000000"}) {
    const TempDir dir;
    TestServer server(dir.path() + "/server");
    ASSERT_TRUE(server.start(listening())) << server.errors();
    ASSERT_EQ(server.cli({"config", "set", std::string("nodes.fetch_bytes_s=") + limit}).code, 0);
    ClusterNode node(server, "far");
    ASSERT_TRUE(node.join({"--root", dir.path(), "--threads", "1"})) << node.output();
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(server.cli({"models", "add", "m", demo_model()}).code, 0);
    const auto operating = server.operator_client();
    (void)operating->op(client::AllTenants::local(), "models.load", R"({"name": "m"})");
    ASSERT_TRUE(node.says("fetched ")) << node.output();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  EXPECT_GE(seconds[1], 1.7) << "4.5 MB at 2 MB a second";
  EXPECT_LT(seconds[0], seconds[1]);
}

// ---- sizes of messages

TEST(Knobs, ClientMessageBytes_WhenExceeded_RefusesTheMessage) {
  for (const bool large : {false, true}) {
    Set set("link.client_message_bytes", large ? 1 << 20 : 65'536);
    ASSERT_TRUE(set.ready) << set.server.errors();
    const wire::Context context;
    wire::Socket socket = set.raw("clients", context);
    wire::Submit submit = make_submit("hello", 4, 1);
    submit.request_id = "large";
    submit.meta = std::string(200'000, 'x');
    ASSERT_TRUE(send(socket, submit));
    const bool accepted =
        wait_for([&] { return set.ask("requests.list").dump().find("large") != std::string::npos; },
                 large ? 20'000 : 700);
    EXPECT_EQ(accepted, large);
  }
}

TEST(Knobs, WorkerMessageBytes_WhenExceeded_RefusesTheMessage) {
  for (const bool large : {false, true}) {
    Set set("link.worker_message_bytes", large ? 1 << 20 : 65'536);
    ASSERT_TRUE(set.ready) << set.server.errors();
    const wire::Context context;
    wire::Socket socket = set.raw("workers", context);
    wire::Hello hello;
    hello.worker_key = "raw";
    hello.incarnation = "i1";
    hello.device = "cpu";
    hello.kernels = std::string(100'000, 'k');
    ASSERT_TRUE(send(socket, hello));
    const bool listed = wait_for(
        [&] { return set.ask("workers.list").dump().find("\"raw\"") != std::string::npos; },
        large ? 20'000 : 700);
    EXPECT_EQ(listed, large);
  }
}

TEST(Knobs, IngressMessageBytes_WhenExceeded_CutsTheConnection) {
  for (const bool large : {false, true}) {
    Set set("link.ingress_message_bytes", large ? 1 << 20 : 65'536, "{}", {"--ingress", "1"});
    ASSERT_TRUE(set.ready) << set.server.errors();
    const wire::Context context;
    wire::SocketOptions once;
    once.reconnect_ms = once.reconnect_max_ms = 60'000;
    wire::Socket socket = set.raw("ingress", context, once);
    ASSERT_TRUE(send(socket, wire::IngressHello{1}));
    ASSERT_TRUE(wait_for([&] { return set.status("/daemon/ingress_helpers") == 2; }));
    wire::Prepared prepared;
    prepared.job = 99;
    prepared.ids = {std::vector<wire::TokenId>(100'000, 7)};
    ASSERT_TRUE(send(socket, prepared));
    const bool cut =
        wait_for([&] { return set.status("/daemon/ingress_helpers") == 1; }, large ? 700 : 20'000);
    EXPECT_EQ(cut, !large);
  }
}

// ---- silence

/// True if a stopped worker is given up within `patience_ms`.
bool stopped_worker_is_lost(Set& set, int patience_ms) {
  const pid_t worker = set.server.pid_of("worker-0");
  EXPECT_EQ(kill(worker, SIGSTOP), 0);
  const bool lost =
      wait_for([&] { return set.status("/counters/workers_lost") == 1; }, patience_ms);
  kill(worker, SIGCONT);
  return lost;
}

TEST(Knobs, WorkerStoppedMs_WhenPassed_LosesTheStoppedWorker) {
  Set soon("link.worker_stopped_ms", 100);
  ASSERT_TRUE(soon.ready) << soon.server.errors();
  EXPECT_TRUE(stopped_worker_is_lost(soon, 20'000));
  Set late("link.worker_stopped_ms", 60'000);
  ASSERT_TRUE(late.ready) << late.server.errors();
  EXPECT_FALSE(stopped_worker_is_lost(late, 1'000));
}

TEST(Knobs, WorkerHeartbeatMs_WhenZero_LosesNoStoppedWorker) {
  Set on("link.worker_heartbeat_ms", 10);
  ASSERT_TRUE(on.ready) << on.server.errors();
  EXPECT_TRUE(stopped_worker_is_lost(on, 20'000));
  Set off("link.worker_heartbeat_ms", 0);
  ASSERT_TRUE(off.ready) << off.server.errors();
  EXPECT_FALSE(stopped_worker_is_lost(off, 1'000));
}

/// True if a client process that streams its own request and is then stopped is noticed.
bool stopped_client_is_gone(Set& set, int patience_ms) {
  const std::string endpoint = "ipc://" + set.server.state() + "/run/clients.sock";
  const pid_t pid = fork();
  if (pid == 0) {
    auto client = client::Client::connect(endpoint);
    wire::Submit submit = make_submit("hello", 100'000, 1);
    submit.request_id = "watched";
    submit.max_tokens = 400;
    submit.on_disconnect = wire::OnDisconnect::kCancel;
    (void)(*client)->submit(client::Principal::local(), submit);
    (void)(*client)->stream(client::AllTenants::local(), "watched", {}, [](const wire::Event&) {});
    _exit(0);
  }
  EXPECT_TRUE(wait_for([&] { return set.status("/daemon/streams") == 1; }));
  kill(pid, SIGSTOP);
  const bool gone = wait_for([&] { return set.status("/daemon/streams") == 0; }, patience_ms);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return gone;
}

constexpr const char* kSlow = R"({"step_us": 20000})";

TEST(Knobs, ClientTimeoutMs_WhenPassed_DropsTheSilentClient) {
  const std::vector<std::string> often = {"--config", "link.client_heartbeat_ms=50"};
  Set soon("link.client_timeout_ms", 300, kSlow, often);
  ASSERT_TRUE(soon.ready) << soon.server.errors();
  EXPECT_TRUE(stopped_client_is_gone(soon, 20'000));
  Set late("link.client_timeout_ms", 60'000, kSlow, often);
  ASSERT_TRUE(late.ready) << late.server.errors();
  EXPECT_FALSE(stopped_client_is_gone(late, 1'500));
}

TEST(Knobs, ClientHeartbeatMs_WhenZero_DropsNoSilentClient) {
  const std::vector<std::string> soon = {"--config", "link.client_timeout_ms=300"};
  Set on("link.client_heartbeat_ms", 50, kSlow, soon);
  ASSERT_TRUE(on.ready) << on.server.errors();
  EXPECT_TRUE(stopped_client_is_gone(on, 20'000));
  Set off("link.client_heartbeat_ms", 0, kSlow, soon);
  ASSERT_TRUE(off.ready) << off.server.errors();
  EXPECT_FALSE(stopped_client_is_gone(off, 1'500));
}

// ---- full sockets

/// True if a worker that reads nothing is given up while dispatches with long prompts go to it.
bool deaf_worker_is_lost(Set& set) {
  const pid_t worker = set.server.pid_of("worker-0");
  EXPECT_EQ(kill(worker, SIGSTOP), 0);
  const auto client = set.server.client();
  for (int i = 0; i < 1000; ++i) {
    wire::Submit submit = make_submit("", 4, 1);
    submit.request_id = "deaf-" + std::to_string(i);
    submit.prompts[0] = {};
    submit.prompts[0].ids = std::vector<wire::TokenId>(400, 300);
    EXPECT_TRUE(
        std::holds_alternative<wire::Accepted>(client->submit(client::Principal::local(), submit)));
  }
  pause_ms(300);
  const bool lost = set.status("/counters/workers_lost") == 1;
  kill(worker, SIGCONT);
  return lost;
}

constexpr const char* kWide = R"({"slots": 1000, "pages": 20000})";

TEST(Knobs, OutboxMessages_WhenExceeded_LosesTheWorker) {
  const std::vector<std::string> deaf = {"--config", "link.worker_heartbeat_ms=0", "--config",
                                         "link.high_water=16"};
  Set small("link.outbox_messages", 16, kWide, deaf);
  ASSERT_TRUE(small.ready) << small.server.errors();
  EXPECT_TRUE(deaf_worker_is_lost(small));
  Set large("link.outbox_messages", 100'000, kWide, deaf);
  ASSERT_TRUE(large.ready) << large.server.errors();
  EXPECT_FALSE(deaf_worker_is_lost(large));
}

TEST(Knobs, HighWater_WhenLarge_AbsorbsMessagesBeforeTheOutbox) {
  const std::vector<std::string> deaf = {"--config", "link.worker_heartbeat_ms=0", "--config",
                                         "link.outbox_messages=16"};
  Set small("link.high_water", 16, kWide, deaf);
  ASSERT_TRUE(small.ready) << small.server.errors();
  EXPECT_TRUE(deaf_worker_is_lost(small));
  Set large("link.high_water", 10'000, kWide, deaf);
  ASSERT_TRUE(large.ready) << large.server.errors();
  EXPECT_FALSE(deaf_worker_is_lost(large));
}

/// The number of transactions for 300 submissions that all wait in one socket.
std::int64_t commits_of_a_burst(Set& set) {
  const pid_t daemon = set.server.pid_of("daemon");
  const auto before = set.status("/storage/commits").get<std::int64_t>();
  const wire::Context context;
  wire::SocketOptions patient;
  patient.heartbeat_interval_ms = 0;
  wire::Socket socket = set.raw("clients", context, patient);
  int sent = 0;
  for (int i = 0; i < 300; ++i) {
    wire::Submit submit = make_submit("", 1, 1);
    submit.request_id = "burst-" + std::to_string(i);
    submit.prompts[0] = {};
    submit.prompts[0].ids = std::vector<wire::TokenId>(4, 300);
    submit.max_tokens = 0;  // accepted and ended at once
    if (send(socket, submit)) ++sent;
    if (i == 0) {  // the client is connected
      EXPECT_TRUE(wait_for([&] { return set.status("/counters/accepted") == 1; }));
      kill(daemon, SIGSTOP);
    }
  }
  EXPECT_EQ(sent, 300);
  pause_ms(100);  // until all are in the daemon's socket
  kill(daemon, SIGCONT);
  EXPECT_TRUE(wait_for([&] { return set.status("/counters/accepted") == 300; }));
  return set.status("/storage/commits").get<std::int64_t>() - before;
}

TEST(Knobs, GroupMessages_WhenRaised_LowersTheNumberOfCommits) {
  Set one("link.group_messages", 1);
  ASSERT_TRUE(one.ready) << one.server.errors();
  EXPECT_GE(commits_of_a_burst(one), 300);
  Set many("link.group_messages", 256);
  ASSERT_TRUE(many.ready) << many.server.errors();
  EXPECT_LT(commits_of_a_burst(many), 150);
}

// ---- the disk

// StorageStart in storage_start_test has "storage.refuse_lost_log", which needs a lost log.
// Standby in standby_test has "ha.strict" and "ha.silence_ms", PrimaryTest of the store
// "ha.synced": they need a standby.
TEST(Knobs, StorageReserveBytes_WhenSet_IsTheSizeOfTheReserveFile) {
  for (const std::int64_t mib : {1, 3}) {
    Set set("storage.reserve_bytes", mib << 20);
    ASSERT_TRUE(set.ready) << set.server.errors();
    struct stat facts {};
    ASSERT_EQ(stat((set.server.state() + "/control.reserve").c_str(), &facts), 0);
    EXPECT_EQ(facts.st_size, mib << 20);
  }
}

TEST(Knobs, MinFreeBytes_WhenFreeSpaceIsLower_RefusesNewRequests) {
  for (const bool low : {true, false}) {
    Set set("storage.min_free_bytes", 0);
    ASSERT_TRUE(set.ready) << set.server.errors();
    if (low) {
      const json settings = {{"settings", {{"storage.min_free_bytes", 1LL << 40}}}};
      EXPECT_TRUE(set.ask("config.set", settings).contains("version"));
      EXPECT_EQ(set.config("storage.min_free_bytes")["effective"], 1LL << 40);
      ASSERT_TRUE(wait_for([&] { return set.status("/daemon/storage_low") == true; }));
    }
    const auto client = set.server.client();
    const auto answer = client->submit(client::Principal::local(), make_submit("hello", 4, 1));
    const auto* failure = std::get_if<client::Failure>(&answer);
    EXPECT_EQ(failure != nullptr && failure->code == Errc::kStorageFull, low);
  }
}

// ---- the object store

/// Puts objects of two bytes until one is refused; returns how many exist then, at most `most`.
int objects_until_refused(Set& set, int most, const std::string& kind = "file",
                          const std::string& owner = "", const json& body = json::object()) {
  for (int i = 0; i < most; ++i) {
    const json object = {
        {"kind", kind}, {"id", owner + std::to_string(i)}, {"owner", owner}, {"body", body}};
    if (!set.ask("objects.put", object).contains("version")) return i;
  }
  return most;
}

TEST(Knobs, ObjectCountLimit_WhenReached_RefusesAnother) {
  for (const int count : {0, 3}) {
    Set set("objects.max_count", count);
    ASSERT_TRUE(set.ready) << set.server.errors();
    EXPECT_EQ(objects_until_refused(set, 5), count);
  }
}

TEST(Knobs, ObjectBytesLimit_WhenReached_RefusesAnother) {
  for (const int bytes : {1, 4, 7}) {
    Set set("objects.max_bytes", bytes);
    ASSERT_TRUE(set.ready) << set.server.errors();
    EXPECT_EQ(objects_until_refused(set, 5), bytes / 2);
  }
}

TEST(Knobs, TenantObjectLimit_WhenReached_RefusesAnother) {
  struct Row {
    const char* knob;
    int value;
    const char* kind;
    int stored;
  };
  for (const Row& row :
       {Row{"tenant.*.max_objects", 2, "file", 2}, Row{"tenant.*.max_objects", 0, "file", 5},
        Row{"tenant.*.max_object_bytes", 5, "file", 2}, Row{"tenant.*.max_responses", 3, "file", 5},
        Row{"tenant.*.max_responses", 3, "response", 3},
        Row{"tenant.*.max_open_batches", 1, "batch.open", 1},
        Row{"objects.max_tenant_percent", 30, "file", 3},
        Row{"objects.max_tenant_percent", 100, "file", 5}}) {
    SCOPED_TRACE(row.knob);
    Set set(row.knob, row.value, "{}", {"--config", "objects.max_count=10"});
    ASSERT_TRUE(set.ready) << set.server.errors();
    EXPECT_EQ(objects_until_refused(set, 5, row.kind, "ann"), row.stored);
    EXPECT_EQ(objects_until_refused(set, 1, "file", "ben"), 1) << "another has his own";
  }
}

TEST(Knobs, ObjectReserveBytes_WhenObjectsAreFull_AdmitsWebhooksAndNotes) {
  for (const int bytes : {65'536, 131'072}) {
    Set set("objects.reserve_bytes", bytes, "{}", {"--config", "objects.max_count=0"});
    ASSERT_TRUE(set.ready) << set.server.errors();
    const json body = {{"text", std::string(20'000, 'x')}};
    for (const char* kind : {"webhook", "webhook.due"}) {
      EXPECT_EQ(objects_until_refused(set, 10, kind, "", body), bytes / 20'013) << kind;
    }
  }
}

// ---- start and stop

TEST(Knobs, DaemonStart_WithALongQueue_ReadsItInBatches) {
  std::int64_t most_unread[2] = {0, 0};
  for (const int i : {0, 1}) {
    const std::string value = i == 0 ? "1" : "1000000";
    const TempDir dir;
    TestServer server(dir.path() + "/state");
    const std::vector<std::string> flags = {"--model",  "demo=" + demo_model(),
                                            "--engine", "fake",
                                            "--config", "queue.read_requests=" + value};
    ASSERT_TRUE(server.start(flags)) << server.errors();
    const auto watcher = server.operator_client();
    ASSERT_TRUE(std::holds_alternative<std::string>(
        watcher->op(client::AllTenants::local(), "queue.pause", "{}")));
    const auto client = server.client();
    for (int r = 0; r < 3000; ++r) {
      wire::Submit submit = make_submit("", 4, 1);
      submit.prompts[0] = {};
      submit.prompts[0].ids = std::vector<wire::TokenId>(4, 300);
      client->submit_async(client::Principal::local(), std::move(submit), [](const auto&) {});
    }
    const auto number = [&](const char* pointer) {
      const auto answer = watcher->op(client::AllTenants::local(), "status", "{}");
      const auto* text = std::get_if<std::string>(&answer);
      return text == nullptr
                 ? std::int64_t{-1}
                 : json::parse(*text).value(json::json_pointer(pointer), std::int64_t{-1});
    };
    ASSERT_TRUE(wait_for([&] { return number("/queue/live_requests") == 3000; }, 60'000));
    ASSERT_TRUE(server.kill_child("daemon"));
    std::int64_t unread = 0;
    do {
      unread = number("/queue/unread_requests");
      most_unread[i] = std::max(most_unread[i], unread);
    } while (unread != 0);
    EXPECT_EQ(number("/queue/live_requests"), 3000);
  }
  EXPECT_GT(most_unread[0], 0);
  EXPECT_EQ(most_unread[1], 0);
}

TEST(Knobs, DrainLimitMs_WhenLongEnough_LetsRunningWorkEnd) {
  for (const bool patient : {false, true}) {
    Set set("drain.limit_ms", patient ? 60'000 : 50, R"({"step_us": 20000})");
    ASSERT_TRUE(set.ready) << set.server.errors();
    const auto client = set.server.client();
    wire::Submit submit = make_submit("hello", 60, 1);  // 1.2 seconds
    submit.request_id = "last";
    ASSERT_TRUE(
        std::holds_alternative<wire::Accepted>(client->submit(client::Principal::local(), submit)));
    ASSERT_TRUE(wait_for([&] { return set.status("/queue/running_choices") == 1; }));
    const pid_t daemon = set.server.pid_of("daemon");
    ASSERT_EQ(kill(daemon, SIGTERM), 0);
    ASSERT_TRUE(
        wait_for([&] { return kill(daemon, 0) != 0 || set.server.pid_of("daemon") != daemon; }));
    // The next daemon reports how far the last one came.
    std::string state;
    ASSERT_TRUE(wait_for([&] {
      const json last = set.ask("requests.show", {{"id", "last"}});
      state = last.value("state", "");
      return !state.empty();
    }));
    if (patient) {
      EXPECT_EQ(state, "succeeded");
    }
    ASSERT_TRUE(wait_for([&] {
      return set.ask("requests.show", {{"id", "last"}}).value("state", "") == "succeeded";
    }));
    const json last = set.ask("requests.show", {{"id", "last"}});
    EXPECT_EQ(last["attempts"].size() > 1, !patient) << last.dump();
  }
}

TEST(Knobs, EnvironmentSetting_AtTheNextStart_TakesEffectAndIsExplained) {
  const TempDir dir;
  const std::vector<std::string> flags = {"--model", "demo=" + demo_model(), "--engine", "fake"};
  for (const std::int64_t value : {17, 23}) {
    ASSERT_EQ(setenv("HOLDFAST_QUEUE_MAX_REQUESTS", std::to_string(value).c_str(), 1), 0);
    TestServer server(dir.path() + "/state");
    ASSERT_TRUE(server.start(flags)) << server.errors();
    const auto watcher = server.operator_client();
    const auto answer = watcher->op(client::AllTenants::local(), "config.explain",
                                    R"({"name": "queue.max_requests"})");
    const json knob = json::parse(std::get<std::string>(answer));
    EXPECT_EQ(knob["effective"], value);
    EXPECT_EQ(knob["source"], "environment");
    EXPECT_EQ(knob["history"].back()["to"], value);
    EXPECT_EQ(server.stop(), 0);
  }
  unsetenv("HOLDFAST_QUEUE_MAX_REQUESTS");
}

}  // namespace
}  // namespace holdfast::process::knobs_test
