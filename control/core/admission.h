#pragma once
// Whether a request may enter: pure arithmetic over numbers, each refusal with the figures that
// would help.

#include <cstdint>
#include <optional>
#include <vector>

#include "control/core/config.h"
#include "control/core/rows.h"

namespace holdfast::core {

/// prompt + max_tokens of every prompt must fit the context and the page pool alone.
/// `max_tokens` absent: what the longest prompt leaves. On success the resolved max_tokens.
struct ContextVerdict {
  std::optional<wire::Refusal>
      refusal;  // kContextExceeded: needed, largest = prompt + tokens that fit
  std::int64_t max_tokens = 0;
};
ContextVerdict admit_context(const std::vector<std::int64_t>& prompt_tokens,
                             std::optional<std::int64_t> max_tokens, std::int64_t context,
                             std::int64_t pool_tokens);

/// Fields of the message alone (counts, ranges, lengths). kInvalidRequest says which and what was
/// expected.
std::optional<wire::Refusal> check_submit(const wire::Submit& submit, const Config& config);

wire::Refusal refuse(Errc code, std::string message);

}  // namespace holdfast::core
