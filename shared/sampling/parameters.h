#pragma once
// The sampling parameters of a request, one row each (kParameters): name, member, range and meaning
// for HTTP, the SDK, the command line, admission, the stored row, the engine and the page
// docs/use/sampling.md. A range is refused by the first that reads the value, so no request is
// accepted that a later one would refuse. How to add one:
// docs/contribute/add-a-sampling-parameter.md.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "shared/wire/messages.h"

namespace holdfast::sampling {

using TokenId = std::int32_t;

/// One step of the sampler chain, in the default order. Steps after the temperature cut by the
/// probabilities that it leaves; mirostat replaces them.
///
/// Definitions. The list starts with the ids whose logit is at least max - 21 x max(1, temperature)
/// (others are less likely than one in 10^9 of the likeliest), in the total order (logit
/// descending, id ascending), and keeps that order. p: the softmax of the list as it is at a step.
/// At least one candidate always remains.
enum class Step : std::uint8_t {
  /// repetition, presence, frequency: on the whole row, before the list
  kPenalties,
  /// penalizes repeated sequences: on the whole row too (worker/engine/dry.h)
  kDry,
  /// logits of at least max - n x their standard deviation (Tang et al. 2024, "Top-nsigma: not all
  /// logits are you need")
  kTopNSigma,
  /// logits / T; T below 1e-6 leaves the first
  kTemperature,
  /// the first k
  kTopK,
  /// by |-ln p - entropy| ascending, ties by the total order, the shortest prefix with p of
  /// typical_p (Meister et al. 2023, "Locally typical sampling")
  kTypical,
  /// the shortest prefix with p of top_p
  kTopP,
  /// p >= top_a x (greatest p)^2 (BlinkDL 2022, RWKV-LM, "The top-a sampling method"; KoboldAI,
  /// text-generation-webui and OpenRouter have it)
  kTopA,
  /// p >= min_p x greatest p
  kMinP,
  /// if a random number is below xtc_probability: of the candidates with p >= xtc_threshold only
  /// the least likely one stays (p-e-w 2024, "Exclude top choices")
  kXtc,
};
/// The names of the steps, by their numbers.
inline constexpr auto kStepNames =
    std::to_array<std::string_view>({"penalties", "dry", "top_n_sigma", "temperature", "top_k",
                                     "typ_p", "top_p", "top_a", "min_p", "xtc"});
static_assert(kStepNames.size() == static_cast<std::size_t>(Step::kXtc) + 1);
/// Returns "penalties", "dry", … (kStepNames).
constexpr std::string_view step_name(Step step) {
  return kStepNames.at(static_cast<std::size_t>(step));
}

using Texts = std::vector<std::string>;
using LogitBias = std::vector<std::pair<TokenId, float>>;
using Order = std::vector<Step>;

/// The parameters that are members of the text wire::Sampling::extra.
struct SamplingOptions {
  float typical_p = 1.0F;        // 1 = off
  float top_n_sigma = -1.0F;     // <= 0: off
  float top_a = 0.0F;            // 0 = off
  float xtc_probability = 0.0F;  // 0 = off
  float xtc_threshold = 0.1F;    // above 0.5: off
  float dry_multiplier = 0.0F;   // 0 = off
  float dry_base = 1.75F;
  std::int64_t dry_allowed_length = 2;
  std::int64_t dry_penalty_last_n = -1;  // -1 = all
  std::int64_t repeat_last_n = -1;       // tokens that the repetition penalty covers; -1 = all
  std::int64_t mirostat = 0;             // 0 or 2
  float mirostat_tau = 5.0F;
  float mirostat_eta = 0.1F;
  Texts banned_strings;  // never part of the generated text
  Order order;           // empty: the default order
  Texts dry_sequence_breakers = {"\n", ":", "\"", "*"};
  LogitBias logit_bias;

  /// Returns true if plain sampling (top_k, top_p, min_p after the temperature) is not enough.
  bool needs_sampler_chain() const {
    return typical_p < 1.0F || top_n_sigma > 0.0F || top_a > 0.0F || xtc_probability > 0.0F ||
           mirostat != 0 || !order.empty();
  }
};

/// The place of a parameter's value. A member of wire::Sampling is a field of the frame and a
/// member of the stored row; one of SamplingOptions is a member of the text wire::Sampling::extra
/// there.
using Member =
    std::variant<float wire::Sampling::*, std::int32_t wire::Sampling::*,
                 std::uint64_t wire::Sampling::*, bool wire::Sampling::*, float SamplingOptions::*,
                 std::int64_t SamplingOptions::*, Texts SamplingOptions::*,
                 Order SamplingOptions::*, LogitBias SamplingOptions::*>;

/// The least and the greatest number that a parameter takes.
struct Range {
  double low = 0;
  double high = 0;
  bool ends_only = false;  // nothing between them
};

/// A row of kParameters. The default is that of the member; one outside the range stands for a
/// parameter that is not given, and cannot be written out by HTTP and the command line.
struct Parameter {
  std::string_view name;  // of HTTP, frames and rows; with dashes: of `holdfast run`
  Member member;
  Range range = {};             // of a number, or of each of a list; of seed: none
  std::string_view meaning;     // for the page and for --help
  std::string_view alias = {};  // the name that another server has for it, taken over HTTP too
  bool own_reader = false;      // HTTP and the command line read it in their own way
  bool sparse = false;          // not in stored rows of before, so stored only if it is not default
};

/// Greatest count of tokens that a parameter takes.
inline constexpr std::int64_t kCountMax = 1 << 30;
/// Bounds of a list of texts.
inline constexpr std::size_t kTextsMax = 64;
inline constexpr std::size_t kTextBytesMax = 256;
/// Alternatives of a position, besides the token's own: each costs its bytes in memory, rows and
/// events for every token.
inline constexpr Range kLogprobs = {0, 64};

/// The parameters: those of wire::Sampling in the order of the frame, then the others in the order
/// in which HTTP writes them into the extra.
inline constexpr auto kParameters = std::to_array<Parameter>({
    {"temperature",
     &wire::Sampling::temperature,
     {0, 100},
     "logits are divided by it; 0 is greedy"},
    {"top_k",
     &wire::Sampling::top_k,
     {-1, INT32_MAX},
     "only so many of the likeliest tokens; 0 and -1 take all"},
    {"top_p",
     &wire::Sampling::top_p,
     {0, 1},
     "only the likeliest tokens that have so much of the probability together"},
    {"min_p",
     &wire::Sampling::min_p,
     {0, 1},
     "only tokens with so much of the likeliest one's probability"},
    {.name = "seed",
     .member = &wire::Sampling::seed,
     .meaning = "fixes the random numbers; drawn and stored if it is not given",
     .own_reader = true},
    {.name = "ignore_eos",
     .member = &wire::Sampling::ignore_eos,
     .meaning = "the model's end tokens do not end the answer"},
    {"min_tokens",
     &wire::Sampling::min_tokens,
     {0, INT32_MAX},
     "no end token before so many tokens"},
    {.name = "logprobs",
     .member = &wire::Sampling::logprobs,
     .range = kLogprobs,
     .meaning = "log-probability of each token, and of so many alternatives; in a chat "
                "`top_logprobs` is their number",
     .own_reader = true},
    {"repetition_penalty",
     &wire::Sampling::repetition_penalty,
     {0.01, 100},
     "divides positive logits of tokens that occurred, multiplies negative ones; 1 is off"},
    {"presence_penalty",
     &wire::Sampling::presence_penalty,
     {-100, 100},
     "taken off the logit of each token that was generated"},
    {"frequency_penalty",
     &wire::Sampling::frequency_penalty,
     {-100, 100},
     "taken off the logit of a token as often as it was generated"},
    {.name = "prompt_logprobs",
     .member = &wire::Sampling::prompt_logprobs,
     .range = kLogprobs,
     .meaning = "as `logprobs`, for each token of the prompt",
     .own_reader = true,
     .sparse = true},
    {"typical_p", &SamplingOptions::typical_p, {0, 1}, "locally typical sampling; 1 is off"},
    {"top_n_sigma",
     &SamplingOptions::top_n_sigma,
     {-1, 100},
     "only logits within n standard deviations of the greatest; 0 and less is off"},
    {"top_a",
     &SamplingOptions::top_a,
     {0, 1},
     "only tokens with so much of the square of the likeliest one's probability; 0 is off"},
    {"xtc_probability",
     &SamplingOptions::xtc_probability,
     {0, 1},
     "how often all choices above the threshold but the least likely one are excluded"},
    {"xtc_threshold",
     &SamplingOptions::xtc_threshold,
     {0, 1},
     "the probability from which on xtc excludes"},
    {"dry_multiplier",
     &SamplingOptions::dry_multiplier,
     {0, 100},
     "a token that would lengthen a repetition loses multiplier x base^(length - allowed); 0 is "
     "off"},
    {"dry_base", &SamplingOptions::dry_base, {1, 100}, "the base of dry"},
    {"dry_allowed_length",
     &SamplingOptions::dry_allowed_length,
     {0, kCountMax},
     "the length of a repetition that dry allows"},
    {"dry_penalty_last_n",
     &SamplingOptions::dry_penalty_last_n,
     {-1, kCountMax},
     "how many tokens dry looks back at; -1 is all"},
    {"repeat_last_n",
     &SamplingOptions::repeat_last_n,
     {-1, kCountMax},
     "how many tokens repetition_penalty looks back at; -1 is all"},
    {"mirostat",
     &SamplingOptions::mirostat,
     {.low = 0, .high = 2, .ends_only = true},
     "2 holds the surprise of the text at tau, in place of all steps after the temperature"},
    {"mirostat_tau", &SamplingOptions::mirostat_tau, {0, 100}, "the surprise to hold, in bits"},
    {"mirostat_eta", &SamplingOptions::mirostat_eta, {0, 1}, "how fast mirostat corrects itself"},
    {.name = "banned_strings",
     .member = &SamplingOptions::banned_strings,
     .meaning = "texts that never appear in the answer, wherever tokens are cut",
     .alias = "bad_words"},
    {.name = "samplers",
     .member = &SamplingOptions::order,
     .meaning = "the order of the steps; one that is not named is not done, and penalties and dry "
                "come first wherever they stand"},
    {.name = "dry_sequence_breakers",
     .member = &SamplingOptions::dry_sequence_breakers,
     .meaning = "texts at which dry takes a repetition to end"},
    {.name = "logit_bias",
     .member = &SamplingOptions::logit_bias,
     .range = {-1000, 1000},
     .meaning = "numbers that are added to the logits of token ids"},
});

/// Takes a pointer to a member apart.
template <class M>
struct MemberOf;
template <class T, class S>
struct MemberOf<T S::*> {
  using Value = T;
  using Struct = S;
};
/// True for a pointer to a member of wire::Sampling.
template <class M>
inline constexpr bool kIsPlain = std::is_same_v<typename MemberOf<M>::Struct, wire::Sampling>;

/// Calls `f` with the pointer to the parameter's member, if that is one of wire::Sampling.
template <class F>
void visit_plain(const Parameter& parameter, F&& f) {
  const auto visitor = [&](auto member) {
    if constexpr (kIsPlain<decltype(member)>) f(member);
  };
  std::visit(visitor, parameter.member);
}

/// Returns the row of that name; nullptr if there is none.
constexpr const Parameter* find_parameter(std::string_view name) {
  for (const Parameter& parameter : kParameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

/// Returns true if the number is in the parameter's range. NaN is not.
template <class T>
constexpr bool is_valid(const Parameter& parameter, T number) {
  const Range& range = parameter.range;
  const auto low = static_cast<T>(range.low), high = static_cast<T>(range.high);
  return range.ends_only ? number == low || number == high : number >= low && number <= high;
}

/// Returns "0 to 100", "0 or 2", the bounds of a list, the names of the steps; empty for a flag and
/// for seed.
std::string range_text(const Parameter& parameter);
/// Returns the default as it is written in JSON.
std::string default_text(const Parameter& parameter);
/// Returns "NAME is VALUE; expected 0 to 100". A long value is cut.
std::string out_of_range(const Parameter& parameter, std::string_view value);
/// Returns a number in its shortest form.
std::string number_text(double number);
std::string number_text(float number);
std::string number_text(std::int64_t number);
/// Checks the plain parameters of a request. Returns out_of_range() of the first one that is.
std::optional<std::string> check(const wire::Sampling& sampling);

}  // namespace holdfast::sampling
