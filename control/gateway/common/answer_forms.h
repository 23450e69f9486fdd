#pragma once
// How each API shows an answer. The implementation lies above the dialects (dialects.h), so that
// none of them knows another one.

#include <cstdint>
#include <memory>
#include <vector>

#include "control/gateway/common/render.h"
#include "control/gateway/http/shape.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

/// Makes what writes the answer to one request, by the API of its shape. Safe from any thread.
class AnswerForms {
 public:
  virtual ~AnswerForms() = default;
  /// Returns the writer of a stream. `resume_from`: the indexes of the id with which the client
  /// came back; empty for a stream from the start.
  virtual std::unique_ptr<EventWriter> stream(
      const Shape& shape, wire::RequestInfo info,
      const std::vector<std::int64_t>& resume_from) const = 0;
  /// Returns what gathers one document.
  virtual std::unique_ptr<WholeAnswer> whole(const Shape& shape, wire::RequestInfo info) const = 0;
};

}  // namespace holdfast::gateway
