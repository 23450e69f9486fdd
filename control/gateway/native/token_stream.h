#pragma once
// A request's tokens as they are, for the client libraries: ids, and the bytes of each, which may
// be less than a character. They make text of it as they do for a server on their own machine.

#include <cstdint>
#include <string>
#include <vector>

#include "control/gateway/common/render.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

/// Writes server-sent events:
///   event: request   the state (request_json::state_json) with "stops"
///   data alone       {"choice", "index", "ids", "ends", "bytes"}: `bytes` is base64 of the tokens'
///                    bytes, `ends[i]` where those of token i end; its id is that of every stream
///   event: end       the state
///   event: error     {"error": …}: the stream cannot go on
/// Not thread-safe.
class TokenWriter final : public EventWriter {
 public:
  /// `resume_from`: the first token of each choice; empty: all.
  TokenWriter(wire::RequestInfo info, std::vector<std::int64_t> resume_from);

  std::string open() override { return std::string(kRetryLine); }
  void update(const wire::RequestInfo& info) override { info_ = info; }
  std::string on_event(const wire::Event& event) override;
  std::string on_fin(const wire::RequestInfo& info) override;
  std::string on_failure(const wire::Refusal& refusal) override;

 private:
  /// Returns the event that tells the request, the first time.
  std::string introduce();

  wire::RequestInfo info_;
  std::vector<std::int64_t> sent_;  // tokens that the client has, by choice
  bool introduced_ = false;
};

}  // namespace holdfast::gateway
