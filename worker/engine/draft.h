#pragma once
// Draft tokens by prompt lookup: where the last tokens of a sequence occurred before, the tokens
// that followed them there are likely to follow again. No model is asked. After
// https://github.com/apoorvumang/prompt-lookup-decoding.
//
// The match is the earlier occurrence before which most tokens are the same. Tokens that a grammar
// forces come first in a draft. Each sequence records how often drafts were accepted, by the length
// of the match, and a draft is as long as yields most tokens a second. A draft changes how long a
// token takes and nothing else.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::grammar {
class Matcher;
}

namespace holdfast::engine {

/// Tokens of the text that the grammar forces next, written to `ids` anew. They are the longest
/// tokens of that text, as a model would write it; the last one is left out, as the model's own
/// token may go on after the forced text.
void forced_tokens(grammar::Matcher& matcher, std::vector<std::int32_t>& ids);

/// Proposes the draft tokens of one sequence. Not thread-safe.
class Drafter {
 public:
  using TokenId = std::int32_t;

  /// The cost of draft tokens.
  struct Price {
    double row = 0;              // of one draft token, as a share of a step without any
    std::int32_t sequences = 1;  // whose next tokens that step makes
  };

  /// Returns the last `lead` (at least one) of `tokens` and at most `most` draft tokens after them;
  /// empty if no draft is likely to pay. The tokens of `forced`, if there are any, are the first of
  /// the draft. Valid until the next call.
  std::span<const TokenId> propose(std::span<const TokenId> tokens, std::size_t lead,
                                   std::int64_t most, Price price,
                                   std::span<const TokenId> forced = {});
  /// Records that the first `accepted` of `drafted` tokens were sampled.
  void learn(std::int32_t drafted, std::int32_t accepted);
  /// Forgets all records, for another sequence.
  void restart();

 private:
  /// Grades of matches, by how many tokens are the same; the last grade is that of forced tokens.
  static constexpr std::size_t kGrades = 8;
  struct Record {
    double accepted = 0, tried = 0;  // the latest count most
  };
  static std::size_t grade_of(std::size_t same);
  double likelihood() const;
  std::int64_t length_for(std::int64_t most, Price price) const;

  std::array<Record, kGrades> records_;
  std::size_t grade_ = 0;  // of the last match
  std::vector<TokenId> buffer_;
  std::vector<TokenId> text_;  // tokens and forced ones
};

}  // namespace holdfast::engine
