#include "worker/engine/draft.h"

#include <algorithm>

#include "shared/grammar/matcher.h"

namespace holdfast::engine {

namespace {

constexpr std::size_t kSameMost = 32;            // a longer match is no better
constexpr std::size_t kMatchAfterForcedMin = 2;  // a shorter one is too weak after forced tokens
constexpr double kOlder = 0.97;                  // weight of a record after the next one
constexpr double kUnused = 0.995;  // and after a step in which it was too bad to be used
constexpr double kGain = 1.005;    // a draft that promises less is none
/// Draft lengths that fill whole tiles of the kernels, together with the last token's row.
constexpr std::array<std::int64_t, 3> kLengths = {1, 3, 7};

struct Match {
  std::size_t end = 0;   // end of the tokens that are the same
  std::size_t same = 0;  // how many; 0: there is no match
};

/// The earlier match with the most tokens that equal the last ones; the latest of several.
Match longest_match(std::span<const std::int32_t> tokens) {
  Match best;
  const std::size_t n = tokens.size();
  for (std::size_t end = n - 1; end > best.same && best.same < kSameMost; --end) {
    if (tokens[end - 1] != tokens[n - 1]) continue;
    if (tokens[end - 1 - best.same] != tokens[n - 1 - best.same]) continue;  // not longer than best
    std::size_t same = 1;
    while (same < kSameMost && same < end && tokens[end - 1 - same] == tokens[n - 1 - same]) ++same;
    if (same > best.same) best = {end, same};
  }
  return best;
}

}  // namespace

void forced_tokens(grammar::Matcher& matcher, std::vector<std::int32_t>& ids) {
  constexpr std::size_t kBytesMost = 64;
  ids.clear();
  matcher.table().split(matcher.forced(kBytesMost), ids);
  if (!ids.empty()) ids.pop_back();
}

std::size_t Drafter::grade_of(std::size_t same) {
  constexpr std::array<std::size_t, kGrades - 1> kFrom = {1, 2, 3, 4, 6, 10, 20};
  const auto above = std::upper_bound(kFrom.begin(), kFrom.end(), same);
  return static_cast<std::size_t>(above - kFrom.begin()) - 1;
}

/// The probability that a draft token is accepted if those before it are.
double Drafter::likelihood() const {
  // The estimate while nothing is measured, and the number of tokens that it counts for.
  constexpr std::array<double, kGrades> kAtFirst = {0.25, 0.40, 0.55, 0.65, 0.75, 0.85, 0.92, 0.75};
  constexpr double kAtFirstTried = 2;
  const Record& record = records_[grade_];
  return (record.accepted + kAtFirstTried * kAtFirst[grade_]) / (record.tried + kAtFirstTried);
}

/// The draft length that makes most tokens of all sequences in the time of a step; 0: no draft.
std::int64_t Drafter::length_for(std::int64_t most, Price price) const {
  const double likely = likelihood();
  double tokens = price.sequences, all_accepted = 1;
  double best = tokens * kGain;
  std::int64_t length = 0, n = 0;
  for (const std::int64_t next : kLengths) {
    for (; n < std::min(next, most); ++n) {
      all_accepted *= likely;
      tokens += all_accepted;
    }
    const double rate = tokens / (1 + price.row * static_cast<double>(n));
    if (rate > best) best = rate, length = n;
  }
  return length;
}

std::span<const Drafter::TokenId> Drafter::propose(std::span<const TokenId> tokens,
                                                   std::size_t lead, std::int64_t most, Price price,
                                                   std::span<const TokenId> forced) {
  std::span<const TokenId> text = tokens;
  if (!forced.empty()) {
    text_.assign(tokens.begin(), tokens.end());
    text_.insert(text_.end(), forced.begin(), forced.end());
    text = text_;
  }
  const Match match = longest_match(text);
  const std::size_t forced_n = forced.size();
  if (match.same < (forced_n > 0 ? kMatchAfterForcedMin : 1)) {
    most = std::min(most, static_cast<std::int64_t>(forced_n));
  }
  if (most <= 0) return {};
  grade_ = forced_n > 0 ? kGrades - 1 : grade_of(match.same);
  const auto n = static_cast<std::size_t>(length_for(most, price));
  if (n == 0) {
    records_[grade_].accepted *= kUnused;
    records_[grade_].tried *= kUnused;
    return {};
  }
  const auto last = tokens.last(lead), first = forced.first(std::min(n, forced_n));
  buffer_.assign(last.begin(), last.end());
  buffer_.insert(buffer_.end(), first.begin(), first.end());
  for (std::size_t at = match.end; buffer_.size() < lead + n; ++at) {
    // Past the end the draft's own tokens go on: a text may turn in a circle.
    buffer_.push_back(at < text.size() ? text[at] : buffer_[at - text.size() + lead + forced_n]);
  }
  return buffer_;
}

void Drafter::learn(std::int32_t drafted, std::int32_t accepted) {
  Record& record = records_[grade_];
  record.accepted = record.accepted * kOlder + accepted;
  record.tried = record.tried * kOlder + std::min(accepted + 1, drafted);
}

void Drafter::restart() {
  records_ = {};
}

}  // namespace holdfast::engine
