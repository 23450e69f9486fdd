#include "ops/serve/serve_control.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "ops/serve/daemon.h"
#include "shared/base/clock.h"
#include "shared/base/json_text.h"
#include "shared/client/api_key.h"
#include "shared/client/client.h"

namespace holdfast::cli {

using nlohmann::json;
using namespace std::chrono_literals;

struct ServeControl::Shared {
  ServeOptions options;
  mutable std::mutex mutex;
  std::condition_variable changed;
  Report report;                // under mutex
  pid_t daemon_pid = 0;         // under mutex
  std::deque<WorkerEnd> exits;  // under mutex
  bool stop = false;            // under mutex

  bool stopping() const {
    const std::lock_guard lock(mutex);
    return stop;
  }
  void set_phase(Phase phase) {
    const std::lock_guard lock(mutex);
    report.phase = phase;
  }
};

namespace {

using Shared = ServeControl::Shared;

std::unique_ptr<client::Client> connect(const Shared& shared, std::chrono::milliseconds timeout) {
  client::Options options;
  options.timeout = timeout;
  auto client = client::Client::connect(operator_endpoint(shared.options.state_dir), options);
  return client ? std::move(client).value() : nullptr;
}

/// The verb's result; nullopt, and `failure` is set, if it was refused or not answered.
std::optional<json> ask(client::Client& client, const std::string& verb, const json& args,
                        client::Failure& failure) {
  const auto answer = client.op(client::AllTenants::local(), verb, args.dump());
  if (const auto* failed = std::get_if<client::Failure>(&answer)) {
    failure = *failed;
    return std::nullopt;
  }
  json result = try_parse_json<json>(std::get<std::string>(answer));
  if (result.is_discarded()) result = json::object();
  return result;
}

std::int64_t pid_in_status(const json& status) {
  if (status.contains("pid") && status["pid"].is_number()) return status["pid"].get<std::int64_t>();
  if (status.contains("daemon") && status["daemon"].is_object()) {
    return status["daemon"].value("pid", std::int64_t{0});
  }
  return 0;
}

void wait_for_daemon(Shared& shared) {
  while (!shared.stopping()) {
    if (!daemon_listens(shared.options.state_dir, 50ms)) {
      std::this_thread::sleep_for(20ms);
      continue;
    }
    const auto client = connect(shared, 2s);
    client::Failure failure;
    const auto status = client ? ask(*client, "status", json::object(), failure) : std::nullopt;
    if (!status) continue;
    const std::int64_t pid = pid_in_status(*status);
    {
      const std::lock_guard lock(shared.mutex);
      if (pid == 0 || pid == shared.daemon_pid) return;
    }
    std::this_thread::sleep_for(50ms);  // an older daemon still holds the socket
  }
}

bool is_transient(const client::Failure& failure) {
  return failure.code == Errc::kUnreachable || failure.code == Errc::kTimeout;
}

/// Registers a model and asks for its load; an empty string, or the reason why not.
std::string register_model(Shared& shared, client::Client& client, const ServedModel& model) {
  json args = {{"name", model.name}, {"path", model.path}, {"load", true}};
  if (model.context > 0) args["context"] = model.context;
  if (shared.options.context > 0) args["context"] = shared.options.context;
  if (!model.profile.empty()) args["profile"] = try_parse_json<json>(model.profile);
  if (!shared.options.kv_type.empty()) args["kv_type"] = shared.options.kv_type;
  if (!shared.options.engine_options.empty()) args["options"] = shared.options.engine_options;
  client::Failure failure;
  while (!shared.stopping()) {
    if (ask(client, "models.add", args, failure)) return "";
    if (!is_transient(failure)) return "model " + model.name + ": " + failure.message;
  }
  return "";
}

/// True if no key is valid: other machines are then refused, whatever they send.
bool has_no_key(client::Client& client) {
  client::Failure failure;
  const auto found =
      ask(client, "objects.list",
          {{"kind", client::kKeyKind}, {"order", "newest"}, {"limit", 1000}}, failure);
  if (!found || !found->contains("objects")) return false;
  const std::int64_t now_ms = system_clock().wall_ms();
  const json& objects = found->at("objects");
  return std::none_of(objects.begin(), objects.end(), [&](const json& object) {
    const json& body = object.at("body");
    const std::int64_t expires_ms = body.value("expires_ms", std::int64_t{0});
    return body.value("revoked_ms", std::int64_t{0}) == 0 &&
           (expires_ms == 0 || expires_ms > now_ms);
  });
}

struct ModelView {
  std::string state;
  std::string reason;
  double progress = -1;
};

ModelView view_of(const json& row) {
  ModelView view;
  view.state = row.value("state", "");
  if (row.contains("reason") && row["reason"].is_string()) view.reason = row["reason"];
  if (row.contains("progress") && row["progress"].is_number()) view.progress = row["progress"];
  return view;
}

std::map<std::string, ModelView> view_models(const json& listed) {
  std::map<std::string, ModelView> out;
  const json& rows = listed.is_object() && listed.contains("models") ? listed["models"] : listed;
  if (!rows.is_array()) return out;
  for (const json& row : rows) {
    if (row.is_object()) out[row.value("name", "")] = view_of(row);
  }
  return out;
}

void draw_progress(const Shared& shared, const std::map<std::string, ModelView>& models) {
  if (!shared.options.progress) return;
  std::string line;
  for (const ServedModel& model : shared.options.models) {
    const auto it = models.find(model.name);
    if (it == models.end()) continue;
    line += (line.empty() ? "" : ", ") + model.name + ": " + it->second.state;
    if (it->second.progress >= 0 && it->second.state == "loading") {
      line += " " + std::to_string(static_cast<int>(it->second.progress * 100)) + "%";
    }
  }
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
}

/// Takes models that are ready or have failed out of `open`; adds the reasons of the failed ones.
void close_ended(const std::map<std::string, ModelView>& models, std::vector<ServedModel>& open,
                 std::vector<std::string>& errors) {
  for (auto it = open.begin(); it != open.end();) {
    const auto view = models.find(it->name);
    const std::string state = view == models.end() ? "" : view->second.state;
    if (state == "failed") {
      errors.push_back("model " + it->name + ": failed to load: " + view->second.reason);
    }
    it = state == "ready" || state == "failed" ? open.erase(it) : it + 1;
  }
}

/// Waits until every model is ready or failed; returns the reasons of the failed ones.
std::vector<std::string> watch_models(Shared& shared, client::Client& client,
                                      std::vector<ServedModel> open) {
  std::vector<std::string> errors;
  while (!open.empty() && !shared.stopping()) {
    client::Failure failure;
    const auto listed = ask(client, "models.list", json::object(), failure);
    if (listed) {
      const auto models = view_models(*listed);
      draw_progress(shared, models);
      close_ended(models, open, errors);
    }
    if (!open.empty()) std::this_thread::sleep_for(50ms);
  }
  if (shared.options.progress) std::fprintf(stderr, "\r\033[K");
  return errors;
}

/// True if the gateway answers on the address (the socket alone says nothing: it is ours). A
/// gateway with HTTPS answers plain HTTP too: with the reason why not.
bool probe_http(const std::string& url) {
  const std::string address = url.substr(url.find("://") + 3);
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0)
    return false;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{2, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string answer(64, '\0');
  ssize_t n = -1;
  if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0) {
    const std::string request =
        "GET /health/live HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
    if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      n = recv(fd, answer.data(), answer.size(), 0);
    }
  }
  freeaddrinfo(found);
  if (fd >= 0) close(fd);
  return n >= 8 && answer.rfind("HTTP/1.", 0) == 0;
}

/// Registers all models and waits for them. Returns the reasons of the failed ones.
std::vector<std::string> load_models(Shared& shared, client::Client& client) {
  std::vector<std::string> errors;
  std::vector<ServedModel> accepted;
  for (const ServedModel& model : shared.options.models) {
    const std::string error = register_model(shared, client, model);
    if (error.empty()) {
      accepted.push_back(model);
    } else {
      errors.push_back(error);
    }
  }
  for (const std::string& error : watch_models(shared, client, accepted)) errors.push_back(error);
  return errors;
}

/// Waits until the gateway answers. Returns false if the wait was ended.
bool wait_for_http(const Shared& shared) {
  while (!shared.options.http_url.empty() && !probe_http(shared.options.http_url)) {
    if (shared.stopping()) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

void start_models(const std::shared_ptr<Shared>& shared) {
  wait_for_daemon(*shared);
  const auto client = connect(*shared, 120s);  // a large file is hashed at registration
  if (client != nullptr) {
    const bool keyless = has_no_key(*client);
    const std::lock_guard lock(shared->mutex);
    shared->report.keyless = keyless;
  }
  shared->set_phase(ServeControl::Phase::kModelsLoading);
  if (client == nullptr) return;
  const std::vector<std::string> errors = load_models(*shared, *client);
  if (!wait_for_http(*shared)) return;
  const std::lock_guard lock(shared->mutex);
  using Phase = ServeControl::Phase;
  const bool all_failed = !errors.empty() && errors.size() == shared->options.models.size();
  shared->report.phase = errors.empty() ? Phase::kReady
                         : all_failed   ? Phase::kFailed
                                        : Phase::kDegraded;
  shared->report.errors = errors;
}

/// Reports to the daemon how workers ended, in order, each until it is acknowledged: blame depends
/// on it.
void report_exits(const std::shared_ptr<Shared>& shared) {
  std::unique_ptr<client::Client> client;
  while (true) {
    WorkerEnd end;
    {
      std::unique_lock lock(shared->mutex);
      shared->changed.wait(lock, [&] { return shared->stop || !shared->exits.empty(); });
      if (shared->stop) return;
      end = shared->exits.front();
    }
    if (client == nullptr) client = connect(*shared, 10s);
    client::Failure failure;
    const json args = worker_end_json(end);
    const bool delivered =
        client != nullptr &&
        (ask(*client, "supervisor.worker_exit", args, failure) || !is_transient(failure));
    if (!delivered) {
      std::this_thread::sleep_for(20ms);
      continue;
    }
    const std::lock_guard lock(shared->mutex);
    shared->exits.pop_front();
  }
}

/// Looks once a second which numerics classes requests are bound to.
void watch_bound(const std::shared_ptr<Shared>& shared) {
  WorkerPrograms programs(shared->options.programs);
  wait_for_daemon(*shared);
  std::unique_ptr<client::Client> client;
  for (; !shared->stopping(); std::this_thread::sleep_for(1s)) {
    if (client == nullptr) client = connect(*shared, 2s);
    if (client == nullptr) continue;
    const auto answer = client->op(client::AllTenants::local(), "queue.stats", "{}");
    const auto* document = std::get_if<std::string>(&answer);
    if (document == nullptr) {
      client.reset();
      continue;
    }
    std::vector<BoundClass> bound = read_bound(*document, programs);
    const std::lock_guard lock(shared->mutex);
    shared->report.bound = std::move(bound);
  }
}

}  // namespace

ServeControl::ServeControl(ServeOptions options) : shared_(std::make_shared<Shared>()) {
  shared_->options = std::move(options);
  std::thread([shared = shared_] { start_models(shared); }).detach();
  std::thread([shared = shared_] { report_exits(shared); }).detach();
  std::thread([shared = shared_] { watch_bound(shared); }).detach();
}

ServeControl::~ServeControl() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
}

void ServeControl::set_daemon_pid(pid_t pid) {
  const std::lock_guard lock(shared_->mutex);
  shared_->daemon_pid = pid;
}

void ServeControl::worker_exited(WorkerEnd end) {
  const std::lock_guard lock(shared_->mutex);
  shared_->exits.push_back(std::move(end));
  shared_->changed.notify_all();
}

ServeControl::Report ServeControl::report() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->report;
}

std::int64_t ServeControl::drain_limit_ms() const {
  constexpr std::int64_t kOtherwise = 10'000;  // as a new database has it
  const auto client = connect(*shared_, 1s);
  client::Failure failure;
  const auto knob =
      client ? ask(*client, "config.get", {{"name", "drain.limit_ms"}}, failure) : std::nullopt;
  if (!knob || !knob->contains("effective") || !knob->at("effective").is_number_integer()) {
    return kOtherwise;
  }
  return knob->at("effective").get<std::int64_t>();
}

}  // namespace holdfast::cli
