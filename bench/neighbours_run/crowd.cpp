#include "bench/neighbours_run/crowd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "bench/lib/local_cluster.h"
#include "bench/lib/stats.h"

namespace holdfast::bench {
namespace {

constexpr std::int64_t kTickUs = 10'000;
constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kReturnUs = 4'000'000;  // a dropped stranger returns after this time
constexpr int kAddresses = 32;                 // from 127.0.0.2 on
constexpr int kAtOnce = 40;                    // connections begun in a tick

class Strangers {
 public:
  Strangers(int port, int count) : port_(port), all_(static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i].kind = static_cast<Stranger>(i % 4);
  }

  bool run() {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) return false;
    for (;;) {
      const std::int64_t next = now_us() + kTickUs;
      tick();
      while (now_us() < next) listen(static_cast<int>((next - now_us()) / 1000) + 1);
      std::printf("%lld %lld %lld\n", static_cast<long long>(open_),
                  static_cast<long long>(connected_), static_cast<long long>(dropped_));
      std::fflush(stdout);
    }
  }

 private:
  struct One {
    Stranger kind = Stranger::kIdle;
    int fd = -1;
    bool connected = false;
    std::int64_t due_us = 0;  // time of its next text, or of its return
  };

  void tick() {
    const std::int64_t now = now_us();
    int begun = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      One& one = all_[i];
      if (one.due_us > now) continue;
      if (one.fd < 0 && begun < kAtOnce) {
        ++begun;
        connect(i);
      } else if (one.connected) {
        say(one, next_words(one.kind));
        one.due_us = now + kSecondUs;
      }
    }
  }

  void connect(std::size_t index) {
    One& one = all_[index];
    one.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    setsockopt(one.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr =
        htonl(INADDR_LOOPBACK + 1 + static_cast<std::uint32_t>(index) % kAddresses);
    const auto* raw = reinterpret_cast<const sockaddr*>(&address);
    bool good = one.fd >= 0 && bind(one.fd, raw, sizeof address) == 0;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    good = good && (::connect(one.fd, raw, sizeof address) == 0 || errno == EINPROGRESS);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
    event.data.u64 = index;
    if (!good || epoll_ctl(epoll_, EPOLL_CTL_ADD, one.fd, &event) != 0) return leave(one);
    one.due_us = now_us() + kSecondUs;
  }

  void leave(One& one) {
    if (one.fd >= 0) close(one.fd);
    if (one.connected) --open_;
    one.fd = -1;
    one.connected = false;
    one.due_us = now_us() + kReturnUs;
  }

  static void say(const One& one, const std::string& words) {
    if (!words.empty()) (void)send(one.fd, words.data(), words.size(), MSG_NOSIGNAL);
  }

  void listen(int timeout_ms) {
    epoll_event events[256];
    const int n = epoll_wait(epoll_, events, 256, timeout_ms);
    for (int i = 0; i < n; ++i) {
      One& one = all_[events[i].data.u64];
      if ((events[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP | EPOLLIN)) != 0) {
        if (one.connected) ++dropped_;
        leave(one);  // an answer ends the connection too
        continue;
      }
      one.connected = true;
      ++open_;
      ++connected_;
      epoll_event event{};
      event.events = EPOLLIN | EPOLLRDHUP;
      event.data.u64 = events[i].data.u64;
      epoll_ctl(epoll_, EPOLL_CTL_MOD, one.fd, &event);
      say(one, first_words(one.kind));
    }
  }

  const int port_;
  int epoll_ = -1;
  std::vector<One> all_;
  std::int64_t open_ = 0, connected_ = 0, dropped_ = 0;
};

}  // namespace

std::string first_words(Stranger kind) {
  switch (kind) {
    case Stranger::kIdle:
      return "";
    case Stranger::kHalfHead:
      return "POST /v1/completions HTTP/1.1\r\nHost: local";
    case Stranger::kHalfBody:
      return "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n" +
             std::string(1'000, '-');
    case Stranger::kDrip:
      return "G";
  }
  return "";
}

std::string next_words(Stranger kind) {
  if (kind == Stranger::kDrip) return "E";
  return kind == Stranger::kHalfBody ? "-" : "";
}

int run_crowd(int port, int count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return Strangers(port, count).run() ? 0 : 1;
}

CrowdState parse_crowd(const std::string& output) {
  CrowdState state;
  const std::size_t end = output.rfind('\n');
  if (end == std::string::npos) return state;
  const std::size_t before = end == 0 ? std::string::npos : output.rfind('\n', end - 1);
  const std::string line = output.substr(before == std::string::npos ? 0 : before + 1);
  long long open = 0, connected = 0, dropped = 0;
  if (std::sscanf(line.c_str(), "%lld %lld %lld", &open, &connected, &dropped) != 3) return state;
  return {open, connected, dropped};
}

Result<Crowd> Crowd::start(int port, int count, const std::string& log) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::filesystem::remove(log);
  HOLDFAST_TRY(const pid_t pid,
               spawn({program, "--crowd", std::to_string(port), std::to_string(count)}, log));
  return Crowd(pid, log);
}

Crowd::Crowd(Crowd&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), log_(std::move(other.log_)) {}

Crowd::~Crowd() {
  kill_and_reap(pid_);
}

CrowdState Crowd::state() const {
  constexpr std::int64_t kTail = 200;
  std::ifstream file(log_, std::ios::binary | std::ios::ate);
  const std::int64_t size = file ? static_cast<std::int64_t>(file.tellg()) : 0;
  file.seekg(std::max<std::int64_t>(size - kTail, 0));
  return parse_crowd({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace holdfast::bench
