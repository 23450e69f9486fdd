#include "tests/http/http_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shared/base/check.h"

namespace holdfast::test {

using json = nlohmann::json;

std::vector<SseEvent> parse_events(const std::string& body) {
  std::vector<SseEvent> events;
  SseEvent current;
  bool any_data = false;
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      if (any_data) events.push_back(current);
      current.data.clear();
      any_data = false;
    } else if (line.starts_with("id: ")) {
      current.id = line.substr(4);
    } else if (line.starts_with("data: ")) {
      current.data += line.substr(6);
      any_data = true;
    }
  }
  return events;
}

std::string text_of(const std::vector<SseEvent>& events, int choice) {
  std::string out;
  for (const SseEvent& event : events) {
    if (event.data == "[DONE]") continue;
    const json chunk = json::parse(event.data);
    if (!chunk.contains("choices")) continue;
    for (const json& c : chunk["choices"]) {
      if (c["index"] != choice) continue;
      if (c.contains("text")) out += c["text"].get<std::string>();
      if (c.contains("delta") && c["delta"].contains("content")) {
        out += c["delta"]["content"].get<std::string>();
      }
    }
  }
  return out;
}

Peer::Peer(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &name.sin_addr);
  fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd_ >= 0);
  const timeval limit{20, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  CHECK(::connect(fd_, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
}

Peer::~Peer() {
  shut();
}

bool Peer::start_tls(const std::string& cert, int version, const std::string& ciphers) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  BIO* pem = BIO_new_mem_buf(cert.data(), static_cast<int>(cert.size()));
  X509* trusted = PEM_read_bio_X509(pem, nullptr, nullptr, nullptr);
  CHECK(trusted != nullptr && X509_STORE_add_cert(SSL_CTX_get_cert_store(context), trusted) == 1);
  X509_free(trusted);
  BIO_free(pem);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_max_proto_version(context, version);
  SSL_CTX_set_security_level(context, 0);  // old versions too
  if (!ciphers.empty()) CHECK(SSL_CTX_set_cipher_list(context, ciphers.c_str()) == 1);
  tls_.reset(SSL_new(context), SSL_free);
  SSL_CTX_free(context);
  X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_.get()), "127.0.0.1");
  SSL_set_fd(tls_.get(), fd_);
  return SSL_connect(tls_.get()) == 1;
}

void Peer::shut() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Peer::small_receive_buffer() {
  const int size = 4096;
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

void Peer::send(const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const char* from = bytes.data() + sent;
    const std::size_t size = bytes.size() - sent;
    const ssize_t n = tls_ == nullptr ? ::send(fd_, from, size, MSG_NOSIGNAL)
                                      : SSL_write(tls_.get(), from, static_cast<int>(size));
    if (n <= 0) return;  // the server has closed: the reply says what happened
    sent += static_cast<std::size_t>(n);
  }
}

bool Peer::fill() {
  char buffer[65536];
  errno = 0;
  const ssize_t n = tls_ == nullptr ? ::recv(fd_, buffer, sizeof buffer, 0)
                                    : SSL_read(tls_.get(), buffer, sizeof buffer);
  ended_ = n <= 0 && errno != EAGAIN;  // and not only a timeout
  if (n <= 0) return false;
  in_.append(buffer, static_cast<std::size_t>(n));
  return true;
}

bool Peer::closed() {
  while (fill()) {
  }
  return ended_;
}

bool Peer::read_head(Reply* reply) {
  std::size_t end = 0;
  while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return false;
  }
  std::istringstream lines(in_.substr(0, end));
  in_.erase(0, end + 4);
  std::string line;
  std::getline(lines, line);
  reply->status = std::stoi(line.substr(9, 3));
  while (std::getline(lines, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const std::size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);
    reply->headers[name] = line.substr(colon + 2);
  }
  return true;
}

bool Peer::read_chunk(std::string* out, bool* last) {
  std::size_t eol = 0;
  while ((eol = in_.find("\r\n")) == std::string::npos) {
    if (!fill()) return false;
  }
  const std::size_t size = std::stoul(in_.substr(0, eol), nullptr, 16);
  while (in_.size() < eol + 2 + size + 2) {
    if (!fill()) return false;
  }
  out->append(in_, eol + 2, size);
  in_.erase(0, eol + 2 + size + 2);
  *last = size == 0;
  return true;
}

Reply Peer::read_reply(bool head_request) {
  Reply reply;
  if (!read_head(&reply)) return reply;
  if (reply.status == 100) return read_reply();
  if (head_request || reply.status == 304) {
    reply.complete = true;
  } else if (reply.headers.contains("content-length")) {
    const std::size_t size = std::stoul(reply.headers["content-length"]);
    while (in_.size() < size) {
      if (!fill()) return reply;
    }
    reply.body = in_.substr(0, size);
    in_.erase(0, size);
    reply.complete = true;
  } else if (reply.headers.contains("transfer-encoding")) {
    bool last = false;
    while (!last) {
      if (!read_chunk(&reply.body, &last)) return reply;
    }
    reply.complete = true;
  } else {
    while (fill()) {
    }
    reply.body = std::exchange(in_, {});
    reply.complete = true;
  }
  return reply;
}

std::string Peer::read_on(const std::string& text) {
  std::string body;
  bool last = false;
  while (!last && (text.empty() || body.find(text) == std::string::npos)) {
    if (!read_chunk(&body, &last)) break;
  }
  return body;
}

Reply Peer::read_until(const std::string& text) {
  Reply reply;
  if (!read_head(&reply)) return reply;
  bool last = false;
  while (!last && reply.body.find(text) == std::string::npos) {
    if (!read_chunk(&reply.body, &last)) return reply;
  }
  reply.complete = last;
  return reply;
}

Reply Peer::read_upgrade() {
  Reply reply;
  reply.complete = read_head(&reply);
  return reply;
}

std::string Peer::read_bytes(std::size_t n) {
  while (in_.size() < n && fill()) {
  }
  std::string out = in_.substr(0, n);
  in_.erase(0, out.size());
  return out;
}

std::string get(const std::string& path, const std::string& headers) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}

std::string post(const std::string& path, const std::string& body, const std::string& headers) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         "Content-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body;
}

Gateway::Gateway(gateway::ServerLimits limits, std::shared_ptr<gateway::TlsIdentity> tls,
                 gateway::Cors cors)
    : drain_time_(limits.drain_time) {
  context_.reset(
      new gateway::Context{client, [this] { return "req" + std::to_string(++next_id_); }, {}});
  serving_ = context_.get();
  context_->cors = std::move(cors);
  auto server = gateway::Server::listen(-1, "127.0.0.1:0", limits, gateway::make_handler(*context_),
                                        std::move(tls), gateway::make_gate(serving_));
  context_->forms = &gateway::answer_forms();
  context_->operating = &client;
  context_->object_store = &object_store_;
  context_->daemon_metrics = std::make_shared<gateway::DaemonMetrics>(client);
  CHECK(server.has_value());
  server_ = std::move(server).value();
  context_->http = server_->stats();
  thread_ = std::thread([this] { server_->run(2); });
}

void Gateway::join() {
  if (thread_.joinable()) thread_.join();
}

Gateway::~Gateway() {
  stop();
  join();
}

Reply Gateway::ask(const std::string& request) {
  Peer peer(address());
  peer.send(request);
  return peer.read_reply(request.starts_with("HEAD "));
}

}  // namespace holdfast::test
