#pragma once
// One TCP connection: reads requests one after the other, hands each to the handler as an Exchange,
// writes the answer with back-pressure and enforces the time limits. Includes Asio: for server.cpp,
// connection.cpp and websocket.cpp alone.

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "control/gateway/http/connection_table.h"
#include "control/gateway/http/server.h"
#include "control/gateway/http/tenant_slots.h"
#include "control/gateway/http/tls.h"

namespace holdfast::gateway {

/// State that the connections of a server share.
struct ServerShared {
  explicit ServerShared(const ServerLimits& of)
      : limits(of), uploads(std::make_shared<TenantSlots>(of.uploads)) {}
  const ServerLimits limits;
  Server::Handler handler;
  Gate gate;
  ConnectionTable connections{limits};
  std::atomic<bool> draining{false};
  std::shared_ptr<TenantSlots> uploads;
  std::shared_ptr<TlsIdentity> tls;  // nullptr: plain HTTP
  std::shared_ptr<HttpStats> stats = std::make_shared<HttpStats>();
};

class ConnectionExchange;

/// Returns the answer to a connection beyond the limits.
Response too_many_connections(const ServerLimits& limits);

/// Runs on the strand of its socket, but for members that say otherwise; the pointer may be passed
/// to any thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;  // on a strand
  using Time = std::chrono::steady_clock::time_point;

  /// `id` is its number in the connection table, which it leaves at its end; 0: it is not in the
  /// table. `stranger`: it has not shown a key.
  Connection(Socket socket, std::shared_ptr<ServerShared> shared, ConnectionTable::Id id,
             bool stranger);
  ~Connection();

  void start();
  /// Closes an idle connection now and a busy one after its answer; with `now` either at once.
  /// Callable from any thread.
  void drain(bool now);
  /// Ends the request that is being answered (Exchange::on_stop lets it say something), then closes
  /// the connection. Callable from any thread.
  void stop();
  /// Answers a connection beyond the limits with `response` and closes it.
  void turn_away(Response response);

  Socket::executor_type executor() { return socket_.get_executor(); }

  // For ConnectionExchange:
  void send(std::string bytes);
  void finish_answer(bool close_after);
  void begin_keep_alive(std::string comment);
  /// Breaks the connection off, so that the client sees that the answer is incomplete.
  void cut() { close(); }
  std::size_t pending_bytes() const { return out_.size() + sending_.size() - sent_; }
  void when_drained(std::size_t low, std::function<void()> work);
  bool draining() const { return shared_->draining; }
  HttpStats& stats() { return *shared_->stats; }
  /// Takes the bytes of another protocol than HTTP, until the answer is finished.
  struct Raw {
    std::function<bool(std::string)> take;  // takes what came; false: no more before read_on()
    std::function<void()> stop;             // the server wants the connection to end
  };
  void become_raw(Raw raw);
  void receive_body(const BodyParts& parts);
  void next_part();
  void read_on() { read(); }
  /// Returns an empty text if the peer is gone.
  std::string peer_address() const;
  bool closed() const { return closed_; }

 private:
  void start_tls();
  void read();
  void on_read(const boost::system::error_code& ec, std::size_t n);
  void discard(std::size_t n);
  void on_read_error(const boost::system::error_code& ec);
  void take_raw();
  void parse();
  void begin_head();
  bool judge_head();
  void invite_body();
  bool look();
  bool become_authenticated(const std::string& tenant);
  void become_stranger();
  void begin_body();
  void begin_parts();
  void parse_part();
  void give_part();
  void fail_body(int status, const std::string& message);
  void wait_for_slot();
  bool upload_comes_on(Time now);
  void dispatch();
  void refuse(int status, const std::string& message);
  void write();
  void on_written(const boost::system::error_code& ec, std::size_t n);
  void after_answer();
  void linger();
  void close();
  void arm();
  void on_timer();
  void on_read_overdue();
  bool on_write_due(Time now);
  int kernel_queue();
  Time next_due() const;

  Socket socket_;
  std::unique_ptr<TlsStream> tls_;  // over socket_; nullptr: plain
  std::shared_ptr<ServerShared> shared_;
  const ConnectionTable::Id id_;
  bool stranger_;       // it has not shown a key
  std::string tenant_;  // of the request that is being read
  boost::asio::steady_timer timer_;
  Time armed_ = Time::max();

  RequestParser parser_;
  std::string in_;  // bytes that the parser has not taken
  std::array<char, 4096> read_buffer_;
  bool reading_ = false;
  Time read_due_ = Time::max();  // head, body or idle limit
  bool begun_ = false;           // the first byte of the next request is there
  bool continued_ = false;       // "100 Continue" was sent
  bool body_begun_ = false;      // its time limit runs
  bool looked_ = false;          // the gate has judged the head of the next request
  bool looking_ = false;         // the gate will answer later

  std::string out_;      // bytes that wait for sending_
  std::string sending_;  // bytes given to the socket
  std::size_t sent_ = 0;
  bool writing_ = false;
  Time write_progress_{};
  int queued_ = 0;          // in the kernel's buffer when a write last ended with more to send
  std::string keep_alive_;  // as sent; empty = off

  TenantSlots::Slot upload_;       // held until the answer is complete, as the bytes are in memory
  bool waits_for_slot_ = false;    // for upload_
  Time upload_due_ = Time::max();  // limit for the whole body
  std::size_t upload_bytes_ = 0;   // came since the last look
  std::shared_ptr<ConnectionExchange> active_;
  std::size_t drain_low_ = 0;
  std::function<void()> drain_work_;
  Raw raw_;
  /// A body that is received in parts.
  struct BodyStream {
    BodyParts parts;    // empty until the endpoint receives it
    std::string bytes;  // that the endpoint has not taken
    bool due = false;   // the endpoint waits for a part
    bool whole = false;
  };
  std::unique_ptr<BodyStream> body_;  // of the active exchange
  bool answered_ = false;  // the active answer is complete; its bytes may still be under way
  bool close_after_ = false;
  bool lingering_ = false;
  std::size_t discarded_ = 0;
  bool closed_ = false;
};

}  // namespace holdfast::gateway
