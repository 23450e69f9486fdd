// Goal: a process that hangs is restarted and one that is only starved is left alone, and in both
// cases every stream ends with the text of an undisturbed run. Method: `holdfast serve` with the
// fake engine; processes are stopped for good, or starved by spinning neighbours that the kernel
// prefers; texts are compared. Times are printed, never judged.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::liveness_test {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kSlow = R"({"step_us": 5000, "load_ms": 200})";

template <class Done>
bool wait_for(const Done& done, int seconds = 30) {
  const auto until = SteadyClock::now() + std::chrono::seconds(seconds);
  while (SteadyClock::now() < until) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

json counters(const TestServer& server) {
  const auto watcher = server.operator_client();
  const auto answer = watcher->op(client::AllTenants::local(), "status", "{}");
  const auto* text = std::get_if<std::string>(&answer);
  return text == nullptr ? json::object() : json::parse(*text).value("counters", json::object());
}

json completion(int tokens) {
  return {{"model", "demo"}, {"prompt", "To be"}, {"max_tokens", tokens}, {"seed", 5},
          {"stream", true},  {"temperature", 1},  {"ignore_eos", true}};
}

SseResult stream(const TestServer& server, const std::string& key, int tokens,
                 const std::function<void(std::int64_t)>& on_progress = {}) {
  const auto progress = [&](const SseResult& result) {
    if (on_progress) on_progress(result.index);
  };
  return stream_sse([&] { return server.url(); }, "/v1/completions", completion(tokens).dump(), key,
                    Resume::kPost, progress, /*patient=*/true);
}

struct HungChild : testing::TestWithParam<const char*> {};

TEST_P(HungChild, HungChild_WhenStoppedForGood_IsRestartedAndTheStreamGoesOn) {
  const std::string name = GetParam();
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(
      server.start({"--model", "demo=" + demo_model(), "--engine", "fake", "--engine-options",
                    kSlow, "--ingress", "1", "--probe-timeout-ms", "900"}))
      << server.errors();
  const SseResult expected = stream(server, "undisturbed", 300);
  ASSERT_EQ(expected.failure, "") << server.errors();
  bool stopped = false;
  const auto began = SteadyClock::now();
  const SseResult result = stream(server, "disturbed", 300, [&](std::int64_t index) {
    if (index < 20 || std::exchange(stopped, true)) return;
    kill(server.pid_of(name), SIGSTOP);
  });
  EXPECT_TRUE(stopped);
  EXPECT_EQ(result.failure, "") << server.errors();
  EXPECT_EQ(result.text, expected.text);
  EXPECT_TRUE(wait_for([&] { return server.restarts_of(name) == 1; })) << server.errors();
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - began);
  std::printf("%s stopped: stream and restart took %lld ms\n", name.c_str(),
              static_cast<long long>(took.count()));
  EXPECT_NE(server.errors().find("hangs"), std::string::npos) << server.errors();
  for (const char* other : {"daemon", "gateway", "ingress-0", "worker-0"}) {
    if (name != other) {
      EXPECT_EQ(server.restarts_of(other), 0) << other;
    }
  }
  // The server works again, text for the helper included.
  const SseResult after = stream(server, "after", 300);
  EXPECT_EQ(after.text, expected.text) << after.failure;
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

INSTANTIATE_TEST_SUITE_P(Each, HungChild,
                         testing::Values("daemon", "gateway", "ingress-0", "worker-0"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('-'));
                         });

TEST(Liveness, HealthLive_WhenTheDaemonHangs_Returns503) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(
      {"--model", "demo=" + demo_model(), "--engine", "fake", "--probe-timeout-ms", "0"}))
      << server.errors();
  const auto live = [&] { return http_get(server.url(), "/health/live"); };
  EXPECT_NE(live().find(" 200 "), std::string::npos);
  const pid_t daemon = server.pid_of("daemon");
  kill(daemon, SIGSTOP);
  EXPECT_TRUE(wait_for([&] { return live().find(" 503 ") != std::string::npos; })) << live();
  EXPECT_NE(live().find("daemon_silent"), std::string::npos) << live();
  kill(daemon, SIGCONT);
  EXPECT_TRUE(wait_for([&] { return live().find(" 200 ") != std::string::npos; })) << live();
  EXPECT_EQ(server.restarts_of("daemon"), 0);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

// ---- starved

/// Spinning processes on every processor, two on each, until they go out of scope.
class Spinners {
 public:
  Spinners() {
    const auto count = 2 * std::max(2U, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < count; ++i) {
      const pid_t pid = fork();
      if (pid == 0) {
        alarm(30);
        for (;;) asm volatile("");
      }
      pids_.push_back(pid);
    }
  }
  ~Spinners() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  Spinners(const Spinners&) = delete;
  Spinners& operator=(const Spinners&) = delete;

 private:
  std::vector<pid_t> pids_;
};

/// Sets the policy, e.g. SCHED_IDLE: the process gets a processor only when no other wants one.
void set_policy(pid_t pid, int policy) {
  const sched_param none{};
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    const pid_t thread = std::atoi(task.path().filename().c_str());
    EXPECT_EQ(sched_setscheduler(thread, policy, &none), 0);
  }
}

TEST(Liveness, Worker_WhenStarvedOfCpu_IsNotLostAndItsLoadSucceeds) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(
      {"--model", "demo=" + demo_model(), "--engine", "fake", "--engine-options", kSlow}))
      << server.errors();
  const SseResult expected = stream(server, "undisturbed", 200);
  const std::string other = dir.path() + "/other.gguf";
  std::filesystem::copy_file(demo_model(), other);
  ASSERT_EQ(server
                .cli({"models", "add", "other", other, "--options",
                      R"({"load_ms": 3000, "step_us": 2000})"})
                .code,
            0);
  const pid_t worker = server.pid_of("worker-0");
  set_policy(worker, SCHED_IDLE);
  std::future<SseResult> result;
  {
    const Spinners spinners;
    result = std::async(std::launch::async, [&] { return stream(server, "starved", 200); });
    EXPECT_EQ(server.cli({"models", "load", "other"}).code, 0);
    std::this_thread::sleep_for(std::chrono::seconds(8));
    const json during = counters(server);
    EXPECT_EQ(during.value("workers_lost", -1), 0) << during.dump();
    std::printf("suspicions %d, of these false %d\n", during.value("suspicions", -1),
                during.value("false_suspicions", -1));
  }
  set_policy(worker, SCHED_OTHER);
  EXPECT_EQ(result.get().text, expected.text) << server.errors();
  EXPECT_TRUE(wait_for([&] {
    const Ended show_result = server.cli({"--json", "models", "show", "other"});
    return show_result.out.find("\"state\":\"ready\"") != std::string::npos;
  })) << server.errors();
  EXPECT_EQ(counters(server).value("workers_lost", -1), 0);
  EXPECT_EQ(server.restarts_of("worker-0"), 0);
  EXPECT_EQ(server.restarts_of("daemon"), 0);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

// ---- stopped and killed workers

TEST(Liveness, Worker_WhenStoppedOrKilled_IsLostAndItsWorkMovesToTheOther) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(
      server.start({"--model", "demo=" + demo_model(), "--engine", "fake", "--engine-options",
                    kSlow, "--workers", "2", "--probe-timeout-ms", "0"}))
      << server.errors();
  const auto client = server.client();
  const wire::Submit submit = make_submit("Once more", 200, 7);
  const StreamResult expected = submit_and_stream(*client, submit);
  const auto runs_on = [&]() -> std::string {
    const Ended listed = server.cli({"--json", "workers", "list"});
    const json document = json::parse(listed.out, nullptr, false);
    const json workers = document.is_object() ? document.value("workers", json::array()) : document;
    for (const json& worker : workers) {
      if (worker.value("running", 0) > 0) return worker.value("key", "");
    }
    return "";
  };
  for (const int signal : {SIGSTOP, SIGKILL}) {
    auto result =
        std::async(std::launch::async, [&] { return submit_and_stream(*server.client(), submit); });
    std::string victim;
    ASSERT_TRUE(wait_for([&] { return !(victim = runs_on()).empty(); }));
    const pid_t pid = server.pid_of(victim);
    const auto lost = counters(server).value("workers_lost", 0);
    const auto at = SteadyClock::now();
    kill(pid, signal);
    EXPECT_TRUE(wait_for([&] { return counters(server).value("workers_lost", 0) > lost; }));
    const auto took =
        std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - at);
    std::printf("signal %d to lost: %lld ms\n", signal, static_cast<long long>(took.count()));
    EXPECT_EQ(result.get().text, expected.text) << server.errors();
    if (signal == SIGSTOP) {
      EXPECT_NE(server.cli({"workers", "list"}).out.find("lost"), std::string::npos);
      kill(pid, SIGCONT);  // it sends HELLO again and serves
      EXPECT_TRUE(wait_for([&] {
        return server.cli({"workers", "list"}).out.find("lost") == std::string::npos;
      })) << server.errors();
    }
  }
  EXPECT_EQ(submit_and_stream(*client, submit).text, expected.text);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

// ---- the service manager

TEST(Liveness, ServiceManager_WithANotifySocket_IsToldOfReadinessLifeAndEnd) {
  const TempDir dir;
  const std::string path = dir.path() + "/notify";
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const timeval patience{20, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const auto next = [&] {
    char text[512];
    const ssize_t n = recv(fd, text, sizeof text, 0);
    return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : std::string();
  };
  setenv("NOTIFY_SOCKET", path.c_str(), 1);
  setenv("WATCHDOG_USEC", "600000", 1);
  TestServer server(dir.path() + "/state");
  const bool started = server.start({"--model", "demo=" + demo_model(), "--engine", "fake"});
  unsetenv("NOTIFY_SOCKET");
  unsetenv("WATCHDOG_USEC");
  ASSERT_TRUE(started) << server.errors();
  int alive = 0;
  std::string said;
  while ((said = next()) == "WATCHDOG=1") ++alive;
  EXPECT_EQ(said.rfind("READY=1\n", 0), 0u) << said;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(), "WATCHDOG=1");
  EXPECT_EQ(server.stop(), 0);
  while ((said = next()) == "WATCHDOG=1") ++alive;
  EXPECT_EQ(said, "STOPPING=1");
  close(fd);
}

}  // namespace
}  // namespace holdfast::process::liveness_test
