#include "bench/serve_run/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/lib/stats.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

using nlohmann::json;

constexpr int kPatienceS = 600;  // for the next byte: a long prompt on a small machine

/// The body of one answer while it arrives, in chunks or with a length.
class Answer {
 public:
  explicit Answer(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{kPatienceS, 0};
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~Answer() { close(fd_); }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// False: no server listens, or the connection broke.
  bool ask(const std::string& request) {
    if (!connected_) return false;
    for (std::size_t at = 0; at < request.size();) {
      const ssize_t n = send(fd_, request.data() + at, request.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    std::string head;
    if (!until("\r\n\r\n", &head) || head.size() < 12) return false;
    status = std::atoi(head.c_str() + 9);
    for (char& c : head) c = static_cast<char>(std::tolower(c));
    const std::size_t length = head.find("content-length: ");
    chunked_ = length == std::string::npos;
    if (!chunked_) left_ = std::strtoull(head.c_str() + length + 16, nullptr, 10);
    return true;
  }
  /// The next chunk of the body; empty at its end.
  std::string next() {
    if (left_ == 0 && chunked_) {
      std::string size;
      if (!until("\r\n", &size) || (size.empty() && !until("\r\n", &size))) return {};
      left_ = std::strtoull(size.c_str(), nullptr, 16);
    }
    if (left_ == 0 || (in_.empty() && !fill())) return {};
    std::string chunk = in_.substr(0, left_);
    in_.erase(0, chunk.size());
    left_ -= chunk.size();
    return chunk;
  }
  std::string rest() {
    std::string all;
    for (std::string chunk = next(); !chunk.empty(); chunk = next()) all += chunk;
    return all;
  }
  int status = 0;

 private:
  bool until(const char* mark, std::string* out) {
    std::size_t at = 0;
    while ((at = in_.find(mark)) == std::string::npos) {
      if (!fill()) return false;
    }
    *out = in_.substr(0, at);
    in_.erase(0, at + std::strlen(mark));
    return true;
  }
  bool fill() {
    char buffer[16'384];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    if (n <= 0) return false;
    in_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  int fd_;
  bool connected_ = false, chunked_ = false;
  std::size_t left_ = 0;
  std::string in_;
};

std::string request_text(const Endpoint& to, const std::string& what, const std::string& body) {
  std::string out = what + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n";
  if (!to.key.empty()) out += "Authorization: Bearer " + to.key + "\r\n";
  if (!body.empty()) {
    out +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return out + "\r\n" + body;
}

/// Takes an event's usage; true if the event has text.
bool take_event(const json& event, Answered& out) {
  const auto usage = event.find("usage");
  if (usage != event.end() && usage->is_object()) {
    out.tokens = usage->value("completion_tokens", std::int64_t{0});
    out.prompt_tokens = usage->value("prompt_tokens", std::int64_t{0});
  }
  const auto choices = event.find("choices");
  if (choices == event.end() || choices->empty()) return false;
  const auto text = (*choices)[0].find("text");
  return text != (*choices)[0].end() && text->is_string() && !text->get<std::string>().empty();
}

}  // namespace

Result<Endpoint> open_endpoint(const std::string& name, const std::string& url,
                               const std::string& key) {
  Endpoint out;
  out.name = name;
  out.key = key;
  const std::size_t colon = url.rfind(':');
  const bool loopback =
      url.rfind("http://127.0.0.1:", 0) == 0 || url.rfind("http://localhost:", 0) == 0;
  if (loopback) out.port = std::atoi(url.c_str() + colon + 1);
  if (out.port <= 0 || out.port > 65'535) {
    return Error{Errc::kUsage, url + ": expected http://127.0.0.1:PORT"};
  }
  Answer answer(out.port);
  if (!answer.ask(request_text(out, "GET /v1/models", ""))) {
    return Error{Errc::kIo, url + ": nobody answers"};
  }
  const json models = try_parse_json<json>(answer.rest());
  if (answer.status != 200 || !models.is_object() || models.value("data", json::array()).empty()) {
    return Error{Errc::kIo, url + ": /v1/models names no model (status " +
                                std::to_string(answer.status) + ")"};
  }
  out.model = models["data"][0].value("id", "");
  return out;
}

namespace {

/// Takes the events of a stream apart and notes when tokens came.
class StreamClock {
 public:
  explicit StreamClock(std::int64_t begin_us) : begin_us_(begin_us) {}

  /// Takes the lines of the chunk that are whole. Returns the line that is an error, if any.
  std::string feed(const std::string& chunk, Answered& out) {
    in_ += chunk;
    for (std::size_t end = 0; (end = in_.find('\n')) != std::string::npos;) {
      const std::string line = in_.substr(0, end);
      in_.erase(0, end + 1);
      if (line.rfind("data: {", 0) != 0) continue;
      const json event = try_parse_json<json>(line.substr(6));
      if (!event.is_object() || event.contains("error")) return line;
      if (take_event(event, out)) note_time(out);
    }
    return {};
  }

 private:
  void note_time(Answered& out) {
    const std::int64_t now = now_us();
    if (last_us_ == 0) out.first_ms = static_cast<double>(now - begin_us_) / 1000;
    if (last_us_ != 0) out.gap_ms.push_back(static_cast<double>(now - last_us_) / 1000);
    last_us_ = now;
  }

  const std::int64_t begin_us_;
  std::int64_t last_us_ = 0;  // of the tokens before; 0: none
  std::string in_;            // a line that has only begun
};

}  // namespace

Result<Answered> complete(const Endpoint& to, const std::vector<std::int32_t>& prompt,
                          std::int64_t max_tokens) {
  const json body = {{"model", to.model},
                     {"prompt", prompt},
                     {"max_tokens", max_tokens},
                     {"temperature", 0.8},
                     {"seed", 1},
                     {"ignore_eos", true},
                     {"stream", true},
                     {"cache_prompt", false},
                     {"stream_options", {{"include_usage", true}}}};
  Answered out;
  const std::int64_t begin = now_us();
  Answer answer(to.port);
  if (!answer.ask(request_text(to, "POST /v1/completions", body.dump()))) {
    return Error{Errc::kIo, to.name + ": no answer: " + std::strerror(errno)};
  }
  if (answer.status != 200) {
    return Error{Errc::kIo,
                 to.name + ": status " + std::to_string(answer.status) + ": " + answer.rest()};
  }
  StreamClock clock(begin);
  for (std::string chunk = answer.next(); !chunk.empty(); chunk = answer.next()) {
    const std::string wrong = clock.feed(chunk, out);
    if (!wrong.empty()) return Error{Errc::kIo, to.name + ": " + wrong};
  }
  out.total_ms = static_cast<double>(now_us() - begin) / 1000;
  if (out.tokens == 0) return Error{Errc::kIo, to.name + ": the stream ended without usage"};
  return out;
}

}  // namespace holdfast::bench
