#pragma once
// Several machines on one: network namespaces, each linked to a hub through a wire of its own
// (wire.h), with programs in them. Nothing has a name outside of the test: namespaces are held by
// descriptors, devices are in namespaces, and everything ends with the test, however it ends.
// docs/contribute/cluster-tests.md. One thread at a time.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "tests/cluster/spaces.h"
#include "tests/cluster/wire.h"

namespace holdfast::cluster {

/// The namespace in the middle, where a machine is named by its index.
constexpr int kHub = -1;

/// A process that runs in a machine while the test goes on, with its stdout and stderr in files. It
/// is killed when the thread that started it ends, however that happens.
class Program {
 public:
  /// `files`: the path of its files without ".out" and ".err".
  Program(pid_t pid, std::string files) : pid_(pid), files_(std::move(files)) {}
  ~Program();  // SIGKILL if it still runs
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  /// Returns what it has written to stdout so far.
  std::string output() const;
  /// Returns what it has written to stderr so far.
  std::string errors() const;
  /// Waits until the output has `text`. False after the patience, and once it has ended without.
  bool says(const std::string& text, int patience_s = 20);
  /// Returns true once it has ended; it is reaped then.
  bool has_ended();
  /// Sends a signal, unless it has ended.
  void send(int signal);
  /// Makes it stand still (SIGSTOP), and go on.
  void stop();
  void resume();
  /// Waits for the end. Returns the exit code, or -signal; SIGKILL after the patience.
  int wait(int patience_s = 20);
  /// Sends the signal, SIGKILL after the patience; returns as wait().
  int end(int signal, int patience_s = 20);

 private:
  bool reap(int flags);
  const pid_t pid_;
  const std::string files_;
  bool ended_ = false;
  int exit_code_ = -1;
};

/// A network namespace and its wire to the hub.
struct Machine {
  NetSpace space;
  std::unique_ptr<Program> wire;  // none for the hub, and while the machine is off
  int wire_fd = -1;               // commands
};

/// A hub, machines, and what runs in them.
class Machines {
 public:
  /// Makes the hub and `count` machines (1 to 200), each with its wire, without delay or loss; wire
  /// i draws from `seed` + i. As root, else in a user namespace. kUnsupported says why this process
  /// may not: tests skip with it (HOLDFAST_MAKE_MACHINES). kIo: anything else.
  static Result<std::unique_ptr<Machines>> make(int count, std::uint64_t seed = 1);
  ~Machines();
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  /// Returns the address of a machine or of the hub; all of them reach each other.
  static std::string address(int machine);
  /// Returns a directory for files of the test, which goes with it.
  const std::string& dir() const { return dir_; }

  /// Starts a program in a machine: of bin/, or with a whole path. What cannot be started ends with
  /// 127 and says why on its stderr.
  std::unique_ptr<Program> start(int machine, const std::vector<std::string>& args);
  /// Runs a function in a process of its own in a machine; it returns the exit code. The process is
  /// a fork of the test: it must have no threads by then.
  std::unique_ptr<Program> start_function(int machine, const std::function<int()>& function);
  /// Opens an IPv4 socket of a machine for the test itself. `type`: SOCK_STREAM, SOCK_DGRAM, with
  /// SOCK_NONBLOCK. The caller closes it. It is not the machine's process: power_off() leaves it.
  Result<int> socket(int machine, int type) const;

  /// Carries out a command of a machine's wire (Wire::command), of which it is end a, and returns
  /// when it holds. kInvalidRequest with the wire's answer; kUnreachable with the wire's last words
  /// if it has ended.
  Result<void> set_wire(int machine, const std::string& command);
  /// Returns the counters of a machine's wire. Errors as set_wire().
  Result<WireCounters> counters(int machine);
  /// Returns the process of a machine's wire; 0 while the machine is off.
  pid_t wire_pid(int machine) const;

  /// Takes a machine away as a loss of power does: its wire is killed, and what was on its way with
  /// it; then every process in it. Nothing it had sent comes through any more.
  void power_off(int machine);
  /// Gives a machine that was off a new namespace without processes, and a new wire.
  Result<void> power_on(int machine);
  /// Sends a signal to every process in a machine: with SIGSTOP all of it stands still, but for its
  /// kernel and its wire, until SIGCONT.
  void send_to_all(int machine, int signal) const;
  /// Returns the processes in a machine, without the bench's own.
  std::vector<pid_t> processes(int machine) const;
  /// Returns the number of a machine's network namespace, as in /proc/PID/ns/net.
  std::uint64_t namespace_inode(int machine) const { return at(machine).space.inode; }

 private:
  explicit Machines(std::uint64_t seed) : seed_(seed) {}
  static std::size_t index_of(int machine) {
    const int index = machine - kHub;
    return static_cast<std::size_t>(index);
  }
  Machine& at(int machine) { return machines_[index_of(machine)]; }
  const Machine& at(int machine) const { return machines_[index_of(machine)]; }
  std::vector<pid_t> own_processes(int machine) const;
  Result<void> set_up(int count);
  Result<void> link(int machine);
  Result<std::string> ask(int machine, const std::string& command);
  void cut_off(Machine& machine);
  Spaces spaces(int machine) const { return {user_space_, at(machine).space.fd}; }
  std::unique_ptr<Program> fork_into(int machine, const std::string& name,
                                     const std::function<int()>& body);
  std::string next_files(const std::string& name);

  const std::uint64_t seed_;
  std::string dir_;
  int user_space_ = -1;
  std::vector<Machine> machines_;  // the hub first
  int files_ = 0;
};

}  // namespace holdfast::cluster

/// Declares `std::unique_ptr<Machines> name` with `count` machines. Skips the test with the reason
/// where none can be made, and fails it if that went wrong.
#define HOLDFAST_MAKE_MACHINES(name, ...)                                         \
  auto name##_made = ::holdfast::cluster::Machines::make(__VA_ARGS__);            \
  if (!name##_made && name##_made.error().code == ::holdfast::Errc::kUnsupported) \
    GTEST_SKIP() << name##_made.error().what;                                     \
  ASSERT_TRUE(name##_made.has_value()) << name##_made.error().what;               \
  const std::unique_ptr<::holdfast::cluster::Machines> name = std::move(*name##_made)
