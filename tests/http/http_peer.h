#pragma once
// Both sides of the wire: a gateway in this process over a fake daemon, and a blocking HTTP client
// that sends exactly the bytes that a test gives it.

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control/gateway/dialects.h"
#include "control/gateway/router.h"
#include "tests/http/fake_client.h"

struct ssl_st;  // OpenSSL's SSL

namespace holdfast::test {

struct Reply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  bool complete = false;
};

struct SseEvent {
  std::string id;
  std::string data;
};
/// Returns the events of a stream as a browser reads them (comments skipped).
std::vector<SseEvent> parse_events(const std::string& body);
/// Returns the text of choice `choice` in the chunks of either endpoint.
std::string text_of(const std::vector<SseEvent>& events, int choice);

/// One connection. Reads time out after 20 s: the test then fails with an incomplete reply.
class Peer {
 public:
  explicit Peer(const std::string& address);
  ~Peer();
  Peer(const Peer&) = delete;
  void send(const std::string& bytes);
  Reply read_reply(bool head_request = false);
  /// Reads the head and then until `text` has appeared in the body.
  Reply read_until(const std::string& text);
  /// Reads on after read_until, until `text` has appeared; the whole rest without one.
  std::string read_on(const std::string& text = {});
  /// Reads only the head of an answer after which another protocol follows.
  Reply read_upgrade();
  /// Returns `n` bytes as they come; fewer if the server has closed.
  std::string read_bytes(std::size_t n);
  /// Reads what is left. Returns true if the server has closed.
  bool closed();
  void shut();
  /// Starts TLS, trusting `cert` (PEM) alone; returns false if the handshake fails. `version` is
  /// the newest that this side supports (TLS1_2_VERSION …), 0: any; `ciphers` those of TLS 1.2,
  /// empty: any.
  bool start_tls(const std::string& cert, int version = 0, const std::string& ciphers = {});
  void small_receive_buffer();

 private:
  bool fill();
  bool read_head(Reply* reply);
  bool read_chunk(std::string* out, bool* last);
  int fd_ = -1;
  std::shared_ptr<ssl_st> tls_;
  bool ended_ = false;  // the server has closed
  std::string in_;
};

std::string get(const std::string& path, const std::string& headers = "");
std::string post(const std::string& path, const std::string& body, const std::string& headers = "");

class Gateway {
 public:
  explicit Gateway(gateway::ServerLimits limits = {},
                   std::shared_ptr<gateway::TlsIdentity> tls = nullptr, gateway::Cors cors = {});
  ~Gateway();
  Reply ask(const std::string& request);
  std::string address() const { return server_->address(); }
  void stop() { server_->stop(drain_time_); }
  void join();
  gateway::Server& server() { return *server_; }
  gateway::Context& context() { return *context_; }

 private:
  const std::chrono::milliseconds drain_time_;
  std::unique_ptr<gateway::Server> server_;

 public:
  FakeClient client;

 private:
  gateway::ObjectStore object_store_{client};
  std::unique_ptr<gateway::Context> context_;
  gateway::Context* serving_ = nullptr;  // the same
  std::thread thread_;
  int next_id_ = 0;
};

}  // namespace holdfast::test
