// Goal: attention over pages is softmax attention, whatever else lies in the pages, and a token's
// bits do not depend on how many tokens are computed with it or on where its pages lie.
// Method: against float64 over lengths around page (64) and split (512) borders; bitwise between
// chunkings, families and page tables. Memory after the sequence's end is NaN.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "tests/kernels/fp8.h"
#include "tests/kernels/random_matrix.h"
#include "worker/backend/cpu/family.h"

namespace holdfast::cpu::attention_test {
namespace {

constexpr std::int32_t kPages = 12;

/// One kv head's keys and values of a sequence, and its queries.
struct Sequence {
  std::int32_t head_dim, head_pad, group, n;
  KvType kv;
  std::vector<float> q, k, v;             // q [n][group * head_pad]; k, v [n][head_pad]
  std::vector<float> stored_k, stored_v;  // as pages hold them
};

/// Rows of `n` floats as pages of a type hold them.
std::vector<float> as_stored(std::vector<float> x, std::size_t n, KvType kv) {
  for (std::size_t at = 0; at < x.size(); at += n) {
    float most = 0;
    for (std::size_t i = at; i < at + n; ++i) most = std::max(most, std::fabs(x[i]));
    for (std::size_t i = at; i < at + n; ++i) {
      if (kv == KvType::kF16) x[i] = gguf::half_to_float(gguf::float_to_half(x[i]));
      if (kv == KvType::kBF16) x[i] = gguf::bf16_to_float(gguf::float_to_bf16(x[i]));
      if (kv == KvType::kInt8) x[i] = std::nearbyint(x[i] * (127.0f / most)) * (most / 127.0f);
      if (kv == KvType::kFp8) x[i] = fp8_value(nearest_fp8(x[i]));
    }
  }
  return x;
}

constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kInt8,
                             KvType::kFp8};

Sequence random_sequence(std::int32_t head_dim, std::int32_t group, std::int32_t n, KvType kv) {
  Sequence s;
  s.head_dim = head_dim;
  s.head_pad = static_cast<std::int32_t>(round_up(head_dim, 16));
  s.group = group;
  s.n = n;
  s.kv = kv;
  s.k = random_rows(n, head_dim, s.head_pad, 31);
  s.v = random_rows(n, head_dim, s.head_pad, 32);
  s.stored_k = as_stored(s.k, static_cast<std::size_t>(s.head_pad), kv);
  s.stored_v = as_stored(s.v, static_cast<std::size_t>(s.head_pad), kv);
  for (std::int32_t g = 0; g < group; ++g) {
    const std::vector<float> q =
        random_rows(n, head_dim, s.head_pad, 40 + static_cast<std::uint32_t>(g));
    if (g == 0) s.q.assign(q.size() * static_cast<std::size_t>(group), 0);
    for (std::int32_t t = 0; t < n; ++t) {
      std::copy_n(q.data() + t * s.head_pad, s.head_pad, s.q.data() + (t * group + g) * s.head_pad);
    }
  }
  return s;
}

/// Pages as the executor fills them; all else in the pool is NaN.
struct Pool {
  std::vector<std::uint8_t> k, v;
  std::int64_t page_bytes;
  std::vector<std::int32_t> table;
};

Pool fill_pool(const Kernels& kernels, const Sequence& s, std::int32_t first_page) {
  Pool pool;
  pool.page_bytes = head_page_bytes(s.kv, s.head_pad);
  pool.k.assign(static_cast<std::size_t>(pool.page_bytes * kPages), 0xff);
  pool.v.assign(static_cast<std::size_t>(pool.page_bytes * kPages), 0xff);
  for (std::int32_t p = 0; p < kPages; ++p) pool.table.push_back((p * 5 + first_page) % kPages);
  for (std::int32_t t = 0; t < s.n; ++t) {
    const std::int64_t at = pool.table[static_cast<std::size_t>(t / kPageTokens)] * pool.page_bytes;
    const auto slot = static_cast<std::int32_t>(t % kPageTokens);
    kernels.store_key(s.k.data() + t * s.head_pad, s.head_dim, slot, s.kv, pool.k.data() + at);
    kernels.store_value(s.v.data() + t * s.head_pad, s.head_pad, slot, s.kv, pool.v.data() + at);
  }
  return pool;
}

/// The visible tokens of a query, the cap of its scores, and whether heads have sinks.
struct Ranged {
  std::int32_t window = 0;
  bool all = false;
  float cap = 0;
  bool sinks = false;
};

/// The sinks of the heads, below and above all scores.
constexpr float kSinks[] = {0.4f, -30, 2.5f, 60, 0, -1, 1};

std::vector<float> attend(const Kernels& kernels, const Sequence& s, const Pool& pool,
                          std::int32_t chunk, const Ranged* ranged = nullptr) {
  std::vector<float> out(static_cast<std::size_t>(s.n * s.group * s.head_dim));
  std::vector<float> scratch(static_cast<std::size_t>(
      attention_scratch_floats(static_cast<std::int64_t>(chunk) * s.group, s.head_pad)));
  for (std::int32_t at = 0; at < s.n; at += chunk) {
    AttentionArgs args;
    args.k = pool.k.data();
    args.v = pool.v.data();
    args.page_bytes = pool.page_bytes;
    args.pages = pool.table.data();
    args.kv = s.kv;
    args.q_stride = static_cast<std::int64_t>(s.group) * s.head_pad;
    args.q = s.q.data() + at * args.q_stride;
    args.out_stride = static_cast<std::int64_t>(s.group) * s.head_dim;
    args.out = out.data() + at * args.out_stride;
    args.start = at;
    args.tokens = std::min(chunk, s.n - at);
    args.group = s.group;
    args.head_dim = s.head_dim;
    args.head_pad = s.head_pad;
    args.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
    args.scratch = scratch.data();
    if (ranged == nullptr) {
      kernels.attention(args);
      continue;
    }
    args.window = ranged->window;
    args.noncausal_end = ranged->all ? s.n : 0;
    args.cap = ranged->cap;
    args.sinks = ranged->sinks ? kSinks : nullptr;
    kernels.attention_ranged(args);
  }
  return out;
}

/// Softmax attention of one query in float64.
std::vector<double> exact_attention(const Sequence& s, std::int32_t t, std::int32_t g,
                                    const Ranged& ranged = {}) {
  const auto window = static_cast<std::size_t>(ranged.window);
  std::vector<double> score(static_cast<std::size_t>(ranged.all ? s.n : t + 1));
  const std::size_t first = window > 0 && static_cast<std::size_t>(t) + 1 > window
                                ? static_cast<std::size_t>(t) + 1 - window
                                : 0;
  double top = -1e300;
  for (std::size_t j = 0; j < score.size(); ++j) {
    for (std::int32_t d = 0; d < s.head_dim; ++d) {
      score[j] +=
          static_cast<double>(s.q[static_cast<std::size_t>((t * s.group + g) * s.head_pad + d)]) *
          static_cast<double>(
              s.stored_k[j * static_cast<std::size_t>(s.head_pad) + static_cast<std::size_t>(d)]);
    }
    score[j] /= std::sqrt(static_cast<double>(s.head_dim));
    if (ranged.cap > 0) {
      score[j] =
          static_cast<double>(ranged.cap) * std::tanh(score[j] / static_cast<double>(ranged.cap));
    }
    if (j < first) score[j] = -1e300;
    top = std::max(top, score[j]);
  }
  const auto sink = static_cast<double>(kSinks[g]);
  if (ranged.sinks) top = std::max(top, sink);
  double sum = ranged.sinks ? std::exp(sink - top) : 0;
  for (double& x : score) sum += x = std::exp(x - top);
  std::vector<double> out(static_cast<std::size_t>(s.head_dim));
  for (std::size_t j = 0; j < score.size(); ++j) {
    for (std::size_t d = 0; d < out.size(); ++d) {
      out[d] += score[j] / sum *
                static_cast<double>(s.stored_v[j * static_cast<std::size_t>(s.head_pad) + d]);
    }
  }
  return out;
}

/// The families with one kernel class, and the emulation of amx, which is slow.
std::vector<const Kernels*> all_kernels() {
  std::vector<const Kernels*> out;
  for (const std::string& name : runnable_families()) {
    const Kernels* kernels = select_family(name).value();
    if (kernels->prefill_heavy == nullptr) out.push_back(kernels);
  }
  const auto emulated = select_family("amx-emulated");
  if (emulated.has_value()) out.push_back(*emulated);
  return out;
}
/// One family of each numerics class.
std::vector<const Kernels*> one_of_each_class() {
  std::map<std::string, const Kernels*> classes;
  for (const Kernels* kernels : all_kernels()) classes.emplace(kernels->numerics, kernels);
  std::vector<const Kernels*> out;
  for (const auto& [numerics, kernels] : classes) out.push_back(kernels);
  return out;
}

/// The chunk sizes whose bits are compared, for a family and group.
std::vector<std::int32_t> chunks_of(const Kernels& kernels, std::int32_t group) {
  const std::string_view name = kernels.name;
  if (name == "scalar") return {32};
  if (name == "amx-emulated") return {5, 256 / group};
  return name == "amx" ? std::vector<std::int32_t>{1, 3, 32, 256 / group}
                       : std::vector<std::int32_t>{1, 3, 32};
}

/// The allowed error: tiles leave out what is below 2^-16 of a number, and the numbers here are
/// below 5.
double bound_of(const Kernels& kernels) {
  return std::string_view(kernels.numerics) == "bf16" ? 1e-4 : 5e-6;
}

void agrees_around_borders(const Kernels& kernels, std::int32_t head_dim, KvType kv) {
  const Sequence s = random_sequence(head_dim, 3, 600, kv);
  const std::vector<float> out = attend(kernels, s, fill_pool(kernels, s, 1), 10);
  for (const std::int32_t t : {0, 1, 62, 63, 64, 65, 127, 128, 511, 512, 513, 599}) {
    for (std::int32_t g = 0; g < s.group; ++g) {
      const std::vector<double> exact = exact_attention(s, t, g);
      for (std::size_t d = 0; d < exact.size(); ++d) {
        const std::size_t at = static_cast<std::size_t>((t * s.group + g) * head_dim) + d;
        ASSERT_NEAR(out[at], exact[d], bound_of(kernels))
            << kernels.name << " " << head_dim << " token " << t << " d " << d;
      }
    }
  }
}

TEST(Attention, Attention_AroundPageAndSplitBorders_AgreesWithFloat64) {
  std::size_t next = 0;
  for (const std::int32_t head_dim : {16, 40, 64, 80, 128, 64, 40}) {
    const KvType kv = kTypes[next++ % std::size(kTypes)];
    for (const Kernels* kernels : one_of_each_class())
      agrees_around_borders(*kernels, head_dim, kv);
  }
}

TEST(Attention, Attention_WhenChunkFamilyOrPageTableDiffers_HasTheSameBits) {
  std::size_t next = 0;
  for (const std::int32_t head_dim : {16, 40, 64}) {
    for (const std::int32_t group : {1, 4, 4, 7}) {
      if (head_dim == 16 && group == 1) continue;  // others have rows enough for several blocks
      const Sequence s = random_sequence(head_dim, group, 530, kTypes[next++ % std::size(kTypes)]);
      std::map<std::string, std::vector<float>> firsts;  // by numerics class
      for (const Kernels* kernels : all_kernels()) {
        std::vector<float>& first = firsts[kernels->numerics];
        for (const std::int32_t chunk : chunks_of(*kernels, group)) {
          if (std::string_view(kernels->name) == "scalar" && group != 4) continue;
          const std::vector<float> out = attend(*kernels, s, fill_pool(*kernels, s, chunk), chunk);
          if (first.empty()) first = out;
          ASSERT_EQ(std::memcmp(first.data(), out.data(), out.size() * sizeof(float)), 0)
              << kernels->name << " chunk " << chunk << " group " << group;
        }
      }
    }
  }
}

TEST(Attention, NonFiniteValue_WhenInTheKvCache_ReachesOnlyTokensThatAttendIt) {
  const Sequence s = random_sequence(64, 4, 100, KvType::kF32);
  Sequence broken = s;
  constexpr std::int32_t kBad = 70;
  broken.v[kBad * 64 + 5] = std::numeric_limits<float>::infinity();
  for (const Kernels* kernels : all_kernels()) {
    const auto good = attend(*kernels, s, fill_pool(*kernels, s, 1), 24);
    const auto bad = attend(*kernels, broken, fill_pool(*kernels, broken, 1), 24);
    const std::size_t affected_begin = std::size_t{kBad} * 4 * 64;
    ASSERT_EQ(std::memcmp(good.data(), bad.data(), affected_begin * sizeof(float)), 0)
        << kernels->name;
    for (std::size_t at = affected_begin + 5; at < bad.size(); at += 64) {
      ASSERT_FALSE(std::isfinite(bad[at])) << kernels->name << " " << at;
    }
  }
}

constexpr Ranged kRanged[] = {{1, false, 0},        {40, false, 0},      {64, false, 0.7f},
                              {300, false, 0},      {512, false, 2},     {513, false, 0},
                              {900, false, 0},      {0, true, 0},        {0, true, 1.5f},
                              {0, false, 3},        {0, false, 0, true}, {40, false, 0, true},
                              {513, false, 2, true}};

void agrees_in_range(const Kernels& kernels, const Sequence& s, const Ranged& ranged) {
  const auto out = attend(kernels, s, fill_pool(kernels, s, 1), 10, &ranged);
  for (const std::int32_t t : {0, 1, 39, 40, 63, 64, 65, 127, 300, 511, 512, 513, 551, 599}) {
    const std::int32_t g = ranged.sinks ? t % s.group : 1;
    const std::vector<double> exact = exact_attention(s, t, g, ranged);
    for (std::size_t d = 0; d < exact.size(); ++d) {
      const std::size_t at = static_cast<std::size_t>((t * s.group + g) * s.head_dim) + d;
      ASSERT_NEAR(out[at], exact[d], bound_of(kernels))
          << kernels.name << " " << s.head_dim << " window " << ranged.window << " token " << t
          << " d " << d;
    }
  }
}

TEST(RangedAttention, RangedAttention_WithWindowsCapsSinksOrNoMask_AgreesWithFloat64) {
  for (const std::int32_t head_dim : {40, 64}) {
    const Sequence s =
        random_sequence(head_dim, 4, 600, head_dim == 64 ? KvType::kF16 : KvType::kInt8);
    for (const Ranged& ranged : kRanged) {
      for (const Kernels* kernels : one_of_each_class()) agrees_in_range(*kernels, s, ranged);
    }
  }
}

TEST(RangedAttention, RangedAttention_WhenChunkOrFamilyDiffers_HasTheSameBits) {
  for (const Ranged& ranged : kRanged) {
    const Sequence s = random_sequence(40, 4, 530, KvType::kF16);
    std::map<std::string, std::vector<float>> firsts;  // by numerics class
    for (const Kernels* kernels : all_kernels()) {
      std::vector<float>& first = firsts[kernels->numerics];
      for (const std::int32_t chunk : chunks_of(*kernels, s.group)) {
        if (std::string_view(kernels->name) == "scalar" && ranged.window != 40) continue;
        const auto out = attend(*kernels, s, fill_pool(*kernels, s, chunk), chunk, &ranged);
        if (first.empty()) first = out;
        ASSERT_EQ(std::memcmp(first.data(), out.data(), out.size() * sizeof(float)), 0)
            << kernels->name << " chunk " << chunk << " window " << ranged.window;
      }
    }
  }
}

TEST(RangedAttention, RangedAttention_WithoutAnyRange_EqualsPlainAttention) {
  const Sequence s = random_sequence(64, 2, 530, KvType::kBF16);
  const Ranged none;
  for (const Kernels* kernels : all_kernels()) {
    const Pool pool = fill_pool(*kernels, s, 1);
    EXPECT_EQ(attend(*kernels, s, pool, 16, &none), attend(*kernels, s, pool, 16)) << kernels->name;
  }
}

}  // namespace
}  // namespace holdfast::cpu::attention_test
