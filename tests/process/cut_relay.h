#pragma once
// A cable between two machines of a test, as a relay of TCP in this process: connections to its
// address end at another one, and can be cut without a word to either side.

#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <thread>

namespace holdfast::process {

class CutRelay {
 public:
  /// Relays to "tcp://HOST:PORT", from a free port of loopback.
  explicit CutRelay(const std::string& target);
  ~CutRelay();
  CutRelay(const CutRelay&) = delete;
  CutRelay& operator=(const CutRelay&) = delete;

  const std::string& url() const { return url_; }
  /// Nothing passes any more, in either direction; connections stay open.
  void cut() { cut_ = true; }
  /// Cuts by itself once so many bytes have come from the target from now on.
  void cut_after(std::int64_t bytes) { left_ = bytes; }
  bool is_cut() const { return cut_; }
  /// New connections pass again; those that were cut are closed.
  void mend() { cut_ = false; }

 private:
  struct Connection {
    int ends[2] = {-1, -1};
    bool was_cut = false;
  };
  void run();
  void accept_one();
  /// Passes on what waits; false once the connection is over.
  bool pass(Connection& connection);

  std::string url_, target_;
  int listener_ = -1;
  std::list<Connection> connections_;  // of the thread
  std::atomic<bool> cut_{false};
  std::atomic<std::int64_t> left_{INT64_MAX};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace holdfast::process
