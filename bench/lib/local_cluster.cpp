#include "bench/lib/local_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/lib/stats.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

using nlohmann::json;

Error timed_out(const std::string& what, std::int64_t ms) {
  return {Errc::kTimeout, what + ": not within " + std::to_string(ms) + " ms"};
}

}  // namespace

Result<pid_t> spawn(const std::vector<std::string>& args, const std::string& log_path) {
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const int log_fd = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0) return Error{Errc::kIo, "open " + log_path + ": " + std::strerror(errno)};
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(log_fd);
  if (pid < 0) return Error{Errc::kIo, "fork: " + std::string(std::strerror(errno))};
  return pid;
}

void kill_and_reap(pid_t pid) {
  if (pid <= 0) return;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

LocalCluster::LocalCluster(ClusterOptions options) : options_(std::move(options)) {
  std::filesystem::create_directories(options_.dir);
}

LocalCluster::~LocalCluster() {
  operator_.reset();
  kill_and_reap(gateway_);
  for (const auto& [key, pid] : workers_) kill_and_reap(pid);
  kill_and_reap(ingress_);
  kill_and_reap(daemon_);
}

std::string LocalCluster::clients_endpoint() const {
  return "ipc://" + options_.dir + "/run/clients.sock";
}

Result<void> LocalCluster::start_daemon() {
  CHECK(daemon_ == 0);
  std::vector<std::string> args = {program("holdfastd"), "--state", options_.dir};
  for (const std::string& config : options_.daemon_config) {
    args.insert(args.end(), {"--config", config});
  }
  args.insert(args.end(), options_.daemon_flags.begin(), options_.daemon_flags.end());
  HOLDFAST_TRY(daemon_, spawn(args, log("daemon")));
  return {};
}

Result<void> LocalCluster::wait_daemon(std::int64_t patience_ms) {
  const std::int64_t until = now_us() + patience_ms * 1000;
  while (now_us() < until) {
    if (waitpid(daemon_, nullptr, WNOHANG) == daemon_) {
      daemon_ = 0;
      return Error{Errc::kInternal, "the daemon ended: " + log_tail("daemon")};
    }
    if (op("status")) return {};
    sleep_ms(1);
  }
  return timed_out("start of the daemon", patience_ms);
}

Result<void> LocalCluster::start() {
  HOLDFAST_CHECKED(start_daemon());
  HOLDFAST_CHECKED(wait_daemon());
  return restart_ingress();
}

Result<void> LocalCluster::restart_ingress() {
  kill_and_reap(std::exchange(ingress_, 0));
  HOLDFAST_TRY(ingress_,
               spawn({program("holdfast-ingress"), "--state", options_.dir}, log("ingress")));
  return {};
}

Result<void> LocalCluster::start_gateway(const std::vector<std::string>& flags) {
  constexpr std::int64_t kPatienceMs = 30'000;
  constexpr std::string_view kListens = "listening http://127.0.0.1:";
  std::vector<std::string> args = {program("holdfast-gateway"), "--state", options_.dir, "--http",
                                   "127.0.0.1:0"};
  args.insert(args.end(), flags.begin(), flags.end());
  HOLDFAST_TRY(gateway_, spawn(args, log("gateway")));
  const std::int64_t until = now_us() + kPatienceMs * 1000;
  while (now_us() < until) {
    const std::string text = log_tail("gateway");
    if (const auto at = text.find(kListens); at != std::string::npos) {
      http_port_ = std::atoi(text.c_str() + at + kListens.size());
      return {};
    }
    sleep_ms(5);
  }
  return timed_out("start of the gateway: " + log_tail("gateway"), kPatienceMs);
}

void LocalCluster::kill_daemon() {
  kill_and_reap(std::exchange(daemon_, 0));
}

Result<void> LocalCluster::add_model(const std::string& engine_options, int slots, int context) {
  const json args = {
      {"name", "bench"}, {"path", options_.model},
      {"slots", slots},  {"context", context},
      {"load", true},    {"options", options_.engine == "fake" ? engine_options : "{}"}};
  HOLDFAST_TRY(const std::string ignored, op("models.add", args.dump()));
  return {};
}

Result<void> LocalCluster::start_worker(const std::string& key,
                                        const std::vector<std::string>& flags,
                                        const std::string& engine) {
  std::vector<std::string> args = {program("holdfast-worker"),
                                   "--state",
                                   options_.dir,
                                   "--engine",
                                   engine.empty() ? options_.engine : engine,
                                   "--key",
                                   key};
  args.insert(args.end(), flags.begin(), flags.end());
  HOLDFAST_TRY(workers_[key], spawn(args, log(key)));
  return {};
}

pid_t LocalCluster::worker(const std::string& key) const {
  const auto it = workers_.find(key);
  return it == workers_.end() ? 0 : it->second;
}

void LocalCluster::kill_worker(const std::string& key) {
  kill_and_reap(worker(key));
  workers_.erase(key);
}

std::vector<std::string> LocalCluster::unexpected_deaths() const {
  std::vector<std::string> deaths;
  const auto look = [&](const std::string& name, pid_t pid) {
    siginfo_t info{};
    // WNOWAIT: a later kill_and_reap() still finds the process.
    if (pid <= 0 ||
        waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
      return;
    }
    const bool exited = info.si_code == CLD_EXITED;
    deaths.push_back(name + " (pid " + std::to_string(pid) + ") ended by itself, " +
                     (exited ? "exit status " : "signal ") + std::to_string(info.si_status));
  };
  look("daemon", daemon_);
  look("ingress helper", ingress_);
  look("gateway", gateway_);
  for (const auto& [key, pid] : workers_) look("worker " + key, pid);
  return deaths;
}

Result<void> LocalCluster::wait_ready(int workers, std::int64_t patience_ms) {
  const std::int64_t until = now_us() + patience_ms * 1000;
  while (now_us() < until) {
    HOLDFAST_TRY(const std::string text, op("models.show", R"({"name":"bench"})"));
    const json model = try_parse_json<json>(text);
    int ready = 0;
    for (const json& load : model.value("loads", json::array())) {
      if (load.value("state", "") == "ready" && load.value("connected", false)) ++ready;
    }
    if (ready >= workers) return {};
    sleep_ms(5);
  }
  return timed_out("loads on " + std::to_string(workers) + " workers", patience_ms);
}

Result<std::unique_ptr<client::Client>> LocalCluster::connect() const {
  client::Options options;
  options.timeout = std::chrono::seconds(120);
  return client::Client::connect(clients_endpoint(), options);
}

Result<std::string> LocalCluster::op(const std::string& verb, const std::string& args) {
  if (operator_ == nullptr) {
    client::Options options;
    options.timeout = std::chrono::minutes(10);  // a large file is hashed when it is registered
    HOLDFAST_TRY(operator_,
                 client::Client::connect("ipc://" + options_.dir + "/run/operator.sock", options));
  }
  auto answer = operator_->op(client::AllTenants::local(), verb, args);
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    return Error{failure->code, verb + ": " + failure->message};
  }
  return std::move(std::get<std::string>(answer));
}

Result<double> LocalCluster::status(const std::string& pointer) {
  HOLDFAST_TRY(const std::string text, op("status"));
  const json document = try_parse_json<json>(text);
  const json::json_pointer at(pointer);
  if (!document.contains(at) || !document.at(at).is_number()) {
    return Error{Errc::kInternal, "status: has no number " + pointer};
  }
  return document.at(at).get<double>();
}

std::string LocalCluster::log_tail(const std::string& name) const {
  std::ifstream file(log(name), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return text.size() <= 600 ? text : text.substr(text.size() - 600);
}

Result<std::vector<double>> query_numbers(const std::string& state_dir, const std::string& sql) {
  sqlite3* db = nullptr;
  const std::string path = state_dir + "/control.db";
  int rc = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
  sqlite3_stmt* statement = nullptr;
  if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(db, 1000);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr);
  std::vector<double> values;
  while (rc == SQLITE_OK || rc == SQLITE_ROW) {
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) values.push_back(sqlite3_column_double(statement, 0));
  }
  const std::string why = sqlite3_errmsg(db);
  sqlite3_finalize(statement);
  sqlite3_close(db);
  if (rc != SQLITE_DONE) return Error{Errc::kStorage, "read " + path + ": " + why};
  return values;
}

}  // namespace holdfast::bench
