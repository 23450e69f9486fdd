#include "tests/simulation/lib/reference.h"

namespace holdfast::simulation {
namespace {

constexpr std::uint64_t kVocab = 32'000;

std::uint64_t mix(std::uint64_t x, std::uint64_t y) {
  x ^= y + 0x9E3779B97F4A7C15ull + (x << 6) + (x >> 2);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  return x ^ (x >> 27);
}

}  // namespace

Stream::Stream(std::uint64_t seed, std::int32_t choice, const std::vector<wire::TokenId>& prompt,
               const std::string& variant)
    : state_(mix(seed, static_cast<std::uint64_t>(choice) + 1)) {
  for (const wire::TokenId id : prompt) state_ = mix(state_, static_cast<std::uint64_t>(id));
  for (const char c : variant) state_ = mix(state_, static_cast<std::uint64_t>(c));
  state_ = mix(state_, 1) | 1;
  if (ended()) state_ += 2;
}

wire::TokenId Stream::next() {
  const auto id = static_cast<wire::TokenId>(state_ % kVocab);
  take(id);
  return id;
}

void Stream::take(wire::TokenId id) {
  state_ = mix(state_, static_cast<std::uint64_t>(id) + 7);
}

Answer reference_answer(std::uint64_t seed, std::int32_t choice,
                        const std::vector<wire::TokenId>& prompt, const std::string& variant,
                        std::int64_t max_tokens) {
  Answer answer;
  Stream stream(seed, choice, prompt, variant);
  while (static_cast<std::int64_t>(answer.ids.size()) < max_tokens) {
    answer.ids.push_back(stream.next());
    if (!stream.ended()) continue;
    answer.finish = wire::FinishReason::kStop;
    break;
  }
  return answer;
}

std::string reference_scores(const std::vector<wire::TokenId>& prompt) {
  std::uint64_t hash = 2;
  for (const wire::TokenId id : prompt) hash = mix(hash, static_cast<std::uint64_t>(id));
  return "scores " + std::to_string(hash);
}

}  // namespace holdfast::simulation
