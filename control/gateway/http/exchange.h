#pragma once
// One request and its answer. The endpoints see only this: no socket, no Asio.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "control/gateway/http/http_types.h"

namespace holdfast::gateway {

/// The route of a request, as the router's table writes it: from a small set, for counting.
struct RouteName {
  std::string_view method = "other";
  std::string_view pattern = "none";
};

/// Events of a WebSocket. They run on the connection's strand.
struct SocketEvents {
  std::function<void(std::string text)> on_text;  // the message that read_next() asked for
  std::function<void()> on_stop;                  // the server stops: close soon
  std::function<void()> on_end;                   // once and last: the connection is gone
};

/// A WebSocket of text messages both ways. Runs on the connection's strand; after the end its calls
/// do nothing.
class MessageSocket {
 public:
  virtual ~MessageSocket() = default;
  /// Reads one message, and no other before the next call. Pings are answered meanwhile.
  virtual void read_next() = 0;
  virtual void send(std::string text) = 0;
  /// Closes after what was sent. `code` as in RFC 6455, 7.4.1.
  virtual void close(int code, const std::string& reason) = 0;
  /// Bytes that the client's socket has not taken yet.
  virtual std::size_t pending_bytes() const = 0;
  /// Runs `work` once, when pending_bytes() has fallen to `low`.
  virtual void on_drain(std::size_t low, std::function<void()> work) = 0;
};
using MessageSocketPtr = std::shared_ptr<MessageSocket>;

/// Receives a body in parts. The functions run on the connection's strand; none runs once the
/// request was answered or its client has left.
struct BodyParts {
  std::function<void(std::string bytes)>
      on_bytes;                  // the next ones, and no others before next_part()
  std::function<void()> on_end;  // once, after the last bytes
  // Once, in place of on_end: the rest cannot come, for a reason that the answer says.
  std::function<void(Response why)> on_failure;
};

/// An exchange of one request. All members but post() run on the connection's own strand: in the
/// handler, in callbacks of this object and in functions given to post(). After the client has
/// left, calls do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  /// Sets the request's principal, before any endpoint sees the request.
  virtual void admit(Principal principal) = 0;
  /// Replaces the body by its decoded form, before any endpoint sees the request.
  virtual void set_body(std::string body) = 0;

  /// Runs `work` on the strand, soon; may drop it once the connection is gone. Callable from any
  /// thread.
  virtual void post(std::function<void()> work) = 0;
  /// Runs `work` on the strand after `delay`, unless the answer has ended or the client left.
  virtual void after(std::chrono::milliseconds delay, std::function<void()> work) = 0;

  /// Receives the body of a request whose body comes in parts (Request::body_follows): asks for its
  /// first part. Once, before the answer, which may come before the end of the body.
  virtual void receive_body(const BodyParts&) {}
  /// Asks for the next part. The connection reads ahead a little.
  virtual void next_part() {}

  /// Answers as a whole. Either this or begin_stream, once.
  virtual void respond(Response response) = 0;

  /// Starts a stream: head, then any number of writes, then end(). `keep_alive` is written when
  /// nothing else was for ServerLimits::keep_alive_time (10 s by default).
  virtual void begin_stream(Response head, std::string keep_alive) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;
  /// Ends a stream that cannot be completed: the connection breaks off. Replaces end().
  virtual void abort() = 0;

  /// Bytes of this answer that the client's socket has not taken yet.
  virtual std::size_t pending_bytes() const = 0;
  /// Runs `work` once, when pending_bytes() has fallen to `low`.
  virtual void on_drain(std::size_t low, std::function<void()> work) = 0;
  /// Runs `work` once, if the client leaves (or is cut off) before the answer has ended.
  virtual void on_close(std::function<void()> work) = 0;
  /// Runs `work` once, if the server has to end before the answer has. It may still complete the
  /// answer; without it the connection is cut.
  virtual void on_stop(const std::function<void()>&) {}
  virtual bool closed() const = 0;
  /// Accepts a WebSocket's handshake instead of answering: the connection speaks that protocol from
  /// then on. A message of more than `bytes_max` bytes ends it. Returns null where there is no
  /// connection.
  virtual MessageSocketPtr accept_socket(const SocketEvents&, std::size_t /*bytes_max*/) {
    return nullptr;
  }
  /// Sets the name under which the request is counted and logged, before the answer. Its text must
  /// have static lifetime.
  virtual void set_route(RouteName) {}
  /// Sets headers that any answer to this request gets, before the answer.
  virtual void set_headers(const std::vector<Header>&) {}
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace holdfast::gateway
