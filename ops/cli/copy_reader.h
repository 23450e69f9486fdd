#pragma once
// Reads a copy of the database from a daemon elsewhere (schema/protocol.md, db.copy). Its memory is
// bounded by the ranges under way; a cut link is waited for, and reading goes on where it was.

#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <string_view>

#include "ops/terminal/progress_view.h"
#include "shared/base/result.h"
#include "shared/client/client.h"

namespace holdfast::cli {

/// A complete copy at the daemon.
struct CopyFacts {
  std::int64_t bytes = 0;
  std::int64_t pages = 0;
  std::int64_t range_bytes = 0;  // most in one answer
  std::string sha256;
};

/// One copy and its reader. One thread.
class CopyReader {
 public:
  static constexpr std::size_t kRangesUnderWay = 4;

  /// The client and the view must outlive it.
  CopyReader(client::Client& client, ProgressView& view, std::string name)
      : client_(client), view_(view), name_(std::move(name)) {}
  ~CopyReader();  // the daemon removes the copy
  CopyReader(const CopyReader&) = delete;
  CopyReader& operator=(const CopyReader&) = delete;

  /// Has the daemon make a copy, and waits for it. Errors of the daemon; kCancelled after a signal.
  Result<CopyFacts> begin();
  /// Reads all of it in order and checks its hash. kNotFound: the daemon has it no more, as it was
  /// started again: begin anew. kFileInvalid: another hash. Errors of `write`.
  Result<void> read(const CopyFacts& facts,
                    const std::function<Result<void>(std::string_view)>& write);

 private:
  using Future = std::future<client::Answer<client::OpAnswer>>;
  Future ask(const std::string& verb, std::int64_t offset, std::int64_t bytes);
  Result<client::OpAnswer> wait_for(Future& future);
  void show(const std::string& state);

  client::Client& client_;
  ProgressView& view_;
  const std::string name_;
  std::string id_;
  std::int64_t done_ = 0, bytes_ = 0;  // in the present state
};

}  // namespace holdfast::cli
