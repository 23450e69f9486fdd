#include "bench/neighbours_run/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/lib/stats.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

constexpr int kPatienceS = 300;  // for the next byte

/// The value of a header, whose name is in lower case; empty if it is missing.
std::string header_of(std::string head, const std::string& name) {
  std::transform(head.begin(), head.end(), head.begin(), ::tolower);
  const std::size_t at = head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 4;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

}  // namespace

std::string request_text(const std::string& method, const std::string& path, const std::string& key,
                         const std::string& body, const std::string& type) {
  std::string out = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n";
  if (!key.empty()) out += "Authorization: Bearer " + key + "\r\n";
  if (method == "POST") {
    out += "Content-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return out + "\r\n" + body;
}

std::string upload_text(const std::string& key, const std::string& content) {
  const std::string form =
      "--m\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--m\r\n"
      "Content-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n" +
      content + "\r\n--m--\r\n";
  return request_text("POST", "/v1/files", key, form, "multipart/form-data; boundary=m");
}

Connection::Connection(Connection&& other) noexcept
    : port_(other.port_),
      from_(std::move(other.from_)),
      fd_(std::exchange(other.fd_, -1)),
      in_(std::move(other.in_)),
      sent_us_(other.sent_us_) {}

bool Connection::open() {
  if (fd_ >= 0) return true;
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{kPatienceS, 0};
  const int on = 1;
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, from_.c_str(), &address.sin_addr);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  bool good = fd_ >= 0 && bind(fd_, raw, sizeof address) == 0;
  address.sin_port = htons(static_cast<std::uint16_t>(port_));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  good = good && connect(fd_, raw, sizeof address) == 0;
  if (!good) close();
  return good;
}

void Connection::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  in_.clear();
}

void Connection::send(const std::string& request) {
  if (!silent()) close();  // the other side has closed it in the meantime
  sent_us_ = now_us();
  if (!open()) return;
  for (std::size_t at = 0; at < request.size();) {
    const ssize_t n = ::send(fd_, request.data() + at, request.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return;  // there may be an answer nevertheless
    at += static_cast<std::size_t>(n);
  }
}

Answer Connection::ask(const std::string& request) {
  send(request);
  return read();
}

bool Connection::silent() const {
  pollfd readable{fd_, POLLIN, 0};
  return fd_ >= 0 && poll(&readable, 1, 0) == 0;
}

bool Connection::fill() {
  char buffer[65'536];
  const ssize_t n = fd_ < 0 ? -1 : recv(fd_, buffer, sizeof buffer, 0);
  if (n <= 0) return false;
  in_.append(buffer, static_cast<std::size_t>(n));
  return true;
}

bool Connection::until(const std::string& mark, std::string* out) {
  std::size_t at = 0;
  while ((at = in_.find(mark)) == std::string::npos) {
    if (!fill()) return false;
  }
  *out = in_.substr(0, at);
  in_.erase(0, at + mark.size());
  return true;
}

bool Connection::take(std::size_t bytes, Answer* answer) {
  while (in_.size() < bytes) {
    if (!fill()) return false;
  }
  answer->body.append(in_, 0, bytes);
  in_.erase(0, bytes);
  return true;
}

/// Finds the first token: an event's id ends with the number of tokens so far.
void Connection::look_for_token(Answer* answer) {
  if (answer->first_ms >= 0) return;
  std::istringstream lines(answer->body);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("id: ", 0) != 0 || line.ends_with(".0")) continue;
    answer->first_ms = static_cast<double>(now_us() - sent_us_) / 1000;
    return;
  }
}

Answer Connection::read() {
  Answer answer;
  std::string head;
  if (until("\r\n\r\n", &head) && head.size() > 12) {
    answer.status = std::atoi(head.c_str() + 9);
    const std::string length = header_of(head, "content-length");
    if (!length.empty()) answer.complete = take(std::stoul(length), &answer);
    std::string size;
    while (length.empty() && !answer.complete && until("\r\n", &size)) {
      const std::size_t bytes = std::stoul(size, nullptr, 16);
      if (!take(bytes, &answer) || !until("\r\n", &size)) break;
      answer.complete = bytes == 0;
      look_for_token(&answer);
    }
  }
  answer.ms = static_cast<double>(now_us() - sent_us_) / 1000;
  if (!answer.complete || header_of(head, "connection") == "close") close();
  return answer;
}

std::string streamed_text(const std::string& body) {
  std::istringstream lines(body);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("data: {", 0) != 0) continue;
    const auto event = try_parse_json<nlohmann::json>(line.substr(6));
    const nlohmann::json::json_pointer at("/choices/0/text");
    if (event.contains(at) && event[at].is_string()) text += event[at].get<std::string>();
  }
  return text;
}

}  // namespace holdfast::bench
