#pragma once
// One request and its answer. The endpoints see only this: no socket, no Asio.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "control/gateway/http_types.h"

namespace holdfast::gateway {

/// What a request asked for, as the router's table writes it: one of few, for counting.
struct RouteName {
  std::string_view method = "other";
  std::string_view pattern = "none";
};

/// Events of a WebSocket, for whoever took it. On the connection's strand.
struct SocketEvents {
  std::function<void(std::string text)> on_text;  // the message that read_next() asked for
  std::function<void()> on_stop;                  // the server stops: close when you can
  std::function<void()> on_end;                   // once, last: no side hears the other any more
};

/// Messages of text both ways. On the strand; after the end calls do nothing.
class MessageSocket {
 public:
  virtual ~MessageSocket() = default;
  /// One message is read, and no other before the next call. Pings are answered in between.
  virtual void read_next() = 0;
  virtual void send(std::string text) = 0;
  /// When what was sent is out. `code` as RFC 6455, 7.4.1, has them.
  virtual void close(int code, const std::string& reason) = 0;
  /// Bytes that the client's socket has not taken yet.
  virtual std::size_t pending_bytes() const = 0;
  /// `work` runs once, when pending_bytes() has come down to `low`.
  virtual void on_drain(std::size_t low, std::function<void()> work) = 0;
};
using MessageSocketPtr = std::shared_ptr<MessageSocket>;

/// Everything but post() is called on the connection's own strand: in the handler, in callbacks of
/// this object and in functions given to post(). After the client has left, calls do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  /// Whose the request is. Before any endpoint sees it.
  virtual void admit(Principal principal) = 0;
  /// Replaces the body by what it was decoded to. Before any endpoint sees it.
  virtual void set_body(std::string body) = 0;

  /// Any thread: runs `work` on the strand, soon. Dropped if the connection is gone.
  virtual void post(std::function<void()> work) = 0;
  /// Runs `work` on the strand after `delay`, unless the answer has ended or the client left.
  virtual void after(std::chrono::milliseconds delay, std::function<void()> work) = 0;

  /// The whole answer at once. Either this or begin_stream, once.
  virtual void respond(Response response) = 0;

  /// A stream: head, then any number of writes, then end(). `keep_alive` is written by itself when
  /// nothing else was for a while (10 s).
  virtual void begin_stream(Response head, std::string keep_alive) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;
  /// Instead of end(): the stream cannot be completed, the connection breaks off.
  virtual void abort() = 0;

  /// Bytes of this answer that the client's socket has not taken yet.
  virtual std::size_t pending_bytes() const = 0;
  /// `work` runs once, when pending_bytes() has come down to `low`.
  virtual void on_drain(std::size_t low, std::function<void()> work) = 0;
  /// `work` runs once, if the client leaves (or is cut off) before the answer has ended.
  virtual void on_close(std::function<void()> work) = 0;
  /// `work` runs once, if the server has to end before the answer has. It may still complete the
  /// answer; without it the connection is cut.
  virtual void on_stop(std::function<void()>) {}
  virtual bool closed() const = 0;
  /// Instead of an answer: the request is a WebSocket's handshake, and the connection speaks that
  /// from here on. A message of more than `bytes_max` ends it. Null where there is no connection.
  virtual MessageSocketPtr accept_socket(SocketEvents, std::size_t /*bytes_max*/) {
    return nullptr;
  }
  /// Before the answer: under which name it is counted and logged. Its text must live for ever.
  virtual void set_route(RouteName) {}
  /// Before the answer: headers that it has whatever it will be.
  virtual void set_headers(std::vector<Header>) {}
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace holdfast::gateway
