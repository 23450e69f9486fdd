#include "tests/cluster/namespaces.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/local_socket.h"
#include "tests/cluster/devices.h"

namespace holdfast::cluster {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr int kMachinesMax = 200;
constexpr int kWirePatienceS = 20;
constexpr const char* kWireProgram = HOLDFAST_BUILD_DIR "/tests/holdfast-test-wire";
constexpr const char* kMask = "255.255.255.0";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Calls `done` every few milliseconds until it is true. False after the patience.
template <class Done>
bool becomes_true(int patience_s, const Done& done) {
  const auto until = SteadyClock::now() + std::chrono::seconds(patience_s);
  while (!done()) {
    if (SteadyClock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// Becomes the program; `inherited` are its descriptors from 3 on. Returns only if that fails.
int become(std::vector<std::string> args, const std::vector<int>& inherited) {
  if (args[0][0] != '/') args[0] = std::string(HOLDFAST_BIN_DIR) + "/" + args[0];
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  std::vector<int> safe;  // above what is replaced
  for (const int fd : inherited) safe.push_back(fcntl(fd, F_DUPFD_CLOEXEC, 100));
  int next = 3;
  for (const int fd : safe) dup2(fd, next++);
  close_range(static_cast<unsigned>(next), ~0U, CLOSE_RANGE_CLOEXEC);
  unsetenv("HOLDFAST_STATE");
  setenv("NO_COLOR", "1", 1);
  execv(argv[0], argv.data());
  std::fprintf(stderr, "start %s: %s\n", argv[0], std::strerror(errno));
  return 127;
}

void redirect(int to, const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  dup2(fd, to);
  close(fd);
}

/// Makes the calling process die with its parent, also if that has died already. After enter():
/// other rights would clear it.
void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(125);
}

/// A wire's device in a machine or in the hub.
Result<int> make_device(const std::string& name, const DeviceAddress& address) {
  HOLDFAST_TRY(const int fd, open_tun(name));
  HOLDFAST_CHECKED(set_up_device(name, address));
  return fd;
}

}  // namespace

Program::~Program() {
  if (!has_ended()) (void)end(SIGKILL);
}

std::string Program::output() const {
  return read_file(files_ + ".out");
}

std::string Program::errors() const {
  return read_file(files_ + ".err");
}

bool Program::reap(int flags) {
  int status = 0;
  if (ended_) return true;
  if (waitpid(pid_, &status, flags) != pid_ || WIFSTOPPED(status)) return false;
  ended_ = true;
  exit_code_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

bool Program::has_ended() {
  return reap(WNOHANG);
}

bool Program::says(const std::string& text, int patience_s) {
  bool said = false;
  (void)becomes_true(patience_s, [&] {
    const bool ended = has_ended();  // before the look: its last words count
    said = output().find(text) != std::string::npos;
    return said || ended;
  });
  return said;
}

void Program::send(int signal) {
  if (!has_ended()) kill(pid_, signal);
}

void Program::stop() {
  send(SIGSTOP);
  (void)reap(WUNTRACED);  // returns when it stands still
}

void Program::resume() {
  send(SIGCONT);
}

int Program::wait(int patience_s) {
  if (!becomes_true(patience_s, [&] { return has_ended(); })) {
    kill(pid_, SIGKILL);
    (void)reap(0);
  }
  return exit_code_;
}

int Program::end(int signal, int patience_s) {
  send(signal);
  return wait(patience_s);
}

Result<std::unique_ptr<Machines>> Machines::make(int count, std::uint64_t seed) {
  CHECK(count >= 1 && count <= kMachinesMax);
  std::unique_ptr<Machines> machines(new Machines(seed));
  HOLDFAST_CHECKED(machines->set_up(count));
  return machines;
}

Result<void> Machines::set_up(int count) {
  dir_ = (fs::temp_directory_path() / "holdfast-cluster-XXXXXX").string();
  CHECK(mkdtemp(dir_.data()) != nullptr);
  machines_.resize(static_cast<std::size_t>(count) + 1);
  Result<NetSpace> hub = make_net_space({user_space_, true, dir_});
  if (!hub && hub.error().code == Errc::kUnsupported) {
    HOLDFAST_TRY(user_space_, make_user_space());
    hub = make_net_space({user_space_, true, dir_});
  }
  if (!hub) return hub.error();
  at(kHub).space = *hub;
  for (int i = 0; i < count; ++i) HOLDFAST_CHECKED(power_on(i));
  return {};
}

Machines::~Machines() {
  for (Machine& machine : machines_) cut_off(machine);
  for (auto it = machines_.rbegin(); it != machines_.rend(); ++it) release(it->space);
  if (user_space_ >= 0) close(user_space_);
  std::error_code ignored;
  fs::remove_all(dir_, ignored);
}

std::string Machines::address(int machine) {
  return "10.213.0." + std::to_string(machine + 2);
}

std::string Machines::next_files(const std::string& name) {
  return dir_ + "/" + std::to_string(files_++) + "-" + name;
}

std::unique_ptr<Program> Machines::fork_into(int machine, const std::string& name,
                                             const std::function<int()>& body) {
  const std::string files = next_files(name);
  const pid_t parent = getpid();
  std::fflush(nullptr);  // the child has a copy of what is buffered
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid > 0) return std::make_unique<Program>(pid, files);
  redirect(STDOUT_FILENO, files + ".out");
  redirect(STDERR_FILENO, files + ".err");
  if (!enter(spaces(machine))) {
    std::fprintf(stderr, "enter a machine: %s\n", std::strerror(errno));
    _exit(126);
  }
  die_with(parent);
  for (const Machine& one : machines_) {  // a copy of these would outlive the test
    if (one.space.guard_fd >= 0) close(one.space.guard_fd);
    if (one.wire_fd >= 0) close(one.wire_fd);
  }
  const int code = body();
  std::fflush(nullptr);
  _exit(code);
}

std::unique_ptr<Program> Machines::start(int machine, const std::vector<std::string>& args) {
  const std::string name = args[0].substr(args[0].rfind('/') + 1);
  return fork_into(machine, name, [&] { return become(args, {}); });
}

std::unique_ptr<Program> Machines::start_function(int machine,
                                                  const std::function<int()>& function) {
  return fork_into(machine, "function", function);
}

Result<int> Machines::socket(int machine, int type) const {
  return descriptor_from(spaces(machine), [&]() -> Result<int> {
    const int fd = ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd >= 0) return fd;
    return Error{Errc::kIo, std::string("open a socket: ") + std::strerror(errno)};
  });
}

Result<void> Machines::link(int machine) {
  const std::string device = "m" + std::to_string(machine);
  HOLDFAST_TRY(const int a, descriptor_from(spaces(machine), [&] {
                 return make_device("wire0", {address(machine), "", kMask});
               }));
  const Result<int> b = descriptor_from(spaces(kHub), [&] {
    return make_device(device, {address(kHub), address(machine), ""});
  });
  if (!b) {
    close(a);
    return b.error();
  }
  const std::string control = dir_ + "/wire" + std::to_string(machine);
  const std::string seed = std::to_string(seed_ + static_cast<std::uint64_t>(machine));
  Machine& one = at(machine);
  one.wire = fork_into(kHub, "wire", [&] {
    return become({kWireProgram, "fd:3", "fd:4", "--control", control, "--seed", seed}, {a, *b});
  });
  close(a);
  close(*b);
  (void)becomes_true(kWirePatienceS, [&] {
    one.wire_fd = connect_locally(control, SOCK_STREAM, kWirePatienceS);
    return one.wire_fd >= 0 || one.wire->has_ended();
  });
  if (one.wire_fd >= 0) return {};
  return Error{Errc::kIo, "start a wire: " + one.wire->errors()};
}

Result<std::string> Machines::ask(int machine, const std::string& command) {
  Machine& one = at(machine);
  CHECK_MSG(one.wire != nullptr, "the machine is off");
  const std::string line = command + "\n";
  std::string answer;
  char buffer[512];
  ssize_t n = send(one.wire_fd, line.data(), line.size(), MSG_NOSIGNAL);
  while (n > 0 && answer.find('\n') == std::string::npos) {
    n = recv(one.wire_fd, buffer, sizeof buffer, 0);
    if (n > 0) answer.append(buffer, static_cast<std::size_t>(n));
  }
  if (n <= 0) return Error{Errc::kUnreachable, "wire of a machine: " + one.wire->errors()};
  answer.pop_back();
  if (answer.rfind("ok", 0) == 0) return answer;
  return Error{Errc::kInvalidRequest, "wire: " + command + ": " + answer};
}

Result<void> Machines::set_wire(int machine, const std::string& command) {
  const auto answer = ask(machine, command);
  return answer ? Result<void>() : Result<void>(answer.error());
}

Result<WireCounters> Machines::counters(int machine) {
  HOLDFAST_TRY(const std::string answer, ask(machine, "counters"));
  return parse_counters(answer);
}

pid_t Machines::wire_pid(int machine) const {
  const auto& wire = at(machine).wire;
  return wire == nullptr ? 0 : wire->pid();
}

void Machines::cut_off(Machine& machine) {
  if (machine.wire != nullptr) (void)machine.wire->end(SIGKILL);
  machine.wire.reset();
  if (machine.wire_fd >= 0) close(std::exchange(machine.wire_fd, -1));
}

void Machines::power_off(int machine) {
  CHECK(machine >= 0);
  cut_off(at(machine));
  release(at(machine).space);
}

Result<void> Machines::power_on(int machine) {
  CHECK_MSG(at(machine).space.guard == 0, "the machine is on");
  HOLDFAST_TRY(at(machine).space, make_net_space({user_space_, false, ""}));
  return link(machine);
}

/// The processes in a machine that are the bench's: its guard, and in the hub the wires.
std::vector<pid_t> Machines::own_processes(int machine) const {
  std::vector<pid_t> own = {at(machine).space.guard};
  for (const Machine& one : machines_) {
    if (one.wire != nullptr) own.push_back(one.wire->pid());
  }
  return own;
}

void Machines::send_to_all(int machine, int signal) const {
  send_to_all_in(at(machine).space.inode, own_processes(machine), signal);
}

std::vector<pid_t> Machines::processes(int machine) const {
  const std::vector<pid_t> own = own_processes(machine);
  std::vector<pid_t> found = processes_in(at(machine).space.inode, 0);
  std::erase_if(found, [&](pid_t pid) { return std::ranges::find(own, pid) != own.end(); });
  return found;
}

}  // namespace holdfast::cluster
