// Goal: machines of the bench run, stand still, die and come back as machines do, and nothing is
// left of them, however a test ends. Method: real processes in namespaces; what is left is looked
// for in /proc, among the devices of the test's own namespace, and by the namespaces' handles.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cluster/namespaces.h"
#include "tests/cluster/sockets.h"

namespace holdfast::cluster::machines_test {
namespace {

namespace fs = std::filesystem;

constexpr int kPatienceMs = 10'000;
constexpr const char* kShell = "/bin/sh";

void set(Machines& machines, int machine, const std::string& command) {
  const auto answer = machines.set_wire(machine, command);
  ASSERT_TRUE(answer.has_value()) << answer.error().what;
}

TEST(Program, Output_AndExitCode_AreTheProgramsOwn) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const auto program = machines->start(0, {kShell, "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(program->wait(), 7);
  EXPECT_EQ(program->output(), "out\n");
  EXPECT_EQ(program->errors(), "err\n");
  const auto killed = machines->start(0, {kShell, "-c", "echo up; exec sleep 1000"});
  EXPECT_TRUE(killed->says("up"));
  EXPECT_FALSE(killed->has_ended());
  EXPECT_EQ(killed->end(SIGTERM), -SIGTERM);
  const auto quiet = machines->start(0, {kShell, "-c", "exit 0"});
  EXPECT_FALSE(quiet->says("up")) << "an end without the text ends the wait";
  const auto absent = machines->start(0, {"/nowhere/program"});
  EXPECT_EQ(absent->wait(), 127);
  EXPECT_NE(absent->errors().find("/nowhere/program"), std::string::npos);
}

TEST(Program, Patience_WhenOver_KillsTheProgram) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const auto program =
      machines->start(0, {kShell, "-c", "trap '' TERM; echo up; while :; do :; done"});
  ASSERT_TRUE(program->says("up"));
  EXPECT_EQ(program->end(SIGTERM, 1), -SIGKILL);
}

/// Answers each datagram of the hub with its number.
int echo(const Machines& machines, int machine) {
  const Datagrams here(machines, machine);
  for (;;) {
    if (const auto number = here.receive(1'000)) here.send(kHub, *number);
  }
}

TEST(Program, Process_WhenStopped_StandsStillUntilItGoesOn) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const Datagrams hub(*machines, kHub);
  const auto program = machines->start_function(0, [&] { return echo(*machines, 0); });
  ASSERT_TRUE(becomes_true([&] {
    hub.send(0, 1);
    return hub.receive(100).has_value();
  })) << program->errors();
  while (hub.receive(50).has_value()) {
  }
  program->stop();
  hub.send(0, 2);
  EXPECT_FALSE(hub.receive(300).has_value());
  program->resume();
  EXPECT_EQ(hub.receive(kPatienceMs), 2);
}

TEST(Machines, Processes_WhenAllAreStopped_StandStillUntilTheyGoOn) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const auto program = machines->start(0, {kShell, "-c",
                                           "sh -c 'while :; do echo one; sleep 0.01; done' & "
                                           "while :; do echo other; sleep 0.01; done"});
  ASSERT_TRUE(program->says("one") && program->says("other"));
  machines->send_to_all(0, SIGSTOP);
  const auto size = [&] { return program->output().size(); };
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until the last one has stopped
  const std::size_t stopped = size();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(size(), stopped);
  machines->send_to_all(0, SIGCONT);
  EXPECT_TRUE(becomes_true([&] { return size() > stopped; }));
}

TEST(Machines, Namespaces_OfEachMachine_AreItsOwn) {
  HOLDFAST_MAKE_MACHINES(machines, 2);
  std::set<std::string> spaces;
  for (const int machine : {kHub, 0, 1}) {
    const auto program = machines->start(machine, {"/bin/readlink", "/proc/self/ns/net"});
    EXPECT_EQ(program->wait(), 0) << program->errors();
    EXPECT_EQ(program->output(),
              "net:[" + std::to_string(machines->namespace_inode(machine)) + "]\n");
    spaces.insert(program->output());
  }
  EXPECT_EQ(spaces.size(), 3u);
  // Both machines have the bench's port for themselves, and reach each other.
  const Datagrams one(*machines, 0);
  const Datagrams other(*machines, 1);
  one.send(1, 3);
  EXPECT_EQ(other.receive(kPatienceMs), 3);
  other.send(0, 4);
  EXPECT_EQ(one.receive(kPatienceMs), 4);
}

/// A program of machine 0 that connects to the hub, gives the kernel all of `bytes`, and waits.
int give_and_wait(std::size_t bytes) {
  const int fd = connect_from_here(kHub);
  if (fd < 0) return 1;
  const int buffer = 1 << 20;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  const std::string text(bytes, 'x');
  const ssize_t sent = send(fd, text.data(), text.size(), MSG_DONTWAIT);
  std::printf("gave %ld\n", static_cast<long>(sent));
  std::fflush(stdout);
  for (;;) pause();
}

/// Bytes of which some are read by the hub and the others on their way, in the kernel of machine 0
/// and in its wire.
struct Giving {
  std::unique_ptr<Program> program;
  std::size_t bytes = 0;  // given to the kernel
  int connection = -1;    // of the hub
};
Giving give(Machines& machines) {
  Giving out;
  set(machines, 0, "rate 50000 a");
  const int listener = listen_in(machines, kHub);
  out.program = machines.start_function(0, [] { return give_and_wait(60'000); });
  out.connection = accept_within(listener, kPatienceMs);
  close(listener);
  EXPECT_TRUE(out.program->says("\n"));
  out.bytes = static_cast<std::size_t>(std::stol(out.program->output().substr(5)));
  EXPECT_GE(out.bytes, 30'000u);
  return out;
}

// Why a machine is its wire too: the kernel of a killed process sends what the process gave it.
TEST(Machines, Bytes_OfAKilledProcess_AreDeliveredStill) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const Giving giving = give(*machines);
  EXPECT_EQ(giving.program->end(SIGKILL), -SIGKILL);
  bool ended = false;
  EXPECT_EQ(read_stream(giving.connection, 1 << 20, kPatienceMs, &ended).size(), giving.bytes);
  EXPECT_TRUE(ended);
  close(giving.connection);
}

TEST(Machines, Bytes_OfAMachineWithoutPower_AreLost) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const Giving giving = give(*machines);
  machines->power_off(0);
  EXPECT_EQ(giving.program->wait(), -SIGKILL);
  bool ended = false;
  EXPECT_LT(read_stream(giving.connection, 1 << 20, 1'000, &ended).size(), giving.bytes);
  EXPECT_FALSE(ended) << "nobody is there to end the connection";
  close(giving.connection);
}

TEST(Machines, Datagrams_InTheWireOfAMachineWithoutPower_AreLost) {
  HOLDFAST_MAKE_MACHINES(machines, 2);
  const Datagrams hub(*machines, kHub);
  for (const int machine : {0, 1}) {
    set(*machines, machine, "delay 200000");
    const Datagrams here(*machines, machine);
    here.send(kHub, machine);
    ASSERT_TRUE(becomes_true([&] { return machines->counters(machine)->a.queued == 1; }));
  }
  machines->power_off(0);
  EXPECT_EQ(hub.receive(kPatienceMs), 1) << "the other machine's came";
  EXPECT_FALSE(hub.receive(300).has_value());
}

TEST(Machines, Power_OffAndOn_LeavesNoProcessAndMakesANewMachine) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const std::uint64_t before = machines->namespace_inode(0);
  // A family of processes, of which one does not listen to anybody.
  const auto family = machines->start(
      0,
      {kShell, "-c", "sleep 1000 & setsid sh -c 'trap \"\" TERM HUP; sleep 1000' & echo up; wait"});
  ASSERT_TRUE(family->says("up"));
  ASSERT_TRUE(becomes_true([&] { return machines->processes(0).size() >= 4; }));
  machines->power_off(0);
  EXPECT_EQ(machines->wire_pid(0), 0);
  EXPECT_EQ(family->wait(), -SIGKILL);
  EXPECT_TRUE(processes_in(before, 0).empty());
  const auto on = machines->power_on(0);
  ASSERT_TRUE(on.has_value()) << on.error().what;
  const Datagrams hub(*machines, kHub);
  const auto program = machines->start_function(0, [&] { return echo(*machines, 0); });
  EXPECT_TRUE(becomes_true([&] {
    hub.send(0, 1);
    return hub.receive(100).has_value();
  })) << program->errors();
}

/// The names of a machine's devices, as text.
std::string devices_of(Machines& machines, int machine) {
  const auto list = machines.start(machine, {"/bin/cat", "/proc/net/dev"});
  EXPECT_EQ(list->wait(), 0) << list->errors();
  return list->output();
}

const std::string kWire = HOLDFAST_BUILD_DIR "/tests/holdfast-test-wire";

TEST(WireProgram, Ends_ByTheFilesOfNamespaces_AreJoinedUntilItsEnd) {
  HOLDFAST_MAKE_MACHINES(machines, 2);
  if (geteuid() != 0) GTEST_SKIP() << "only root enters namespaces by their files";
  std::vector<std::string> args = {kWire};
  std::vector<std::unique_ptr<Program>> sleepers;
  for (const int machine : {0, 1}) {
    sleepers.push_back(machines->start(machine, {kShell, "-c", "echo up; exec sleep 1000"}));
    ASSERT_TRUE(sleepers.back()->says("up"));
    args.push_back("/proc/" + std::to_string(sleepers.back()->pid()) + "/ns/net=by_hand");
  }
  args.insert(args.end(), {"--control", machines->dir() + "/by-hand", "delay 1000"});
  const auto wire = machines->start(kHub, args);
  ASSERT_TRUE(wire->says("ready")) << wire->errors();
  for (const int machine : {0, 1}) {
    EXPECT_NE(devices_of(*machines, machine).find("by_hand:"), std::string::npos);
  }
  EXPECT_EQ(wire->end(SIGTERM), -SIGTERM);
  for (const int machine : {0, 1}) {
    EXPECT_EQ(devices_of(*machines, machine).find("by_hand:"), std::string::npos);
  }
}

TEST(WireProgram, Arguments_ThatAreWrong_EndItWithTheReason) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "usage:"},
      {{"fd:3"}, "usage:"},
      {{"fd:3", "fd:4", "--speed"}, "usage:"},
      {{"fd:3", "fd:4", "loss x"}, "from 0 to 1000"},
      {{"fd:33", "fd:34"}, "end fd:33"},
      {{"/nowhere=a", "/nowhere=b"}, "/nowhere"}};
  for (const auto& [arguments, reason] : cases) {
    std::vector<std::string> args = {kWire};
    args.insert(args.end(), arguments.begin(), arguments.end());
    const auto wire = machines->start(kHub, args);
    EXPECT_GT(wire->wait(), 0) << reason;
    EXPECT_NE(wire->errors().find(reason), std::string::npos) << wire->errors();
  }
}

/// A handle of a namespace, by which one can look for it without holding it.
class SpaceHandle {
 public:
  /// `path`: /proc/PID/ns/net of a process in it.
  explicit SpaceHandle(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    handle().handle_bytes = kBytes;
    int mount = 0;
    can_look_ = fd >= 0 && name_to_handle_at(fd, "", &handle(), &mount, AT_EMPTY_PATH) == 0;
    if (fd >= 0) close(fd);
    can_look_ = can_look_ && exists();
  }
  /// False before Linux 6.18, and without the right to open handles.
  bool can_look() const { return can_look_; }
  bool exists() {
    const int fd = open_by_handle_at(kNamespaces, &handle(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) close(fd);
    return fd >= 0;
  }

 private:
  static constexpr unsigned kBytes = 128;
  static constexpr int kNamespaces = -10003;  // FD_NSFS_ROOT
  file_handle& handle() { return *reinterpret_cast<file_handle*>(bytes_.data()); }
  alignas(file_handle) std::array<char, sizeof(file_handle) + kBytes> bytes_{};
  bool can_look_ = false;
};

/// The names of what other runs could stumble over.
std::set<std::string> names_outside() {
  std::set<std::string> names;
  struct if_nameindex* devices = if_nameindex();
  for (auto* one = devices; one != nullptr && one->if_index != 0; ++one) {
    names.insert(std::string("device ") + one->if_name);
  }
  if_freenameindex(devices);
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator("/run/netns", absent)) {
    names.insert(entry.path().string());
  }
  return names;
}

/// A test's machines as they are looked for afterwards.
struct Traces {
  std::vector<std::uint64_t> inodes;
  std::vector<SpaceHandle> handles;
  std::vector<pid_t> processes;
  std::string dir;
};

/// Two machines with processes of all sorts; the text is their traces, a word each.
std::string occupy(Machines& machines, std::vector<std::unique_ptr<Program>>& programs) {
  std::string text = machines.dir();
  for (const int machine : {kHub, 0, 1}) {
    programs.push_back(machines.start(
        machine, {kShell, "-c", "setsid sh -c 'trap \"\" TERM; sleep 1000' & echo up; wait"}));
    EXPECT_TRUE(programs.back()->says("up"));
    text += " " + std::to_string(machines.namespace_inode(machine)) + " " +
            std::to_string(programs.back()->pid());
  }
  return text + "\n";
}

Traces parse_traces(const std::string& text) {
  Traces traces;
  std::istringstream words(text);
  words >> traces.dir;
  std::uint64_t inode = 0;
  for (pid_t pid = 0; words >> inode >> pid;) {
    traces.inodes.push_back(inode);
    traces.processes.push_back(pid);
    traces.handles.emplace_back("/proc/" + std::to_string(pid) + "/ns/net");
  }
  EXPECT_EQ(traces.inodes.size(), 3u) << text;
  return traces;
}

void expect_gone(Traces& traces) {
  for (const std::uint64_t inode : traces.inodes) {
    EXPECT_TRUE(becomes_true([&] { return processes_in(inode, 0).empty(); })) << inode;
  }
  EXPECT_TRUE(becomes_true([&] { return !fs::exists(traces.dir); })) << traces.dir;
  for (SpaceHandle& handle : traces.handles) {
    if (!handle.can_look()) {
      std::printf("not looked for namespaces: this kernel has no handles of them (Linux 6.18)\n");
      return;
    }
    EXPECT_TRUE(becomes_true([&] { return !handle.exists(); })) << "a namespace is left";
  }
}

TEST(Machines, Cleanup_AtTheEndOfATest_LeavesNothing) {
  const std::set<std::string> before = names_outside();
  Traces traces;
  std::vector<std::unique_ptr<Program>> programs;
  {
    HOLDFAST_MAKE_MACHINES(machines, 2);
    traces = parse_traces(occupy(*machines, programs));
    EXPECT_EQ(names_outside(), before) << "nothing has a name outside";
    const Stream open(*machines, 0, 1);
    set(*machines, 0, "cut both");  // so that the kernel goes on sending for it when it is closed
    (void)send(open.from_fd(), "x", 1, MSG_NOSIGNAL);
  }
  for (const auto& program : programs) EXPECT_EQ(program->wait(), -SIGKILL);
  expect_gone(traces);
  EXPECT_EQ(names_outside(), before);
}

TEST(Machines, Cleanup_WhenTheTestIsKilled_LeavesNothing) {
  { HOLDFAST_MAKE_MACHINES(allowed, 1); }
  const std::set<std::string> before = names_outside();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t test = fork();
  if (test == 0) {
    close(ends[0]);
    const auto machines = Machines::make(2).value();
    std::vector<std::unique_ptr<Program>> programs;
    const std::string text = occupy(*machines, programs);
    (void)!write(ends[1], text.data(), text.size());
    for (;;) pause();
  }
  close(ends[1]);
  char text[512];
  const ssize_t n = read(ends[0], text, sizeof text);
  close(ends[0]);
  ASSERT_GT(n, 0);
  Traces traces = parse_traces({text, static_cast<std::size_t>(n)});
  for (const std::uint64_t inode : traces.inodes) EXPECT_GE(processes_in(inode, 0).size(), 3u);
  kill(test, SIGKILL);
  waitpid(test, nullptr, 0);
  expect_gone(traces);
  EXPECT_EQ(names_outside(), before);
}

/// Kills the guards in a namespace, as a user could; returns the other processes.
std::vector<pid_t> unguarded(std::uint64_t inode) {
  std::vector<pid_t> others;
  for (const pid_t pid : processes_in(inode, 0)) {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
    if (name == "cluster-guard") {
      kill(pid, SIGKILL);
    } else {
      others.push_back(pid);
    }
  }
  return others;
}

// Programs and wires end with the test by themselves too: a guard is for what they have started.
TEST(Machines, Programs_WhenTestAndGuardsAreKilled_DieToo) {
  { HOLDFAST_MAKE_MACHINES(allowed, 1); }
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t test = fork();
  if (test == 0) {
    close(ends[0]);
    const auto machines = Machines::make(1).value();
    const auto program = machines->start(0, {kShell, "-c", "echo up; exec sleep 1000"});
    const auto function = machines->start_function(0, [] {
      std::puts("up");
      std::fflush(stdout);
      return pause();
    });
    EXPECT_TRUE(program->says("up") && function->says("up"));
    const std::string text = machines->dir() + " " +
                             std::to_string(machines->namespace_inode(kHub)) + " " +
                             std::to_string(machines->namespace_inode(0)) + "\n";
    (void)!write(ends[1], text.data(), text.size());
    for (;;) pause();
  }
  close(ends[1]);
  char text[512];
  const ssize_t n = read(ends[0], text, sizeof text);
  close(ends[0]);
  ASSERT_GT(n, 0);
  std::istringstream words(std::string(text, static_cast<std::size_t>(n)));
  std::string dir;
  std::uint64_t hub = 0;
  std::uint64_t machine = 0;
  words >> dir >> hub >> machine;
  EXPECT_EQ(unguarded(hub).size(), 1u) << "its wire";
  EXPECT_EQ(unguarded(machine).size(), 2u);
  kill(test, SIGKILL);
  waitpid(test, nullptr, 0);
  for (const std::uint64_t inode : {hub, machine}) {
    EXPECT_TRUE(becomes_true([&] { return processes_in(inode, 0).empty(); }, 5'000));
  }
  fs::remove_all(dir);
}

constexpr int kSkipped = 77;
constexpr uid_t kNobody = 65534;

/// Becomes an ordinary user to whom /dev/net/tun is open, as it is on most machines. Returns why
/// not; empty if it is done.
std::string become_nobody() {
  const auto failed = [](const std::string& what) { return what + ": " + std::strerror(errno); };
  if (unshare(CLONE_NEWNS) != 0) return failed("unshare");
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failed("mount /");
  struct stat device {};
  if (stat("/dev/net/tun", &device) != 0) return failed("/dev/net/tun");
  if (mount("none", "/dev/net", "tmpfs", 0, "mode=755") != 0) return failed("mount /dev/net");
  umask(0);
  if (mknod("/dev/net/tun", S_IFCHR | 0666, device.st_rdev) != 0) return failed("mknod");
  umask(022);
  if (setresgid(kNobody, kNobody, kNobody) != 0) return failed("setresgid");
  if (setresuid(kNobody, kNobody, kNobody) != 0) return failed("setresuid");
  prctl(PR_SET_DUMPABLE, 1);
  if (access(HOLDFAST_BUILD_DIR "/tests/holdfast-test-wire", X_OK) != 0) return failed("the wire");
  return "";
}

/// The test of an ordinary user; returns 0 if a program in a machine is answered by the hub.
int run_as_nobody() {
  const std::string why_not = become_nobody();
  if (!why_not.empty()) {
    std::printf("no ordinary user here: %s\n", why_not.c_str());
    return kSkipped;
  }
  const auto machines = Machines::make(1);
  if (!machines) {
    std::printf("%s\n", machines.error().what.c_str());
    return machines.error().code == Errc::kUnsupported ? kSkipped : 1;
  }
  const Datagrams hub(**machines, kHub);
  const auto program = (*machines)->start_function(0, [&] { return echo(**machines, 0); });
  const bool answered = becomes_true([&] {
    hub.send(0, 1);
    return hub.receive(100).has_value();
  });
  const auto id = (*machines)->start(0, {"/usr/bin/id", "-u"});
  const bool same_user = id->wait() == 0 && id->output() == "65534\n";
  const bool delayed = (*machines)->set_wire(0, "delay 1000").has_value();
  (*machines)->power_off(0);
  const bool killed = program->wait() == -SIGKILL;
  std::printf("answered %d, same user %d, delayed %d, killed %d; %s\n", answered, same_user,
              delayed, killed, program->errors().c_str());
  return answered && same_user && delayed && killed ? 0 : 1;
}

TEST(Machines, Bench_OfAnOrdinaryUser_RunsInAUserNamespace) {
  if (geteuid() != 0) GTEST_SKIP() << "all other tests run as an ordinary user already";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int code = run_as_nobody();
    std::fflush(nullptr);
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "this machine has none: see above";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace holdfast::cluster::machines_test
