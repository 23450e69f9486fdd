#include "worker/engine/ranking.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <utility>

#include "shared/base/check.h"

namespace holdfast::engine {
namespace {

using backend::kBlockIds;

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

/// A key that rises where the logit falls. Both zeros are one logit.
std::uint32_t falling_key(float logit) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0f);
  return bits >> 31 != 0 ? bits : bits ^ 0x7fffffffu;
}

}  // namespace

Ranking::Ranking(std::int32_t vocab) : vocab_(vocab), blocks_(backend::logit_blocks(vocab)) {
  values_.reserve(static_cast<std::size_t>(vocab));
  spare_.reserve(static_cast<std::size_t>(vocab));
}

std::int32_t Ranking::ids_in(std::int32_t block) const {
  return std::min(kBlockIds, vocab_ - block * kBlockIds);
}

TokenId Ranking::first_with(const LogitRow& row, float max) const {
  const float* block = std::find(row.maxima, row.maxima + blocks_, max);
  CHECK(block != row.maxima + blocks_);
  const auto at = static_cast<std::int32_t>(block - row.maxima);
  const float* first = row.at + at * kBlockIds;
  const float* end = first + ids_in(at);
  const float* id = std::find(first, end, max);
  CHECK(id != end);
  return static_cast<TokenId>(id - row.at);
}

/// Collects ids with a logit above `least`, and the first `equal` of those with that one, in their
/// order.
void Ranking::collect(const LogitRow& row, float least, std::int32_t equal,
                      std::vector<Candidate>& out) {
  out.clear();
  std::size_t n = 0;
  for (std::int32_t block = 0; block < blocks_; ++block) {
    if (row.maxima[block] < least || row.maxima[block] == kExcluded) continue;
    out.resize(n + kBlockIds);
    const TokenId first = block * kBlockIds, end = first + ids_in(block);
    for (TokenId id = first; id < end; ++id) {  // without branches: half of them may match
      const float logit = row.at[id];
      const bool level = (logit == least) & (equal > 0);
      out[n] = {logit, id};
      n += static_cast<std::size_t>((logit > least) | level);
      equal -= static_cast<std::int32_t>(level);
    }
  }
  out.resize(n);
}

void Ranking::at_least(const LogitRow& row, float least, std::vector<Candidate>& out) {
  collect(row, least, least == kExcluded ? 0 : vocab_, out);
  sort(out);
}

/// Blocks bound the k-th logit: where k blocks have a logit of at least some value, k ids have.
void Ranking::first(const LogitRow& row, std::int32_t k, std::vector<Candidate>& out) {
  float least = kExcluded;
  if (k < vocab_) {
    const bool by_blocks = k <= blocks_;
    values_.assign(by_blocks ? row.maxima : row.at,
                   by_blocks ? row.maxima + blocks_ : row.at + vocab_);
    const auto kth = values_.begin() + (k - 1);
    std::nth_element(values_.begin(), kth, values_.end(), std::greater<>());
    least = *kth;
  }
  collect(row, least, least == kExcluded ? 0 : k, out);
  sort(out);
  if (out.size() > static_cast<std::size_t>(k)) out.resize(static_cast<std::size_t>(k));
}

/// Sums weights by how far below the greatest logit they are, in steps of an eighth of T. The step
/// of a logit never rises with the logit, so whole steps are a beginning of the order.
float Ranking::least_for(const LogitRow& row, const float* weights, float max, float temperature,
                         double target_mass) {
  constexpr int kSteps = 256, kParts = 4;  // several: additions to one sum wait for each other
  std::array<std::array<double, kSteps>, kParts> mass{};
  const float scale = 8.0f / temperature;
  for (std::int32_t id = 0; id < vocab_; ++id) {
    const float step = std::min((max - row.at[id]) * scale, static_cast<float>(kSteps - 1));
    mass[static_cast<std::size_t>(id) % kParts][static_cast<std::size_t>(step)] +=
        static_cast<double>(weights[id]);
  }
  double sum = 0;
  for (std::size_t step = 0; step + 1 < kSteps; ++step) {
    for (const auto& part : mass) sum += part[step];
    if (sum < target_mass * (1 + 1e-9)) continue;  // a sum in another order may be less
    // Rounded: a step further, which is too many rather than too few.
    return max - static_cast<float>(step + 2) / scale;
  }
  return kExcluded;
}

/// Sorts by 11 bits of the key at a time, from the lowest on: equal logits leave ids in order.
void Ranking::sort(std::vector<Candidate>& list) {
  constexpr std::size_t kRadixSortMin = 256;
  if (list.size() < kRadixSortMin) return std::sort(list.begin(), list.end(), before);
  constexpr int kBits = 11;
  std::array<std::array<std::uint32_t, 1 << kBits>, 3> counts{};
  const auto digit = [](const Candidate& c, std::size_t turn) {
    return falling_key(c.logit) >> turn * kBits & ((1u << kBits) - 1);
  };
  for (const Candidate& c : list) {
    for (std::size_t turn = 0; turn < counts.size(); ++turn) ++counts[turn][digit(c, turn)];
  }
  spare_.resize(list.size());
  for (std::size_t turn = 0; turn < counts.size(); ++turn) {
    std::uint32_t at = 0;
    for (std::uint32_t& count : counts[turn]) at += std::exchange(count, at);
    for (const Candidate& c : list) spare_[counts[turn][digit(c, turn)]++] = c;
    list.swap(spare_);
  }
}

}  // namespace holdfast::engine
