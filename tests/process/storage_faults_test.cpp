// Goal: faults of the disk break no promise. A failed sync or write ends the daemon at once (status
// 74) and its successor goes on with everything that was acknowledged; a full disk refuses new
// requests with storage_full, lets running ones finish, and the refusals end when there is space
// again. Method: a server under load; strace (where it is installed and may attach) lets the n-th
// fdatasync or pwrite of the running daemon fail; a small tmpfs (where mounting is allowed) is
// filled to the last byte. Clients write down what they saw, the outside checker compares
// (chaos_checker.h).

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/process/chaos_checker.h"
#include "tests/process/chaos_clients.h"
#include "tests/process/small_disk.h"

namespace holdfast::process::storage_faults_test {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kStrace = "/usr/bin/strace";

bool wait_for(const std::function<bool()>& done, int patience_ms = 30'000) {
  const auto until = SteadyClock::now() + std::chrono::milliseconds(patience_ms);
  while (!done()) {
    if (SteadyClock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// strace on a running process; `inject` is the value of -e inject=….
class Strace {
 public:
  Strace(pid_t target, const std::string& inject, const std::string& messages) {
    const std::string pid = std::to_string(target);
    const std::string rule = "inject=" + inject;
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int fd = open(messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDERR_FILENO);
    execl(kStrace, kStrace, "-f", "-p", pid.c_str(), "-e", rule.c_str(), "-o", "/dev/null",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  ~Strace() {
    kill(pid_, SIGINT);  // it detaches
    waitpid(pid_, nullptr, 0);
  }
  Strace(const Strace&) = delete;

 private:
  pid_t pid_ = -1;
};

/// The reason why strace cannot be used here; empty if it can.
std::string why_no_strace() {
  if (!std::filesystem::exists(kStrace)) return "strace is not installed";
  const TempDir dir;
  const pid_t target = fork();
  if (target == 0) {
    for (;;) pause();
  }
  const std::string messages = dir.path() + "/messages";
  std::string said;
  {
    const Strace strace(target, "fdatasync:error=EIO:when=1", messages);
    (void)wait_for([&] { return !(said = read_file(messages)).empty(); }, 5'000);
  }
  kill(target, SIGKILL);
  waitpid(target, nullptr, 0);
  return said.find("attached") != std::string::npos ? "" : "strace cannot attach: " + said;
}

class StorageFaults : public testing::Test {
 protected:
  void start(const std::string& state, const std::string& step_us, int clients) {
    flags_ = {"--model",          "demo=" + demo_model(),
              "--restart-max-ms", "20",
              "--engine",         "fake",
              "--engine-options", "{\"step_us\": " + step_us + "}"};
    server_ = std::make_unique<TestServer>(state);
    ASSERT_TRUE(server_->start(flags_)) << server_->errors();
    log_ = std::make_unique<ClientLog>(dir_.path() + "/clients.log");
    specs_ = make_specs(12, 20, 80);
    std::string why;
    ASSERT_TRUE(fill_references(*server_, specs_, *log_, &why)) << why;
    world_.endpoint = "ipc://" + server_->state() + "/run/clients.sock";
    world_.specs = &specs_;
    world_.stop = &stop_;
    for (int i = 0; i < clients; ++i) {
      threads_.emplace_back(
          [this, i] { run_sdk_client(world_, static_cast<std::uint64_t>(i) + 1, *log_); });
    }
  }
  void stop_clients() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  void expect_nothing_lost() {
    stop_clients();
    const Verdict verdict = check_everything(*server_, specs_, {log_->path()});
    std::printf("%s\n", verdict.str().c_str());
    EXPECT_TRUE(verdict.good()) << server_->errors();
    EXPECT_GT(verdict.acknowledged, 0);
  }
  json status() const {
    return json::parse(server_->cli({"--json", "status"}).out, nullptr, false);
  }
  /// The daemon that answers; 0 if none does for long.
  pid_t running_daemon() const {
    pid_t pid = 0;
    const auto answers = [&] {
      pid = server_->pid_of("daemon");
      const json now = status();
      return pid > 0 && now.is_object() && now.value("pid", 0) == pid;
    };
    return wait_for(answers) ? pid : 0;
  }
  void TearDown() override {
    if (!threads_.empty()) stop_clients();
    server_.reset();
  }

  TempDir dir_;
  std::vector<std::string> flags_;
  std::unique_ptr<TestServer> server_;
  std::vector<Spec> specs_;
  std::unique_ptr<ClientLog> log_;
  std::atomic<bool> stop_{false};
  World world_;
  std::vector<std::thread> threads_;
};

struct Fault {
  const char* inject;  // without :when=
  bool fatal;
};

TEST_F(StorageFaults, Daemon_WhenAWriteOrSyncFails_EndsAndLosesNothing) {
  if (const std::string why = why_no_strace(); !why.empty()) GTEST_SKIP() << why;
  start(dir_.path() + "/state", "3000", 8);
  ASSERT_FALSE(HasFatalFailure());
  const std::string messages = dir_.path() + "/strace";
  int deaths = 0;
  for (const Fault& fault :
       {Fault{"fdatasync,fsync:error=EIO", true}, Fault{"pwrite64:error=EIO", true},
        Fault{"pwrite64:error=ENOSPC", false}}) {
    for (const int when : {1, 2, 5, 12}) {
      // The mark next to the log may lag, so one failed write of it is not fatal: all writes fail
      // from then on.
      const std::string inject =
          std::string(fault.inject) + ":when=" + std::to_string(when) + (fault.fatal ? "+" : "");
      SCOPED_TRACE(inject);
      const std::int64_t ends = log_->ends();
      const pid_t before = running_daemon();
      ASSERT_GT(before, 0) << server_->errors();
      {
        const Strace strace(before, inject, messages);
        if (fault.fatal) {
          EXPECT_TRUE(wait_for([&] { return server_->pid_of("daemon") != before; }))
              << read_file(messages);
          ++deaths;
        } else {
          EXPECT_TRUE(wait_for([&] { return log_->ends() >= ends + 8; })) << server_->errors();
          EXPECT_EQ(server_->pid_of("daemon"), before);
        }
      }
      EXPECT_TRUE(wait_for([&] { return log_->ends() >= ends + 4; })) << server_->errors();
      if (!fault.fatal) continue;
      const std::string line = "daemon (pid " + std::to_string(before) + ") exited with status 74";
      EXPECT_NE(server_->errors().find(line), std::string::npos) << server_->errors();
    }
  }
  std::printf("the daemon ended %d times\n", deaths);
  expect_nothing_lost();
}

TEST_F(StorageFaults, Daemon_WhenTheDiskIsFull_RefusesNewWorkAndFinishesRunning) {
  const SmallDisk disk(dir_.path() + "/disk", "192m");
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  start(dir_.path() + "/disk/state", "4000", 0);
  ASSERT_FALSE(HasFatalFailure());
  const auto client = server_->client();
  const pid_t daemon = server_->pid_of("daemon");
  // Sixteen long requests run when the last byte goes.
  std::vector<wire::Submit> running;
  for (std::size_t i = 0; i < 16; ++i) {
    wire::Submit submit = make_submit("Long live the king " + std::to_string(i), 450, i);
    submit.request_id = client::new_request_id();
    log_->tried(submit.request_id, 0);
    running.push_back(submit);
    ASSERT_TRUE(
        std::holds_alternative<wire::Accepted>(client->submit(client::Principal::local(), submit)));
  }
  disk.fill(0);
  EXPECT_LT(disk.free_bytes(), 4096);
  const auto refused = [&] {
    wire::Submit submit = make_submit("One more", 4, 1);
    submit.request_id = client::new_request_id();
    log_->tried(submit.request_id, 0);
    const auto answer = client->submit(client::Principal::local(), submit);
    const auto* failure = std::get_if<client::Failure>(&answer);
    return failure != nullptr && failure->code == Errc::kStorageFull;
  };
  EXPECT_TRUE(wait_for(refused)) << server_->errors();
  const json full = status();
  EXPECT_EQ(full["daemon"]["storage_low"], true) << full;
  std::vector<StreamResult> under_pressure;
  for (const wire::Submit& submit : running)
    under_pressure.push_back(submit_and_stream(*client, submit));
  for (const StreamResult& result : under_pressure) {
    EXPECT_EQ(result.failure, "") << server_->errors();
    EXPECT_EQ(result.info.state, wire::RequestState::kSucceeded);
    EXPECT_EQ(result.ids.size(), 450U);
  }
  EXPECT_TRUE(refused()) << "the disk is still full";
  disk.free();
  EXPECT_TRUE(wait_for([&] { return !refused(); })) << server_->errors();
  EXPECT_EQ(server_->pid_of("daemon"), daemon) << "a full disk is no reason to die";
  // The same texts again, now without pressure.
  std::vector<wire::Submit> again = running;
  for (wire::Submit& submit : again) {
    submit.request_id = client::new_request_id();
    log_->tried(submit.request_id, 0);
    ASSERT_TRUE(
        std::holds_alternative<wire::Accepted>(client->submit(client::Principal::local(), submit)));
  }
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(submit_and_stream(*client, again[i]).ids, under_pressure[i].ids) << i;
  }
  stop_clients();
  const Verdict verdict = check_everything(*server_, specs_, {log_->path()});
  EXPECT_TRUE(verdict.good()) << verdict.str();
  server_.reset();  // before its disk goes
}

}  // namespace
}  // namespace holdfast::process::storage_faults_test
