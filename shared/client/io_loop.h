#pragma once
// The client's I/O thread: one DEALER, the calls without an answer, the open streams. Used by
// client.cpp alone.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "shared/client/client.h"
#include "shared/client/cursor.h"
#include "shared/wire/socket.h"

namespace holdfast::client {

using Reply = std::variant<wire::Message, Failure>;
using Done = std::function<void(Reply)>;

/// Returns a local failure, one that no daemon sent: it has no numbers.
Failure make_failure(Errc code, std::string message);

/// The loop behind Client. start() connects and starts the thread; its methods may be called from
/// any thread.
class IoLoop {
 public:
  /// Makes the socket, connects it without waiting for the daemon, and starts the thread.
  static Result<std::unique_ptr<IoLoop>> start(const std::string& endpoint, const Options& options);
  ~IoLoop();  // ends the thread; calls without an answer fail with kCancelled

  /// Makes a call. Any thread. `message` has a tag field; it is set here. `done` runs once, on the
  /// I/O thread.
  void call(wire::Message message, Done done);
  /// Opens, holds and closes a stream, as the methods of Client do. Any thread; the handlers run on
  /// the I/O thread.
  StreamId open_stream(std::string tenant, std::string request_id, std::vector<std::int64_t> from,
                       StreamHandler handler);
  /// Returns Client::silent_ms. Any thread.
  std::int64_t silent_ms() const;
  void hold_stream(StreamId id, bool hold);
  void close_stream(StreamId id, bool for_good);
  /// True on the thread on which handlers run: a call that blocks would wait there for itself.
  bool is_io_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  struct Call {
    std::string frame;  // encoded once, by the caller's thread; a repeat sends the same bytes
    bool repeatable = true;
    Done done;
    std::int64_t deadline_us = 0;
    bool sent = false;  // on this connection
  };
  struct Stream {
    StreamId id = 0;
    std::uint64_t tag = 0;  // of the newest ATTACH; events with another one are late
    std::string tenant;     // the caller's; empty = every tenant
    std::string request_id;
    Cursor cursor{{}};
    StreamHandler handler;
    std::vector<std::int64_t> credited;
    bool held = false;
    bool sent = false;  // the ATTACH, on this connection
  };

  IoLoop(std::string endpoint, const Options& options);
  Result<void> open();
  void run();
  void post(std::function<void()> task);
  void run_tasks();
  void drain_link_events();
  void drain_messages();
  void on_lost();
  void on_broken();
  void refuse_key(std::string why);
  Failure key_failure() const;
  void fail_all(const Failure& failure);
  void on_tick();
  void send_pending();
  void send_calls();
  bool may_send(const Call& call);
  void refuse_large(std::uint64_t tag);
  void expire_calls(std::int64_t now_us);
  bool gave_up_daemon(std::int64_t now_us) const;
  void check_silence(std::int64_t now_us);
  bool send(const wire::Message& message);

  void on_message(wire::Message message);
  void answer(std::uint64_t tag, wire::Message message);
  void on_event(wire::Event event);
  void on_attached(const wire::Attached& attached);
  void on_fin(const wire::Fin& fin);
  void attach_again(Stream& stream);
  void give_credit(Stream& stream);
  void fail_stream(StreamId id, const Failure& failure);
  Stream* stream_of_tag(std::uint64_t tag);

  const std::string endpoint_;
  const Options options_;
  wire::Context context_;
  wire::WakeUp wake_;
  std::unique_ptr<wire::Socket> socket_;
  std::thread thread_;

  std::mutex mutex_;  // guards tasks_, stopping_, next_tag_
  std::vector<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::uint64_t next_tag_ = 1;

  // Used by the I/O thread alone.
  std::map<std::uint64_t, Call> calls_;
  std::map<StreamId, Stream> streams_;
  // Calls and streams with something to send, so that a loop with many open ones visits few.
  std::set<std::uint64_t> unsent_calls_;  // tags
  std::set<StreamId> streams_due_;        // their ATTACH or CREDIT
  std::int64_t deadlines_looked_at_us_ = 0;
  std::map<std::uint64_t, StreamId> stream_tags_;
  bool connected_ = false;
  std::int64_t lost_us_ = 0;  // since when there is no connection, while there is none
  bool silent_ = false;
  std::string key_refused_;  // why the server will not take our key; empty: it may
  bool was_connected_ = false;
  int broken_ = 0;  // handshakes in a row that ended without a word, soon after each other
  std::int64_t broken_us_ = 0;
  std::int64_t frame_bytes_max_ = 0;  // the daemon's limit on this connection; 0 = unknown yet
  bool frame_limit_requested_ = false;
  std::int64_t last_received_us_ = 0;  // last frame of the daemon, or connection
  std::int64_t pinged_us_ = 0;
  std::atomic<std::int64_t> answered_us_{0};  // last frame of the daemon

  std::uint64_t new_tag();
};

}  // namespace holdfast::client
