#include "tests/process/chaos_faults.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "shared/base/check.h"
#include "shared/base/crash_point.h"

namespace holdfast::process {
namespace {

using SteadyClock = std::chrono::steady_clock;
using nlohmann::json;

constexpr int kPatienceMs = 30'000;
constexpr int kTries = 4;
constexpr const char* kSpare = "spare";  // a second model, to be loaded and unloaded

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

bool begins(std::string_view text, std::string_view with) {
  return text.rfind(with, 0) == 0;
}

}  // namespace

ClientProcess::ClientProcess(std::string endpoint, std::string specs_path, std::string log_prefix)
    : endpoint_(std::move(endpoint)),
      specs_path_(std::move(specs_path)),
      log_prefix_(std::move(log_prefix)) {}

ClientProcess::~ClientProcess() {
  if (pid_ > 0) stop();
}

void ClientProcess::start() {
  logs_.push_back(log_prefix_ + std::to_string(logs_.size()));
  const std::string seed = std::to_string(1'000 + logs_.size());
  std::vector<std::string> args = {"/proc/self/exe", "--client", endpoint_, specs_path_,
                                   logs_.back(),     seed,       "2"};
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execv(argv[0], argv.data());
  _exit(127);
}

void ClientProcess::kill_and_restart() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  start();
}

void ClientProcess::pause(int ms) {
  kill(pid_, SIGSTOP);
  sleep_ms(ms);
  kill(pid_, SIGCONT);
}

bool ClientProcess::stop() {
  kill(pid_, SIGTERM);
  const auto until = SteadyClock::now() + std::chrono::seconds(60);
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (SteadyClock::now() > until) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      pid_ = 0;
      return false;
    }
    sleep_ms(5);
  }
  pid_ = 0;
  return true;
}

Faults::Faults(TestServer& server, std::vector<std::string> flags, ClientProcess& client,
               std::string crash_file, std::uint64_t seed)
    : server_(server),
      flags_(std::move(flags)),
      client_(client),
      crash_file_(std::move(crash_file)),
      random_(seed),
      url_(server.url()) {}

std::string Faults::url() const {
  const std::lock_guard lock(mutex_);
  return url_;
}

bool Faults::wait_for(const std::function<bool()>& done, int patience_ms) const {
  const auto until = SteadyClock::now() + std::chrono::milliseconds(patience_ms);
  while (!done()) {
    if (SteadyClock::now() > until) return false;
    sleep_ms(2);
  }
  return true;
}

/// The verb's result, empty if it was refused or not answered: the daemon may die now.
std::string Faults::operate(const std::string& verb, const std::string& args) const {
  client::Options options;
  options.timeout = std::chrono::seconds(5);
  const auto client =
      client::Client::connect("ipc://" + server_.state() + "/run/operator.sock", options).value();
  const auto answer = client->op(client::AllTenants::local(), verb, args);
  const auto* text = std::get_if<std::string>(&answer);
  return text != nullptr ? *text : "";
}

std::string Faults::kill_role(const std::string& role) {
  if (role == "supervisor") return kill_supervisor();
  if (role == "client") {
    client_.kill_and_restart();
  } else {
    pid_t before = 0;
    if (!wait_for([&] { return (before = server_.pid_of(role)) > 0; }, kPatienceMs)) {
      return role + " is not running";
    }
    kill(before, SIGKILL);
    const auto is_back = [&] {
      const pid_t now = server_.pid_of(role);
      return now > 0 && now != before;
    };
    if (!wait_for(is_back, kPatienceMs)) return role + " was not started again";
  }
  ++kills_[role];
  return "";
}

bool Faults::restart_server() {
  if (!server_.start(flags_)) return false;
  const std::lock_guard lock(mutex_);
  url_ = server_.url();
  return true;
}

std::string Faults::kill_supervisor() {
  server_.kill_supervisor();
  ++kills_["supervisor"];
  return restart_server() ? "" : "the house did not start again: " + server_.errors();
}

void Faults::pause_role(const std::string& role, int ms) {
  if (role == "client") {
    client_.pause(ms);
  } else {
    const pid_t pid = role == "supervisor" ? server_.supervisor_pid() : server_.pid_of(role);
    if (pid <= 0) return;
    kill(pid, SIGSTOP);
    sleep_ms(ms);
    kill(pid, SIGCONT);
  }
  ++pauses_[role];
}

std::string Faults::arm(std::string_view point, int passes) {
  const std::string program(point.substr(0, point.find('.')));
  const std::string path = crash_file_ + "." + program;
  std::ofstream(path + ".new") << point << ":" << passes << "\n";
  CHECK(std::rename((path + ".new").c_str(), path.c_str()) == 0);
  return program;
}

bool Faults::claimed(const std::string& program) const {
  return access((crash_file_ + "." + program).c_str(), F_OK) != 0;
}

int Faults::fired(std::string_view point) const {
  std::istringstream lines(read_file(crash_file_ + ".fired"));
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    count += begins(line, std::string(point) + " ") ? 1 : 0;
  }
  return count;
}

/// Sends SIGTERM, once the process has come so far that this is an orderly stop.
void Faults::stop_orderly(const std::string& role) const {
  const pid_t pid = server_.pid_of(role);
  const std::string mark = "\"pid\":" + std::to_string(pid) + ",";
  // The status has the pids of all children from their first moment: a worker is there once it is
  // in the list of workers, the daemon once it answers.
  const char* verb = begins(role, "worker") ? "workers.list" : "status";
  (void)wait_for([&] { return operate(verb, "{}").find(mark) != std::string::npos; }, kPatienceMs);
  kill(pid, SIGTERM);
}

/// Does once what a busy server does not do by itself to pass a point.
void Faults::begin_way_to(std::string_view point) {
  if (begins(point, "daemon.stop.")) stop_orderly("daemon");
  if (point == "worker.stop.asked") stop_orderly("worker-0");
  if (begins(point, "ingress.") && point != "ingress.hello.sent") {
    (void)kill_role("ingress-1");  // the older helper gets the next jobs
  }
}

/// Does the same for points that may need it more than once.
void Faults::nudge(std::string_view point) {
  if (begins(point, "worker.adopt")) {
    sleep_ms(100);  // the new worker must have something to adopt
    (void)kill_role("daemon");
  } else if (begins(point, "daemon.commit_requeue.") || begins(point, "daemon.commit_model.")) {
    sleep_ms(100);  // the worker must be there, with work
    (void)kill_role("worker-1");
  } else if (point == "daemon.sent.refused") {
    client::Options options;
    options.timeout = std::chrono::seconds(2);
    const auto client =
        client::Client::connect("ipc://" + server_.state() + "/run/clients.sock", options).value();
    wire::Submit submit = make_submit("x", 1, 1);
    submit.model = "nobody";
    (void)client->submit(client::Principal::local(), submit);
  } else if (point == "worker.unload.read") {
    if (!spare_loaded_) {
      operate("models.add", json{{"name", kSpare}, {"path", demo_model()}, {"load", true}}.dump());
    } else {
      operate("models.unload", json{{"name", kSpare}}.dump());
    }
    spare_loaded_ = !spare_loaded_;
    sleep_ms(100);
  } else if (begins(point, "ingress.inspect")) {
    // A known name with this path needs no inspection.
    const std::string name = "other-" + std::to_string(++others_);
    operate("models.add", json{{"name", name}, {"path", demo_model()}}.dump());
    operate("models.remove", json{{"name", name}}.dump());
  }
}

std::string Faults::die_at(std::string_view point) {
  const int before = fired(point);
  if (begins(point, "supervisor.")) return die_at_supervisor(point, before);
  // Other points are passed seldom or once in a process's life: it dies at the first pass.
  static const std::vector<std::string_view> often = {
      "daemon.commit_accept", "daemon.commit_dispatch",
      "daemon.commit_tokens", "daemon.commit_end",
      "daemon.commit.inside", "daemon.sent.accepted",
      "daemon.sent.dispatch", "daemon.sent.event",
      "daemon.sent.ack",      "daemon.sent.fin",
      "worker.step",          "worker.tokens",
      "worker.dispatch",      "worker.ack",
      "ingress.prepare",      "ingress.answer",
      "gateway.event",        "gateway.submit",
      "gateway.fin"};
  int passes = 1;
  for (const std::string_view name : often) {
    if (begins(point, name)) passes = 1 + static_cast<int>(random_() % 20);
  }
  // Passed once at the start, then when the log has grown.
  if (begins(point, "daemon.checkpoint.")) passes = 1 + static_cast<int>(random_() % 2);
  if (begins(point, "gateway.")) passes = std::min(passes, 3);
  // A process may just not pass a point of its first moments: then another one tries.
  for (int i = 0; i < kTries; ++i) {
    const std::string wrong = try_to_die_at(point, passes, before);
    if (!wrong.empty()) return wrong;
    if (fired(point) == before) continue;
    ++deaths_[std::string(point)];
    return "";
  }
  return "the place was not passed " + std::to_string(passes) + " times";
}

/// Arms one process and waits for it to die. An error only if that could not be tried.
std::string Faults::try_to_die_at(std::string_view point, int passes, int before) {
  const std::string program = arm(point, passes);
  const std::string role = program == "worker" || program == "ingress" ? program + "-0" : program;
  if (const std::string wrong = kill_role(role); !wrong.empty()) return wrong;
  if (!wait_for([&] { return claimed(program); }, kPatienceMs)) return "nobody was armed";
  begin_way_to(point);
  nudge(point);
  auto last_nudge = SteadyClock::now();
  (void)wait_for(
      [&] {
        if (fired(point) > before) return true;
        if (SteadyClock::now() - last_nudge > std::chrono::milliseconds(500)) {
          nudge(point);
          last_nudge = SteadyClock::now();
        }
        return false;
      },
      kPatienceMs / kTries);
  return "";
}

std::string Faults::die_at_supervisor(std::string_view point, int before) {
  arm(point, point == "supervisor.spawned" ? 1 + static_cast<int>(random_() % 5) : 1);
  server_.kill_supervisor();
  ++kills_["supervisor"];
  if (restart_server()) {
    // The supervisor is up and armed: the point where it dies is still to come.
    if (begins(point, "supervisor.stop.")) {
      server_.stop();
    } else {
      kill(server_.pid_of("gateway"), SIGKILL);
      if (!wait_for([&] { return fired(point) > before; }, kPatienceMs)) return "not passed";
      server_.kill_supervisor();  // it is dead; this collects its status
    }
  }
  if (fired(point) <= before) return "the supervisor did not die there: " + server_.errors();
  ++deaths_[std::string(point)];
  return restart_server() ? "" : "the house did not start again: " + server_.errors();
}

}  // namespace holdfast::process
