#include "ops/cli/submit_flags.h"

#include <algorithm>
#include <string>

#include "ops/cli/sampling_flags.h"
#include "shared/sampling/given.h"
#include "shared/sampling/parameters.h"
#include "shared/wire/bounds.h"

namespace holdfast::cli {
namespace {

using enum Kind;

constexpr wire::IntegerRange kAlternatives = {static_cast<std::int64_t>(sampling::kLogprobs.low),
                                              static_cast<std::int64_t>(sampling::kLogprobs.high)};

Error out_of_range(const std::string& flag, const std::string& given, const std::string& low,
                   const std::string& high) {
  return {Errc::kInvalidRequest, "--" + flag + " " + given + ": expected " + low + " to " + high};
}

/// Reads the number of a flag, within HTTP's bounds; `out` stays if it was not given.
template <class Number>
Result<void> take_integer(const Call& call, const char* flag, wire::IntegerRange range,
                          Number* out) {
  if (!call.has(flag)) return {};
  const std::int64_t value = call.integer(flag);
  if (value < range.low || value > range.high) {
    return out_of_range(flag, call.text(flag), std::to_string(range.low),
                        std::to_string(range.high));
  }
  *out = static_cast<Number>(value);
  return {};
}

Result<void> take_stops(const Call& call, std::vector<std::string>* out) {
  *out = call.list("stop");
  if (out->size() > wire::kStopsMax) {
    return Error{Errc::kInvalidRequest,
                 "--stop: expected at most " + std::to_string(wire::kStopsMax)};
  }
  for (const std::string& stop : *out) {
    if (!stop.empty() && stop.size() <= wire::kStopBytesMax) continue;
    return Error{Errc::kInvalidRequest,
                 "--stop: expected 1 to " + std::to_string(wire::kStopBytesMax) + " bytes"};
  }
  return {};
}

}  // namespace

std::vector<Argument> generation_arguments() {
  std::vector<Argument> out = {
      {"--max-tokens", kInteger, "tokens to generate at most (default: what the context leaves)"}};
  const std::vector<Argument> sampling = sampling_arguments();
  out.insert(out.end(), sampling.begin(), sampling.end());
  out.push_back({"--seed", kInteger, "fixes the random numbers (default: drawn and stored)"});
  out.push_back({"--stop", kList, "end before this text; may be repeated"});
  return out;
}

Result<wire::Submit> make_submit(const Call& call) {
  wire::Submit submit;
  wire::Sampling& sampling = submit.sampling;
  HOLDFAST_CHECKED(take_sampling(call, &sampling));
  HOLDFAST_CHECKED(take_integer(call, "prompt-logprobs", kAlternatives, &sampling.prompt_logprobs));
  wire::IntegerRange tokens = wire::kMaxTokens;
  if (call.has("prompt-logprobs")) tokens.low = 0;
  HOLDFAST_CHECKED(take_integer(call, "max-tokens", tokens, &submit.max_tokens));
  HOLDFAST_CHECKED(take_stops(call, &submit.stops));
  submit.seed_given = call.has("seed");
  submit.given = sampling::given_options([&](std::string_view name) {
    std::string flag(name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    const auto found = call.values.find(flag);  // some parameters have no flag
    return found != call.values.end() && !found->second.empty();
  });
  sampling.seed = static_cast<std::uint64_t>(call.integer("seed"));
  submit.priority = wire::PriorityClass::kInteractive;
  return submit;
}

}  // namespace holdfast::cli
