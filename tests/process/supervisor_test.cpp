// Goal: children of `serve` are restarted within 100 ms, back off to 1 s and never further, are
// reported truly, die with the supervisor, and are stopped in order and in time. Method: real
// processes (/bin/sh scripts as stubs) under the Supervisor class; no daemon. Delays are checked on
// the pure policy; of processes only order and outcome are, never a clock.

#include "ops/serve/supervisor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ops/serve/state_dir.h"
#include "shared/base/url.h"

namespace holdfast::cli::supervisor_test {
namespace {

namespace fs = std::filesystem;

TEST(RestartPolicy, RestartPolicy_AfterRepeatedDeaths_BacksOffToOneSecond) {
  RestartPolicy policy;
  const std::vector<std::int64_t> expected = {0, 100, 200, 400, 800, 1000, 1000};
  for (const std::int64_t delay : expected) EXPECT_EQ(policy.on_death(10), delay);
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(policy.on_death(10), RestartPolicy::kMaxMs);
}

TEST(RestartPolicy, RestartPolicy_AfterAHealthyLife_StartsAnew) {
  RestartPolicy policy;
  for (int i = 0; i < 5; ++i) policy.on_death(10);
  EXPECT_EQ(policy.on_death(RestartPolicy::kHealthyMs), 0);
  EXPECT_EQ(policy.on_death(10), 100);
}

class SupervisorTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hf-supervisor-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    auto created = Supervisor::create({[this](const ChildExit& e) { exits_.push_back(e); }, {}});
    ASSERT_TRUE(created.has_value());
    supervisor_ = std::move(created).value();
  }
  void TearDown() override {
    supervisor_.reset();
    fs::remove_all(dir_);
  }
  ChildSpec shell(const std::string& role, const std::string& name, const std::string& script) {
    ChildSpec spec;
    spec.role = role;
    spec.name = name;
    spec.argv = {"/bin/sh", "-c", script};
    spec.log_path = dir_ + "/" + name + ".log";
    return spec;
  }
  pid_t pid_of(const std::string& name) const {
    for (const ChildState& child : supervisor_->children()) {
      if (child.name == name) return child.pid;
    }
    return -1;
  }
  /// Lets the supervisor work until `done` holds; the bound only ends a hanging test.
  template <class F>
  bool wait_until(F done) {
    for (int i = 0; i < 3'000 && !done(); ++i) supervisor_->wait(10);
    return done();
  }
  std::string read(const std::string& file) const {
    std::ifstream in(dir_ + "/" + file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string dir_;
  std::vector<ChildExit> exits_;
  std::unique_ptr<Supervisor> supervisor_;
};

TEST_F(SupervisorTest, Child_WhenKilled_IsRestartedAndTheExitIsReported) {
  ASSERT_TRUE(supervisor_->add(shell("worker", "w", "while :; do sleep 1; done")).has_value());
  const pid_t first = pid_of("w");
  ASSERT_EQ(kill(first, SIGKILL), 0);
  ASSERT_TRUE(wait_until([&] { return pid_of("w") > 0 && pid_of("w") != first; }));
  ASSERT_EQ(exits_.size(), 1U);
  EXPECT_EQ(exits_[0].pid, first);
  EXPECT_EQ(exits_[0].signal, SIGKILL);
  EXPECT_EQ(exits_[0].status, 0);
  EXPECT_FALSE(exits_[0].oom);
  EXPECT_LE(exits_[0].restart_in_ms, 100);
  EXPECT_EQ(supervisor_->children()[0].restarts, 1);
}

TEST_F(SupervisorTest, Child_WhenItAlwaysFails_IsRestartedWithBackoff) {
  ASSERT_TRUE(supervisor_->add(shell("daemon", "d", "exit 3")).has_value());
  ASSERT_TRUE(wait_until([&] { return exits_.size() >= 4; }));
  for (const ChildExit& exit : exits_) EXPECT_EQ(exit.status, 3);
  EXPECT_GT(exits_[3].restart_in_ms, exits_[1].restart_in_ms);
}

TEST_F(SupervisorTest, AddChild_WithAMissingProgram_ReturnsAnError) {
  ChildSpec spec;
  spec.role = "daemon";
  spec.name = "d";
  spec.argv = {dir_ + "/no-such-program"};
  const auto started = supervisor_->add(spec);
  ASSERT_FALSE(started.has_value());
  EXPECT_NE(started.error().what.find("no-such-program"), std::string::npos);
}

TEST_F(SupervisorTest, ChildOutput_AcrossRestarts_IsAppendedToTheLog) {
  ASSERT_TRUE(supervisor_->add(shell("x", "talker", "echo out; echo err >&2; exit 0")).has_value());
  ASSERT_TRUE(wait_until([&] { return exits_.size() >= 2; }));
  supervisor_->stop_role("x", 1'000);
  const std::string log = read("talker.log");
  EXPECT_EQ(log.find("out\nerr\nout\nerr\n"), 0U) << log;  // appended, not truncated
}

TEST_F(SupervisorTest, Child_WhenStarted_InheritsEnvironmentAndDescriptors) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // not O_CLOEXEC: the supervisor must close it in children by itself
  const std::string inherited = std::to_string(ends[1]);
  ChildSpec spec = shell("x", "heir", "echo \"$GIFT\"; ls /proc/self/fd; sleep 100");
  spec.env = {"GIFT=" + inherited};
  spec.inherited_fds = {ends[1]};
  ASSERT_TRUE(supervisor_->add(spec).has_value());
  ASSERT_TRUE(wait_until([&] { return read("heir.log").find("\n2\n") != std::string::npos; }));
  const std::string log = read("heir.log");
  EXPECT_EQ(log.rfind(inherited + "\n", 0), 0U) << log;
  EXPECT_NE(log.find("\n" + inherited + "\n"), std::string::npos) << log;
  EXPECT_EQ(log.find("\n" + std::to_string(ends[0]) + "\n"), std::string::npos) << log;
  close(ends[0]);
  close(ends[1]);
}

TEST_F(SupervisorTest, StopRole_WhenItsChildrenRun_EndsThemWithoutRestart) {
  const std::string trap = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done";
  ASSERT_TRUE(supervisor_->add(shell("gateway", "g", trap)).has_value());
  ASSERT_TRUE(supervisor_->add(shell("worker", "w", trap)).has_value());
  ASSERT_TRUE(wait_until([&] { return read("g.log") == "up\n" && read("w.log") == "up\n"; }));
  supervisor_->stop_role("gateway", 60'000);
  EXPECT_EQ(read("g.log"), "up\nbye\n");
  EXPECT_EQ(pid_of("g"), 0);
  EXPECT_GT(pid_of("w"), 0);
  supervisor_->stop_role("worker", 60'000);
  EXPECT_EQ(pid_of("w"), 0);
  EXPECT_EQ(exits_.size(), 2U);
}

TEST_F(SupervisorTest, Retire_OfOneChild_EndsAndForgetsItAlone) {
  const std::string trap = "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done";
  ASSERT_TRUE(supervisor_->add(shell("worker", "stays", trap)).has_value());
  ASSERT_TRUE(supervisor_->add(shell("worker", "goes", trap)).has_value());
  ASSERT_TRUE(
      wait_until([&] { return read("stays.log") == "up\n" && read("goes.log") == "up\n"; }));
  const pid_t stays = pid_of("stays");
  supervisor_->retire("goes");
  supervisor_->retire("unknown");
  ASSERT_TRUE(wait_until([&] { return supervisor_->children().size() == 1; }));
  EXPECT_EQ(supervisor_->children()[0].name, "stays");
  EXPECT_EQ(pid_of("stays"), stays);
  ASSERT_EQ(exits_.size(), 1U);
  EXPECT_TRUE(exits_[0].retired);
  ASSERT_TRUE(supervisor_->add(shell("worker", "goes", trap)).has_value()) << "the name is free";
}

TEST_F(SupervisorTest, Child_WhenItIgnoresSigterm_IsKilledAfterTheLimit) {
  const std::string deaf = "trap '' TERM; echo up; while :; do sleep 0.01; done";
  ASSERT_TRUE(supervisor_->add(shell("worker", "w", deaf)).has_value());
  ASSERT_TRUE(wait_until([&] { return read("w.log") == "up\n"; }));
  supervisor_->stop_role("worker", 50);
  ASSERT_EQ(exits_.size(), 1U);
  EXPECT_EQ(exits_[0].signal, SIGKILL);
}

TEST_F(SupervisorTest, Supervisor_WhenAStopSignalComes_ReturnsItToTheCaller) {
  ASSERT_EQ(kill(getpid(), SIGTERM), 0);
  EXPECT_EQ(supervisor_->wait(10'000), Supervisor::Event::kStop);
}

// The supervisor runs in a forked process that is killed without a chance to clean up; its child
// must go too. A pipe that both hold tells when the last of them is gone.
TEST(SupervisorDeath, Children_WhenTheSupervisorIsKilled_Die) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    close(ends[0]);
    auto supervisor = Supervisor::create({});
    ChildSpec spec;
    spec.role = "worker";
    spec.name = "w";
    spec.argv = {"/bin/sh", "-c", "echo up >&" + std::to_string(ends[1]) + "; exec sleep 1000"};
    spec.inherited_fds = {ends[1]};
    if (!supervisor || !supervisor.value()->add(spec)) _exit(1);
    while (true) supervisor.value()->wait(1'000);
  }
  close(ends[1]);
  char buffer[8];
  ASSERT_EQ(read(ends[0], buffer, sizeof buffer), 3);  // the grandchild is up
  ASSERT_EQ(kill(parent, SIGKILL), 0);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  pollfd gone{ends[0], POLLIN, 0};  // the end of the pipe comes when the grandchild is gone
  ASSERT_EQ(poll(&gone, 1, 30'000), 1);
  EXPECT_EQ(read(ends[0], buffer, sizeof buffer), 0);
  close(ends[0]);
}

TEST(StateDir, StateDir_WithAnImpossiblePath_IsRefused) {
  EXPECT_EQ(prepare_state_dir("/proc/holdfast-state").error().code, Errc::kIo);
  EXPECT_EQ(prepare_state_dir("/dev/null").error().code, Errc::kIo);
  EXPECT_EQ(prepare_state_dir("/tmp/" + std::string(120, 'x')).error().code, Errc::kUsage);
}

TEST(StateDir, StateDir_WhenCreated_IsPrivate) {
  std::string name = (fs::temp_directory_path() / "hf-state-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const auto made = prepare_state_dir(name + "/deep/state/");
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->path, name + "/deep/state");
  EXPECT_EQ(fs::status(made->path).permissions(), fs::perms::owner_all);
  EXPECT_TRUE(fs::is_directory(made->path + "/run"));
  take_back(*made);
  EXPECT_TRUE(fs::is_empty(name)) << "parents that it made go too";
  fs::remove_all(name);
}

TEST(StateDir, StateDir_WhenTakenBack_LeavesExistingFiles) {
  std::string name = (fs::temp_directory_path() / "hf-state-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  std::ofstream(name + "/mine") << "kept";
  const auto made = prepare_state_dir(name);
  ASSERT_TRUE(made.has_value());
  take_back(*made);
  EXPECT_TRUE(fs::exists(name + "/mine"));
  EXPECT_FALSE(fs::exists(name + "/run"));
  fs::remove_all(name);
}

TEST(HttpListener, HttpListener_WhenThePortIsZeroOrTaken_ChoosesOneOrSaysSo) {
  const auto first = listen_http("127.0.0.1:0");
  ASSERT_TRUE(first.has_value());
  const std::string url = first.value().url;
  EXPECT_EQ(url.find("http://127.0.0.1:"), 0U);
  EXPECT_EQ(url.find(":0", 16), std::string::npos);
  const auto second = listen_http(url.substr(7));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Errc::kConflict);
  EXPECT_NE(second.error().what.find("--http"), std::string::npos);
  for (const char* bad : {"", "x", "localhost:", "localhost:99999", "0.0.0.0", "h:8o"}) {
    EXPECT_EQ(listen_http(bad).error().code, Errc::kUsage) << bad;
  }
  close(first.value().fd);
  for (const char* every : {":0", "*:0", "0.0.0.0:0"}) {
    const auto open = listen_http(every);
    ASSERT_TRUE(open.has_value()) << every;
    EXPECT_TRUE(open->url.starts_with("http://0.0.0.0:")) << open->url;
    EXPECT_FALSE(is_loopback_url(open->url));
    close(open->fd);
  }
  EXPECT_TRUE(is_loopback_url(url));
}

}  // namespace
}  // namespace holdfast::cli::supervisor_test
