#pragma once
// The reading side of a stream: events come on the server's thread, are made parts, and wait for
// holdfast_next().

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shared/client/client.h"
#include "shared/sdk/holdfast.h"
#include "shared/text/releaser.h"

namespace holdfast::sdk {

/// A part as it waits for its reader.
struct Part {
  std::int32_t choice = 0;
  std::int64_t index = 0;
  std::vector<std::int32_t> ids;
  std::string text;
  std::string finish;
};

/// The parts of a request, in order, each once. The functions on_… are for the server's thread, and
/// may still run when the stream is closed: whoever opens a stream shares the reader with it.
/// next() is for one thread at a time.
class Reader {
 public:
  /// `first_tokens[i]`: the first token that is wanted of choice i; HOLDFAST_DONE: none.
  explicit Reader(std::vector<std::int64_t> first_tokens);
  /// Opens the stream: `open` returns what makes its sender wait, or go on. Events that come
  /// meanwhile are taken afterwards.
  void begin(const std::function<std::function<void(bool)>()>& open);

  void on_attached(const wire::RequestInfo& info);
  void on_event(const wire::Event& event);
  void on_fin(const wire::RequestInfo& info);
  void on_failure(const client::Failure& failure);

  /// Waits for the next part. Returns HOLDFAST_PART, which `part` points to until the next call;
  /// HOLDFAST_END; HOLDFAST_TIMEOUT; or HOLDFAST_FAILED with `failure`.
  int next(int timeout_ms, holdfast_part* part, client::Failure* failure);

 private:
  void add_choice(std::size_t choice);
  void push(Part part);
  void take();
  void show(holdfast_part* part) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void(bool)> hold_;
  std::vector<std::int64_t> first_tokens_;  // of each choice
  std::vector<text::Releaser> releasers_;   // of each choice
  std::vector<std::string> stops_;          // of the request: their text is not given
  std::deque<Part> parts_;
  Part current_;
  bool over_ = false;
  bool held_ = false;
  std::unique_ptr<client::Failure> failure_;
};

}  // namespace holdfast::sdk
