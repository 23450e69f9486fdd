#include "tests/process/test_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/serve/daemon.h"
#include "shared/base/check.h"
#include "shared/text/releaser.h"

namespace holdfast::process {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

std::string program(const std::string& name) {
  if (name[0] == '/') return name;
  return std::string(HOLDFAST_BIN_DIR) + "/" + name;
}

/// Starts bin/args[0] with stdout and stderr on these descriptors; it dies with the test.
pid_t spawn(const std::vector<std::string>& args, int out_fd, int err_fd) {
  std::vector<std::string> text = args;
  text[0] = program(args[0]);
  std::vector<char*> argv;
  for (std::string& arg : text) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("NO_COLOR", "1", 1);
  unsetenv("HOLDFAST_STATE");
  dup2(out_fd, STDOUT_FILENO);
  dup2(err_fd, STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

int decode_status(int status) {
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/// Waits for the end of a child; kills it when patience is over.
int reap(pid_t pid, int patience_s) {
  const auto until = SteadyClock::now() + std::chrono::seconds(patience_s);
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (SteadyClock::now() > until) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return decode_status(status);
}

nlohmann::json children_of(const std::string& state) {
  const auto document =
      nlohmann::json::parse(read_file(state + "/run/supervisor.json"), nullptr, false);
  return document.is_object() ? document["children"] : nlohmann::json::array();
}

std::string tail(const std::string& text, std::size_t bytes) {
  return text.size() <= bytes ? text : text.substr(text.size() - bytes);
}

}  // namespace

std::string demo_model() {
  return std::string(HOLDFAST_SOURCE_DIR) + "/ops/demo/holdfast-demo-Q8_0.gguf";
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TempDir::TempDir() {
  path_ = (fs::temp_directory_path() / "hf-test-XXXXXX").string();
  CHECK(mkdtemp(path_.data()) != nullptr);
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TempDir::write(const std::string& name, const std::string& bytes) const {
  std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

Ended run_program(const std::vector<std::string>& args, int patience_s) {
  const TempDir dir;
  const std::string out = dir.path() + "/out";
  const std::string err = dir.path() + "/err";
  const int out_fd = open(out.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const int err_fd = open(err.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const pid_t pid = spawn(args, out_fd, err_fd);
  close(out_fd);
  close(err_fd);
  Ended ended;
  ended.code = reap(pid, patience_s);
  ended.out = read_file(out);
  ended.err = read_file(err);
  return ended;
}

TestServer::~TestServer() {
  if (pid_ > 0) stop();
}

bool TestServer::start(const std::vector<std::string>& flags) {
  std::vector<std::string> args = {program_, "serve", "--state", state_};
  if (std::find(flags.begin(), flags.end(), "--http") == flags.end()) {
    args.insert(args.end(), {"--http", "127.0.0.1:0"});
  }
  args.insert(args.end(), flags.begin(), flags.end());
  fs::create_directories(state_);
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  const int err_fd =
      open((state_ + "/serve.err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  pid_ = spawn(args, ends[1], err_fd);
  close(ends[1]);
  close(err_fd);
  std::string line;
  const auto until = SteadyClock::now() + std::chrono::seconds(120);
  while (line.find('\n') == std::string::npos) {
    pollfd readable{ends[0], POLLIN, 0};
    char buffer[256];
    if (poll(&readable, 1, 100) > 0) {
      const ssize_t n = read(ends[0], buffer, sizeof buffer);
      if (n <= 0) break;
      line.append(buffer, static_cast<std::size_t>(n));
    }
    if (SteadyClock::now() > until) break;
  }
  close(ends[0]);
  if (line.rfind("ready ", 0) == 0) {
    url_ = line.substr(6, line.find('\n') - 6);
    return true;
  }
  kill(pid_, SIGTERM);
  wait_for_end(30);
  return false;
}

int TestServer::wait_for_end(int patience_s) {
  exit_code_ = reap(pid_, patience_s);
  pid_ = 0;
  return exit_code_;
}

int TestServer::stop() {
  kill(pid_, SIGTERM);
  return wait_for_end(60);
}

void TestServer::kill_supervisor() {
  kill(pid_, SIGKILL);
  wait_for_end(30);
}

std::string TestServer::errors() const {
  std::string text = "serve: " + read_file(state_ + "/serve.err");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(state_ + "/logs", ignored)) {
    text += "\n" + entry.path().filename().string() + ": … " + tail(read_file(entry.path()), 2000);
  }
  return text;
}

pid_t TestServer::pid_of(const std::string& name) const {
  for (const auto& child : children_of(state_)) {
    if (child.value("name", "") == name)
      return child["pid"].is_number() ? child["pid"].get<int>() : 0;
  }
  return 0;
}

std::int64_t TestServer::restarts_of(const std::string& name) const {
  for (const auto& child : children_of(state_)) {
    if (child.value("name", "") == name) return child.value("restarts", std::int64_t{0});
  }
  return -1;
}

bool TestServer::kill_child(const std::string& name) const {
  // The file may lag behind a restart; a pid of 0 must never reach kill().
  for (int i = 0; i < 1'000; ++i) {
    const pid_t pid = pid_of(name);
    if (pid > 0 && kill(pid, SIGKILL) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::unique_ptr<client::Client> TestServer::client() const {
  client::Options options;
  options.timeout = std::chrono::seconds(60);
  return client::Client::connect(cli::clients_endpoint(state_), options).value();
}

std::unique_ptr<client::Client> TestServer::operator_client() const {
  return client::Client::connect(cli::operator_endpoint(state_), {}).value();
}

Ended TestServer::cli(std::vector<std::string> args) const {
  std::vector<std::string> all = {program_};
  const std::vector<std::string> globals = {"--state", state_};
  all.insert(all.end(), globals.begin(), globals.end());
  all.insert(all.end(), args.begin(), args.end());
  return run_program(all);
}

std::string http_get(const std::string& url, const std::string& path) {
  const std::string address = url.substr(std::string("http://").size());
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{30, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) {
    const std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
    char buffer[4096];
    ssize_t n = send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    while (n > 0 && (n = recv(fd, buffer, sizeof buffer, 0)) > 0) {
      answer.append(buffer, static_cast<std::size_t>(n));
    }
  }
  close(fd);
  return answer;
}

wire::Submit make_submit(const std::string& prompt, std::int64_t tokens, std::uint64_t seed) {
  wire::Submit submit;
  submit.model = "demo";
  wire::Prompt one;
  one.text = prompt;
  submit.prompts.push_back(one);
  submit.max_tokens = tokens;
  submit.sampling.temperature = 1.0f;
  submit.sampling.ignore_eos = true;
  submit.sampling.seed = seed;
  submit.seed_given = true;
  return submit;
}

StreamResult submit_and_stream(client::Client& client, const wire::Submit& submit,
                               const std::function<void(std::size_t)>& on_progress) {
  StreamResult result;
  const auto fail = [&](const client::Failure& failure) {
    result.failure = std::string(errc_name(failure.code)) + ": " + failure.message;
    return result;
  };
  const auto accepted = client.submit(client::Principal::local(submit.tenant), submit);
  if (const auto* failure = std::get_if<client::Failure>(&accepted)) return fail(*failure);
  const std::string id = std::get<wire::Accepted>(accepted).info.request_id;
  text::Releaser releaser(submit.stops);
  const auto ended =
      client.stream(client::AllTenants::local(), id, {}, [&](const wire::Event& event) {
        // The SDK promises order, no gap, no repeat.
        if (event.start != static_cast<std::int64_t>(result.ids.size())) {
          result.failure = "an event starts at " + std::to_string(event.start) + " after " +
                           std::to_string(result.ids.size()) + " tokens";
        }
        result.ids.insert(result.ids.end(), event.ids.begin(), event.ids.end());
        result.text += releaser.feed(event.bytes);
        if (on_progress) on_progress(result.ids.size());
      });
  if (const auto* failure = std::get_if<client::Failure>(&ended)) return fail(*failure);
  result.info = std::get<wire::RequestInfo>(ended);
  if (!releaser.stopped()) result.text += releaser.finish();
  return result;
}

}  // namespace holdfast::process
