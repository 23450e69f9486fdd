#pragma once
// The record of a pair, held by the test: it speaks as much of etcd as the programs do, refuses
// machines, and delays an answer until the record has been changed.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>

namespace holdfast::process {

class RecordServer {
 public:
  RecordServer();
  ~RecordServer();
  RecordServer(const RecordServer&) = delete;
  RecordServer& operator=(const RecordServer&) = delete;

  /// The value of --record for machines that are answered as etcd would.
  std::string address() const;
  /// The same record for one machine, whose first change is carried out and answered as such, but
  /// not before another machine has changed the record again. `on_change` is called in between, on
  /// another thread.
  std::string late_address(std::function<void()> on_change);
  /// Machines with address() get no answer until the next call.
  void refuse(bool refuse) { refuse_ = refuse; }
  /// The record's JSON as it is now; empty: there is none.
  std::string text();

 private:
  struct Listener;
  void run(const Listener& listener);
  void serve(int fd, bool late);
  nlohmann::json answer_late(const std::string& path, const nlohmann::json& question);
  nlohmann::json answer(const std::string& path, const nlohmann::json& question);

  std::atomic<bool> refuse_{false};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;   // guards the record
  std::string value_;  // in base64, as it came
  std::int64_t revision_ = 0;
  std::function<void()> on_change_;  // it and the next are of the late thread
  bool late_answered_ = false;
  std::unique_ptr<Listener> listener_, late_listener_;
};

}  // namespace holdfast::process
