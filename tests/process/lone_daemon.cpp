#include "tests/process/lone_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "shared/base/check.h"
#include "shared/wire/frame.h"

namespace holdfast::process {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

/// The first result with this tag, or nothing after the patience.
std::optional<wire::OpResult> wait_for_result(wire::Socket& socket, std::uint64_t tag,
                                              SteadyClock::time_point until) {
  while (SteadyClock::now() < until) {
    std::vector<wire::WaitItem> items = {{&socket, -1, false}};
    wire::wait_readable(items, 20);
    while (auto received = socket.receive()) {
      auto message = wire::decode(received->frame);
      if (!message) continue;
      auto* result = std::get_if<wire::OpResult>(&*message);
      if (result != nullptr && result->tag == tag) return std::move(*result);
    }
  }
  return std::nullopt;
}

}  // namespace

LoneDaemon::~LoneDaemon() {
  if (pid_ > 0) end(SIGKILL);
}

bool LoneDaemon::start(const std::vector<std::string>& config) {
  std::vector<std::string> args = {std::string(HOLDFAST_BIN_DIR) + "/holdfastd", "--state", state_};
  for (const std::string& one : config) args.insert(args.end(), {"--config", one});
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const int log = open((state_ + ".log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  CHECK(log >= 0);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsetenv("HOLDFAST_STATE");
    dup2(log, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(log);
  const auto until = SteadyClock::now() + std::chrono::seconds(30);
  while (SteadyClock::now() < until) {
    if (reap(0)) return false;
    if (std::filesystem::exists(state_ + "/run/clients.sock")) {
      const json status = op("status", json::object(), 200);
      if (status.is_object() && status.value("pid", 0) == pid_) return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  end(SIGKILL);
  return false;
}

bool LoneDaemon::reap(int patience_ms) {
  const auto until = SteadyClock::now() + std::chrono::milliseconds(patience_ms);
  for (;;) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      exit_code_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
      pid_ = 0;
      return true;
    }
    if (SteadyClock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

bool LoneDaemon::runs() {
  return pid_ > 0 && !reap(0);
}

int LoneDaemon::end(int signal) {
  if (pid_ == 0) return exit_code_;
  kill(pid_, signal);
  if (!reap(30'000)) {
    kill(pid_, SIGKILL);
    reap(30'000);
  }
  return exit_code_;
}

json LoneDaemon::op(const std::string& verb) const {
  return op(verb, json::object());
}

json LoneDaemon::op(const std::string& verb, const json& args, int patience_ms) const {
  wire::Context context;
  auto socket = wire::Socket::open(context, wire::SocketKind::kDealer, {});
  if (!socket || !socket->connect("ipc://" + state_ + "/run/operator.sock")) return {};
  const auto until = SteadyClock::now() + std::chrono::milliseconds(patience_ms);
  wire::Op op;
  op.tag = 1;
  op.verb = verb;
  op.args = args.dump();
  const std::string frame = wire::encode(op);
  while (socket->send(frame) != wire::SendStatus::kSent) {
    if (SteadyClock::now() > until) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const auto result = wait_for_result(*socket, op.tag, until);
  if (!result) return {};
  if (result->ok) return json::parse(result->result, nullptr, false);
  return {{"refused", errc_name(result->refusal.code)},
          {"why", result->refusal.message},
          {"largest", result->refusal.largest}};
}

std::string LoneDaemon::log() const {
  std::ifstream file(state_ + ".log", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace holdfast::process
