#include "bench/neighbours_run/served.h"

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/lib/command.h"
#include "bench/lib/local_cluster.h"
#include "bench/lib/stats.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

using nlohmann::json;

constexpr std::int64_t kPatienceMs = 120'000;

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The supervisor's entry for a child; null if there is none.
json child_of(const std::string& dir, const std::string& name) {
  const json document = try_parse_json<json>(file_text(dir + "/run/supervisor.json"));
  if (!document.is_object()) return nullptr;
  for (const json& child : document.value("children", json::array())) {
    if (child.value("name", "") == name) return child;
  }
  return nullptr;
}

/// Waits for the end of a child; sends SIGKILL after kPatienceMs.
void reap(pid_t pid) {
  const std::int64_t until = now_us() + kPatienceMs * 1000;
  while (waitpid(pid, nullptr, WNOHANG) == 0) {
    if (now_us() > until) return kill_and_reap(pid);
    sleep_ms(5);
  }
}

}  // namespace

Result<std::unique_ptr<Served>> Served::start(const ServedOptions& options) {
  std::unique_ptr<Served> served(new Served(options));
  std::filesystem::create_directories(options.dir);
  HOLDFAST_CHECKED(served->begin());
  return Result<std::unique_ptr<Served>>(std::move(served));
}

Served::~Served() {
  operator_.reset();
  end();
}

Result<void> Served::begin() {
  constexpr std::string_view kReady = "ready http://127.0.0.1:";
  std::filesystem::remove(log());
  std::vector<std::string> args = {options_.programs + "/holdfast",
                                   "serve",
                                   "--state",
                                   options_.dir,
                                   "--http",
                                   "127.0.0.1:" + std::to_string(port_),
                                   "--model",
                                   "demo=" + options_.model,
                                   "--engine",
                                   options_.engine};
  if (!options_.engine_options.empty()) {
    args.insert(args.end(), {"--engine-options", options_.engine_options});
  }
  HOLDFAST_TRY(pid_, spawn(args, log()));
  const std::int64_t until = now_us() + kPatienceMs * 1000;
  while (now_us() < until) {
    const std::string text = file_text(log());
    if (const auto at = text.find(kReady); at != std::string::npos) {
      port_ = std::atoi(text.c_str() + at + kReady.size());
      return {};
    }
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = 0;
      return Error{Errc::kInternal, "holdfast serve ended: " + text};
    }
    sleep_ms(5);
  }
  return Error{Errc::kTimeout, "holdfast serve is not ready: " + file_text(log())};
}

void Served::end() {
  if (pid_ <= 0) return;
  kill(pid_, SIGTERM);
  reap(std::exchange(pid_, 0));
}

Result<void> Served::restart() {
  end();
  return begin();
}

Result<std::string> Served::make_key(const std::string& tenant) const {
  HOLDFAST_TRY(const json made,
               json_of_command(shell_word(options_.programs + "/holdfast") + " --state " +
                               shell_word(options_.dir) + " --json keys create " + tenant +
                               " --tenant " + tenant));
  return made.value("key", "");
}

pid_t Served::pid_of(const std::string& child) const {
  const json found = child_of(options_.dir, child);
  return found.is_object() && found["pid"].is_number() ? found["pid"].get<pid_t>() : 0;
}

std::int64_t Served::restarts_of(const std::string& child) const {
  const json found = child_of(options_.dir, child);
  return found.is_object() ? found.value("restarts", std::int64_t{-1}) : -1;
}

Result<std::unique_ptr<client::Client>> Served::connect() const {
  client::Options options;
  options.timeout = std::chrono::seconds(120);
  return client::Client::connect("ipc://" + options_.dir + "/run/clients.sock", options);
}

Result<std::int64_t> Served::status(const std::string& pointer) {
  if (operator_ == nullptr) {
    HOLDFAST_TRY(operator_,
                 client::Client::connect("ipc://" + options_.dir + "/run/operator.sock"));
  }
  const auto answer = operator_->op(client::AllTenants::local(), "status", "{}");
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    return Error{failure->code, "status: " + failure->message};
  }
  const json document = try_parse_json<json>(std::get<std::string>(answer));
  const json::json_pointer at(pointer);
  if (!document.contains(at) || !document.at(at).is_number()) {
    return Error{Errc::kInternal, "status: has no number " + pointer};
  }
  return document.at(at).get<std::int64_t>();
}

double peak_mib(pid_t pid) {
  std::istringstream lines(file_text("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  }
  return -1;
}

}  // namespace holdfast::bench
