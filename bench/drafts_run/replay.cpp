#include "bench/drafts_run/replay.h"

#include <optional>
#include <string>

#include "shared/grammar/matcher.h"
#include "worker/engine/draft.h"

namespace holdfast::bench {
namespace {

using Ids = std::vector<std::int32_t>;

Result<void> follow(std::optional<grammar::Matcher>& matcher, std::int32_t id, std::size_t at) {
  if (!matcher || matcher->accept(id)) return {};
  return Error{Errc::kFileInvalid,
               "token " + std::to_string(at) + " of the text is none that its grammar allows"};
}

}  // namespace

Result<Replayed> replay(const ReplayText& text, const StepCosts& costs) {
  std::optional<grammar::Matcher> matcher;
  if (text.masks) matcher.emplace(text.masks);
  const double row = (costs[kDraftTokensMax] - 1) / kDraftTokensMax;
  engine::Drafter drafter;
  Ids history = text.before, forced;
  Replayed out;
  std::size_t at = 0;
  const auto take = [&]() -> Result<void> {
    HOLDFAST_CHECKED(follow(matcher, text.tokens[at], at));
    history.push_back(text.tokens[at++]);
    return {};
  };
  HOLDFAST_CHECKED(take());  // the prompt's own step makes the first token
  while (at < text.tokens.size()) {
    const std::size_t left = text.tokens.size() - at;
    if (matcher) engine::forced_tokens(*matcher, forced);
    const auto most = static_cast<std::int64_t>(std::min(kDraftTokensMax, left - 1));
    const auto rows = drafter.propose(history, 1, most, {row, 1}, forced);
    const std::size_t drafted = rows.empty() ? 0 : rows.size() - 1;
    std::size_t accepted = 0;
    while (accepted < drafted && rows[accepted + 1] == text.tokens[at + accepted]) ++accepted;
    if (drafted > 0) {
      drafter.learn(static_cast<std::int32_t>(drafted), static_cast<std::int32_t>(accepted));
    }
    out.steps += 1;
    out.drafted += static_cast<std::int64_t>(drafted);
    out.accepted += static_cast<std::int64_t>(accepted);
    out.cost += costs[drafted];
    for (std::size_t i = 0; i <= accepted; ++i) HOLDFAST_CHECKED(take());
  }
  out.tokens = static_cast<std::int64_t>(text.tokens.size()) - 1;
  return out;
}

}  // namespace holdfast::bench
