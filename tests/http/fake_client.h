#pragma once
// A daemon in a class: requests live in memory, tokens come from a script. Everything that the SDK
// calls back runs on one thread of its own, as with the real SDK.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "shared/client/client.h"

namespace holdfast::test {

/// The fake model's answer to a request: the tokens of each choice.
struct Script {
  std::vector<std::vector<std::string>> token_bytes;  // per choice; a missing one repeats the last
  wire::FinishReason finish = wire::FinishReason::kLength;
  std::vector<std::string> extra;         // per token index, logprobs
  std::vector<std::string> choice_extra;  // per choice, for each of its tokens
};

class FakeClient final : public client::Client {
 public:
  explicit FakeClient(unsigned seed = 1);
  ~FakeClient() override;

  Script script;             // for requests submitted from now on
  bool hold_tokens = false;  // a new request shows no token before commit()
  std::vector<wire::ModelInfo> model_list;
  std::optional<client::Failure> failure;         // answer to every call
  std::optional<wire::KeyStanding> key;           // of every request
  std::atomic<std::int64_t> queue_position{-1};   // of a request without a token; -1: none waits
  bool silent = false;                            // calls are never answered
  std::map<std::string, std::string> op_results;  // by operator verb
  bool stores_objects = false;                    // objects.…, ids.derive: in memory, by owner
  std::optional<std::int64_t> context_left;       // most tokens that fit into the context

  /// Makes tokens [0, n) of every choice available; `finish` also ends the request.
  void commit(const std::string& request_id, std::int64_t n, bool finish);

  wire::Submit last_submit();
  int submits();
  int cancels();
  int left_for_good();  // streams whose client left for good
  int open_streams();
  int ops();                                     // operator verbs asked so far
  std::string op_args(const std::string& verb);  // of its last call
  int holds();                                   // hold_stream(…, true) calls so far
  /// Waits until `condition` holds; the test's own time limit ends a wait that never succeeds.
  template <class F>
  void wait_for(F condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  client::Answer<wire::Accepted> submit(const client::Principal&, wire::Submit) override;
  client::Answer<wire::RequestInfo> status(const client::Caller&, const std::string&) override;
  client::Answer<wire::RequestInfo> cancel(const client::Caller&, const std::string&) override;
  client::Answer<std::vector<wire::ModelInfo>> models(const client::Caller&) override;
  client::Answer<std::string> op(const client::Caller&, const std::string&,
                                 const std::string&) override;
  void op_async(const client::Caller&, const std::string&, const std::string&,
                std::function<void(client::Answer<std::string>)>) override;
  void op_bytes_async(const client::Caller&, const std::string&, const std::string&, std::string,
                      std::function<void(client::Answer<client::OpAnswer>)>) override;
  void submit_async(const client::Principal&, wire::Submit,
                    std::function<void(client::Answer<wire::Accepted>)>) override;
  void status_async(const client::Caller&, const std::string&,
                    std::function<void(client::Answer<wire::RequestInfo>)>) override;
  void cancel_async(const client::Caller&, const std::string&,
                    std::function<void(client::Answer<wire::RequestInfo>)>) override;
  void models_async(const client::Caller&,
                    std::function<void(client::Answer<std::vector<wire::ModelInfo>>)>) override;
  client::StreamId open_stream(const client::Caller&, const std::string&, std::vector<std::int64_t>,
                               client::StreamHandler) override;
  void hold_stream(client::StreamId, bool) override;
  void close_stream(client::StreamId, bool for_good) override;
  client::Answer<wire::RequestInfo> stream(const client::Caller&, const std::string&,
                                           std::vector<std::int64_t>,
                                           const std::function<void(const wire::Event&)>&) override;

 private:
  struct Stored {
    wire::RequestInfo info;
    Script script;
    std::string body_hash;
    std::int64_t committed = 0;
    bool finished = false;
  };
  struct Stream {
    std::string request_id;
    client::StreamHandler handler;
    std::vector<std::int64_t> next;
    bool held = false;
  };
  std::map<std::string, Stored>::iterator find(const client::Caller& caller, const std::string& id);
  client::Answer<wire::Accepted> accept(const wire::Submit& submit);
  const std::vector<std::string>& token_bytes_of(const Stored& stored, int choice) const;
  bool is_over(const Stored& stored) const;
  wire::RequestInfo info_of(const Stored& stored) const;
  std::optional<client::Answer<std::string>> object_op(const client::Caller& caller,
                                                       const std::string& verb,
                                                       const std::string& args);
  void call(std::function<void()> work);
  void loop();
  bool pump(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  std::map<std::string, Stored> requests_;
  std::map<std::string, std::string> by_key_;
  std::map<client::StreamId, Stream> streams_;
  client::StreamId last_stream_ = 0;
  wire::Submit last_submit_;
  int submits_ = 0;
  int cancels_ = 0;
  int left_for_good_ = 0;
  int holds_ = 0;
  int ops_ = 0;
  std::map<std::string, std::string> op_args_;
  std::map<std::string, std::string> objects_;  // by owner, kind and id
  std::mt19937 random_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace holdfast::test
