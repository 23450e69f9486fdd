#pragma once
// Bodies with a Content-Encoding: gzip and deflate, undone once it is known whose they are and
// within the bound of the body that comes of them.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "control/gateway/exchange.h"

namespace holdfast::gateway {

/// Undoes gzip (with several members too), zlib and raw deflate, a piece at a time. Not
/// thread-safe.
class BodyDecoder {
 public:
  enum class State { kMore, kDone, kBroken, kTooLong };

  /// `encoded` must live as long. At most `limit` bytes come of it.
  BodyDecoder(std::string_view encoded, bool gzip, std::size_t limit);
  ~BodyDecoder();
  BodyDecoder(const BodyDecoder&) = delete;

  /// Makes about `bytes` more. All states but kMore are final.
  State step(std::size_t bytes);
  /// kDone: the body.
  std::string take() { return std::move(body_); }

 private:
  struct Stream;
  State append(const char* bytes, std::size_t size);
  State ended();
  State fail();

  const std::string_view encoded_;
  const std::size_t limit_;
  const bool gzip_;
  std::unique_ptr<Stream> stream_;
  std::string body_;
  State state_ = State::kMore;
};

/// Whether its body must be decoded before it means anything.
bool is_encoded(const Request& request);

/// Decodes the body, or answers why not: 415 for an encoding that is not known, 413 for what would
/// be too long, 400 for what is broken. Then `then` runs; a long body is decoded piece by piece, so
/// that others have their turn.
void decode_body(const ExchangePtr& exchange, std::function<void()> then);

}  // namespace holdfast::gateway
