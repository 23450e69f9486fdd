// holdfast-test-wire: a wire between two TUN devices (tests/cluster/wire.h), until one of them is
// gone or it is killed; what it has in its queue is lost then.
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "shared/base/local_socket.h"
#include "tests/cluster/devices.h"
#include "tests/cluster/wire.h"

namespace holdfast::cluster {
namespace {

constexpr const char* kUsage =
    "usage: holdfast-test-wire A B [--seed N] [--control PATH] [COMMAND]...\n"
    "A, B: the ends: fd:N, a TUN device that was inherited, or NAMESPACE=DEVICE, a device to be\n"
    "made in a network namespace by its file (/run/netns/one=wire0).\n"
    "COMMAND: 'delay 1000', 'loss 10 a', 'rate 125000 b', 'cut' before the first packet; later\n"
    "lines on the Unix socket PATH, each answered by one line.\n";

struct Arguments {
  std::vector<std::string> ends;
  std::vector<std::string> commands;
  std::string control;
  std::uint64_t seed = 1;
};

Result<Arguments> parse(const std::vector<std::string>& words) {
  Arguments out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--seed" && has_value) {
      out.seed = std::strtoull(words[++i].c_str(), nullptr, 10);
    } else if (words[i] == "--control" && has_value) {
      out.control = words[++i];
    } else if (words[i].rfind("--", 0) == 0) {
      return Error{Errc::kUsage, kUsage};
    } else {
      (out.ends.size() < 2 ? out.ends : out.commands).push_back(words[i]);
    }
  }
  if (out.ends.size() < 2) return Error{Errc::kUsage, kUsage};
  return out;
}

/// Opens an end. Its namespace becomes that of the calling thread.
Result<int> open_end(const std::string& end) {
  if (end.rfind("fd:", 0) == 0) {
    const int fd = std::atoi(end.c_str() + 3);
    if (fcntl(fd, F_SETFL, O_NONBLOCK) == 0) return fd;
    return Error{Errc::kUsage, "end " + end + ": " + std::strerror(errno)};
  }
  const std::size_t equals = end.find('=');
  if (equals == std::string::npos) return Error{Errc::kUsage, kUsage};
  const std::string path = end.substr(0, equals);
  const int space = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = space >= 0 && setns(space, CLONE_NEWNET) == 0;
  const Error error{Errc::kIo, "enter network namespace " + path + ": " + std::strerror(errno)};
  if (space >= 0) close(space);
  if (!entered) return error;
  return open_tun(end.substr(equals + 1));
}

/// Relays until a device is gone; returns why.
Error run(const Arguments& arguments) {
  Wire wire(arguments.seed);
  for (const std::string& command : arguments.commands) {
    const std::string answer = wire.command(command);
    if (answer != "ok") return {Errc::kUsage, answer};
  }
  Relay::Descriptors descriptors;
  if (!arguments.control.empty()) {
    HOLDFAST_TRY(descriptors.listener, listen_locally(arguments.control, SOCK_STREAM, 8));
  }
  HOLDFAST_TRY(descriptors.a, open_end(arguments.ends[0]));
  HOLDFAST_TRY(descriptors.b, open_end(arguments.ends[1]));
  std::printf("ready\n");
  std::fflush(stdout);
  prctl(PR_SET_TIMERSLACK, 1);  // nanosecond: delays are of microseconds
  return Relay(wire, descriptors).run();
}

}  // namespace
}  // namespace holdfast::cluster

int main(int argc, char** argv) {
  using namespace holdfast;
  const auto arguments = cluster::parse({argv + 1, argv + argc});
  const Error error = arguments ? cluster::run(*arguments) : arguments.error();
  std::fprintf(stderr, "holdfast-test-wire: %s\n", error.what.c_str());
  return error.code == Errc::kUsage ? 2 : 1;
}
