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
  const double row = (costs[kGuessesMost] - 1) / kGuessesMost;
  engine::Drafter drafter;
  Ids seen = text.before, forced;
  Replayed out;
  std::size_t at = 0;
  const auto take = [&]() -> Result<void> {
    HF_CHECKED(follow(matcher, text.tokens[at], at));
    seen.push_back(text.tokens[at++]);
    return {};
  };
  HF_CHECKED(take());  // the prompt's own step makes the first
  while (at < text.tokens.size()) {
    const std::size_t left = text.tokens.size() - at;
    if (matcher) engine::forced_tokens(*matcher, forced);
    const auto most = static_cast<std::int64_t>(std::min(kGuessesMost, left - 1));
    const auto rows = drafter.guess(seen, 1, most, {row, 1}, forced);
    const std::size_t guesses = rows.empty() ? 0 : rows.size() - 1;
    std::size_t right = 0;
    while (right < guesses && rows[right + 1] == text.tokens[at + right]) ++right;
    if (guesses > 0) {
      drafter.learn(static_cast<std::int32_t>(guesses), static_cast<std::int32_t>(right));
    }
    out.steps += 1;
    out.guessed += static_cast<std::int64_t>(guesses);
    out.right += static_cast<std::int64_t>(right);
    out.cost += costs[guesses];
    for (std::size_t i = 0; i <= right; ++i) HF_CHECKED(take());
  }
  out.tokens = static_cast<std::int64_t>(text.tokens.size()) - 1;
  return out;
}

}  // namespace holdfast::bench
