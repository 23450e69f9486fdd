#include "tests/process/record_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "shared/base/base64.h"
#include "shared/base/check.h"

namespace holdfast::process {
namespace {

using nlohmann::json;

constexpr auto kLateMost = std::chrono::milliseconds(1'000);  // the programs wait 1.2 s

/// The path and the body of a request; an empty path: none came whole.
std::pair<std::string, std::string> read_request(int fd) {
  std::string in;
  std::size_t head = std::string::npos;
  std::size_t length = 0;
  while (head == std::string::npos || in.size() < head + 4 + length) {
    char buffer[4096];
    pollfd ready{fd, POLLIN, 0};
    const ssize_t n = poll(&ready, 1, 5'000) > 0 ? recv(fd, buffer, sizeof buffer, 0) : 0;
    if (n <= 0) return {};
    in.append(buffer, static_cast<std::size_t>(n));
    head = in.find("\r\n\r\n");
    const std::size_t header = in.find("Content-Length: ");
    length = header < head ? std::strtoull(in.c_str() + header + 16, nullptr, 10) : 0;
  }
  const std::size_t path = in.find(' ') + 1;
  return {in.substr(path, in.find(' ', path) - path), in.substr(head + 4)};
}

}  // namespace

/// A port of loopback and the thread that answers at it.
struct RecordServer::Listener {
  int fd = -1;
  int port = 0;
  bool late = false;
  std::thread thread;

  explicit Listener(bool is_late) : late(is_late) {
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    CHECK(bind(fd, reinterpret_cast<sockaddr*>(&at), size) == 0);
    CHECK(listen(fd, 16) == 0);
    CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    port = ntohs(at.sin_port);
  }
  std::string address() const { return "http://127.0.0.1:" + std::to_string(port) + "/holdfast"; }
};

RecordServer::RecordServer()
    : listener_(std::make_unique<Listener>(false)),
      late_listener_(std::make_unique<Listener>(true)) {
  for (Listener* one : {listener_.get(), late_listener_.get()}) {
    one->thread = std::thread([this, one] { run(*one); });
  }
}

RecordServer::~RecordServer() {
  stop_ = true;
  for (Listener* one : {listener_.get(), late_listener_.get()}) {
    one->thread.join();
    close(one->fd);
  }
}

std::string RecordServer::address() const {
  return listener_->address();
}

std::string RecordServer::late_address(std::function<void()> on_change) {
  on_change_ = std::move(on_change);
  return late_listener_->address();
}

std::string RecordServer::text() {
  const std::lock_guard lock(mutex_);
  return from_base64(value_).value_or("");
}

void RecordServer::run(const Listener& listener) {
  while (!stop_) {
    pollfd ready{listener.fd, POLLIN, 0};
    if (poll(&ready, 1, 20) <= 0) continue;
    const int fd = accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    serve(fd, listener.late);
    close(fd);
  }
}

void RecordServer::serve(int fd, bool late) {
  const auto [path, body] = read_request(fd);
  if (path.empty() || (!late && refuse_)) return;
  const json question = json::parse(body, nullptr, false);
  const json document = late ? answer_late(path, question) : answer(path, question);
  if (document.is_null()) return;
  const std::string text = document.dump();
  const std::string reply =
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(text.size()) + "\r\nConnection: close\r\n\r\n" + text;
  (void)send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
}

/// A change that was carried out is answered once another one came after it.
json RecordServer::answer_late(const std::string& path, const json& question) {
  json done = answer(path, question);
  if (late_answered_ || path != "/v3/kv/txn" || !done.at("succeeded").get<bool>()) return done;
  const std::string written = text();
  if (on_change_) std::exchange(on_change_, nullptr)();
  const auto until = std::chrono::steady_clock::now() + kLateMost;
  while (text() == written) {
    if (stop_ || std::chrono::steady_clock::now() > until) return {};
    usleep(2'000);
  }
  late_answered_ = true;
  return done;
}

json RecordServer::answer(const std::string& path, const json& question) {
  const std::lock_guard lock(mutex_);
  if (path == "/v3/kv/range") {
    if (revision_ == 0) return json::object();
    const json pair = {{"mod_revision", std::to_string(revision_)}, {"value", value_}};
    return {{"kvs", json::array({pair})}};
  }
  CHECK(path == "/v3/kv/txn");
  const json& condition = question.at("compare").at(0);
  if (condition.at("mod_revision") != std::to_string(revision_)) return {{"succeeded", false}};
  value_ = question.at("success").at(0).at("request_put").at("value").get<std::string>();
  ++revision_;
  return {{"succeeded", true}};
}

}  // namespace holdfast::process
