// Goal: nobody changes a kernel's bits without changing kKernelsRev (executor.h), to which running
// requests are bound.
// Method: hashes of outputs for fixed inputs made of integers alone. If this fails because a change
// of bits is intended: raise kKernelsRev and write the new numbers here, in one commit.

#include <gtest/gtest.h>

#include <cstring>

#include "worker/backend/cpu/executor.h"
#include "worker/backend/cpu/family.h"

namespace holdfast::cpu::golden_test {
namespace {

struct Integers {
  std::uint32_t state = 1;
  std::uint32_t next() { return state = state * 1664525u + 1013904223u, state >> 8; }
  float number() { return (static_cast<float>(next() & 0xffff) - 32768.0f) * 0x1p-14f; }
};

std::uint64_t hash_of(const std::vector<float>& values) {
  std::uint64_t h = 1469598103934665603u;
  for (const float f : values) {
    std::uint32_t u = 0;
    std::memcpy(&u, &f, 4);
    h = (h ^ u) * 1099511628211u;
  }
  return h;
}

/// A product with each format of [first, last): random bytes, scales from a few exact halves. New
/// formats are added at the end, so that the hashes of the older ones stay.
std::uint64_t products_hash(const Kernels& kernels, Format first, Format last, bool int8 = false) {
  std::uint64_t all = 0;
  Integers in;
  for (int f = static_cast<int>(first); f < static_cast<int>(last); ++f) {
    const auto format = static_cast<Format>(f);
    const Layout& layout = layout_of(format);
    PackedMatrix m = packed_geometry(format, 32, 256, 32);
    const Region weights = Region::take(m.bytes(), "test").value();
    const Region scratch = Region::take(kUnpackFloats * sizeof(float), "test").value();
    m.data = weights.data();
    for (std::size_t i = 0; i < m.bytes(); ++i) m.data[i] = static_cast<std::uint8_t>(in.next());
    for (std::int64_t b = 0; b < m.panels * m.blocks; ++b) {
      std::uint8_t* block = m.data + b / m.blocks * static_cast<std::int64_t>(m.panel_bytes) +
                            b % m.blocks * block_bytes(layout);
      for (int i = 1; layout.has_d && i < scale_offset(layout); i += 2) {
        block[i] = static_cast<std::uint8_t>(0x20 | (block[i] & 0x83));  // small, of either sign
      }
      // Float formats: a byte of exponent that is neither subnormal nor infinite.
      const int width = layout.low_bits / 8;
      for (int i = width - 1; !layout.has_d && i < block_bytes(layout); i += width) block[i] = 0x3a;
    }
    std::vector<float> x(3 * 272), y(3 * 32);
    for (float& v : x) v = in.number();
    const ActivationFormat* activation_format = kernels.activation_format(format, int8);
    const std::int64_t stride =
        activation_format != nullptr ? 9 * activation_format->block_bytes : 0;
    std::vector<std::uint8_t> q(static_cast<std::size_t>(3 * stride));
    for (int i = 0; i < 3 && activation_format != nullptr; ++i) {
      activation_format->make(x.data() + i * 272, 256, q.data() + i * stride);
    }
    MatmulArgs args = {&m, 0,        2,  x.data(),        272, q.data(), stride,
                       3,  y.data(), 32, scratch.floats()};
    args.int8 = int8;
    kernels.matmul(args);
    EXPECT_TRUE(kernels.all_finite(y.data(), 96)) << f;  // else the hash would mean little
    all = all * 31 + hash_of(y);
  }
  return all;
}

std::uint64_t rows_hash(const Kernels& kernels) {
  Integers in;
  std::vector<float> x(512), w(512), out(512);
  for (float& v : x) v = in.number() * 20;
  for (float& v : w) v = in.number();
  kernels.exp(x.data(), out.data(), 512);
  std::uint64_t all = hash_of(out);
  kernels.rmsnorm(x.data(), w.data(), 512, 1e-6f, out.data());
  all = all * 31 + hash_of(out);
  kernels.silu_mul(x.data(), w.data(), 512);
  return all * 31 + hash_of(x);
}

/// The kernels that only some architectures use.
std::uint64_t variants_hash(const Kernels& kernels) {
  Integers in;
  std::vector<float> x(512), w(512), b(512), out(512);
  for (float& v : x) v = in.number() * 20;
  for (float& v : w) v = in.number();
  for (float& v : b) v = in.number();
  std::uint64_t all = 0;
  kernels.layernorm(x.data(), w.data(), b.data(), 500, 1e-6f, out.data());
  all = all * 31 + hash_of(out);
  kernels.rmsnorm_spread(x.data(), w.data(), 512, 480, 1e-6f, out.data());
  all = all * 31 + hash_of(out);
  for (const Activate act : {Activate::kSilu, Activate::kGeluTanh, Activate::kGeluErf}) {
    out = x;
    kernels.activate(act, out.data(), w.data(), 512);
    all = all * 31 + hash_of(out);
  }
  out = x;
  kernels.add_scaled(out.data(), w.data(), 0.3f, 512);
  kernels.scale_cap(out.data(), 0.7f, 5.0f, 512);
  return all * 31 + hash_of(out);
}

std::uint64_t gated_hash(const Kernels& kernels) {
  Integers in;
  std::vector<float> gate(512), up(512);
  for (float& v : gate) v = in.number() * 6;
  for (float& v : up) v = in.number() * 6;
  kernels.activate(Activate::kSwigluOai, gate.data(), up.data(), 512);
  return hash_of(gate);
}

std::uint64_t squared_hash(const Kernels& kernels) {
  Integers in;
  std::vector<float> x(512);
  for (float& v : x) v = in.number() * 6;
  kernels.activate(Activate::kReluSquared, x.data(), nullptr, 512);
  return hash_of(x);
}

/// A recurrent layer's head, and the gate of one that attends.
std::uint64_t delta_hash(const Kernels& kernels) {
  constexpr std::int64_t kTokens = 20, kDim = 32, kStride = 3 * kDim + kLanes;
  Integers in;
  std::vector<float> x(kTokens * kStride), conv(4 * 3 * kDim + kLanes), gates(2 * kTokens);
  std::vector<float> norm(kDim), z(kTokens * kStride), out(kTokens * kDim), state(kDim * kDim);
  std::vector<float> rows(3 * kStride), scratch(delta_scratch_floats(kDim, kDim));
  for (auto* all : {&x, &conv, &gates, &norm, &z}) {
    for (float& f : *all) f = in.number();
  }
  DeltaArgs a;
  a.tokens = kTokens;
  a.keys = a.values = kDim;
  a.taps = 4;
  a.in = x.data();
  a.after = rows.data();
  a.in_stride = a.row_stride = a.z_stride = kStride;
  a.conv = conv.data();
  a.conv_stride = 3 * kDim;
  a.at_v = 2 * kDim;
  a.at_k = kDim;
  a.gates = gates.data();
  a.gate_stride = 2;
  a.at_alpha = 1;
  a.rate = -0.5f;
  a.state = state.data();
  a.norm = norm.data();
  a.eps = 1e-6f;
  a.z = z.data();
  a.out = out.data();
  a.out_stride = kDim;
  a.scratch = scratch.data();
  kernels.delta(a);
  kernels.sigmoid_mul(z.data(), x.data(), kTokens * kStride);
  return hash_of(out) * 31 + hash_of(state) * 7 + hash_of(rows) * 3 + hash_of(z);
}

std::uint64_t attention_hash(const Kernels& kernels, bool ranged = false,
                             const float* sinks = nullptr) {
  constexpr std::int32_t kDim = 64, kTokens = 600;
  Integers in;
  std::vector<float> k(kDim * 640), v(kDim * 640), q(2 * 2 * kDim), out(2 * 2 * kDim);
  for (float& f : k) f = in.number();
  for (float& f : v) f = in.number();
  for (float& f : q) f = in.number();
  std::vector<float> scratch(static_cast<std::size_t>(attention_scratch_floats(4, kDim)));
  const std::int32_t pages[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  AttentionArgs args;
  args.k = reinterpret_cast<const std::uint8_t*>(k.data());
  args.v = reinterpret_cast<const std::uint8_t*>(v.data());
  args.page_bytes = kDim * kPageTokens * 4;
  args.pages = pages;
  args.q = q.data();
  args.q_stride = 2 * kDim;
  args.out = out.data();
  args.out_stride = 2 * kDim;
  args.start = kTokens - 2;
  args.tokens = 2;
  args.group = 2;
  args.head_dim = args.head_pad = kDim;
  args.scale = 0.125f;
  args.scratch = scratch.data();
  if (ranged) {
    args.window = 530;
    args.cap = sinks != nullptr ? 0 : 1.5f;
    args.sinks = sinks;
    kernels.attention_ranged(args);
  } else {
    kernels.attention(args);
  }
  return hash_of(out);
}

TEST(Golden, KernelHashes_AtThisKernelsRevision_AreUnchanged) {
  ASSERT_STREQ(kKernelsRev, "r4");
  std::vector<std::string> families = runnable_families();
  for (const char* name : {"amx-emulated", "avx512bf16-emulated"}) {
    if (select_family(name).has_value()) families.emplace_back(name);
  }
  for (const std::string& name : families) {
    const Kernels& kernels = *select_family(name).value();
    // Where there are two kernel classes these are the decode-heavy kernels.
    const bool tiles = std::string_view(kernels.numerics) == "bf16";
    const bool pairs = std::string_view(kernels.numerics) == "pairs";
    EXPECT_EQ(products_hash(kernels, Format::kF32, Format::kTwoBit), tiles ? 8731296487212222577u
                                                                     : pairs
                                                                         ? 12249942693691964836u
                                                                         : 13548883683883742597u)
        << name;
    EXPECT_EQ(products_hash(kernels, Format::kTwoBit, Format::kCount), tiles ? 4761610407981872277u
                                                                       : pairs
                                                                           ? 10742172175455271214u
                                                                           : 4874003963378768255u)
        << name;
    if (!tiles && !pairs) {
      EXPECT_EQ(products_hash(kernels, Format::kQ4_0, Format::kCount, true), 6725781070147138284u)
          << name;
    }
    EXPECT_EQ(rows_hash(kernels), 13375214565494981221u) << name;
    EXPECT_EQ(attention_hash(kernels), tiles ? 1130023753971131321u : 3826396074641930809u) << name;
    EXPECT_EQ(attention_hash(kernels, true), tiles ? 17694760274874551237u : 1345927400944552226u)
        << name;
    const float sinks[] = {0.75f, -1.25f};
    EXPECT_EQ(attention_hash(kernels, true, sinks),
              tiles ? 14760544945141087394u : 16378075174023393513u)
        << name;
    EXPECT_EQ(variants_hash(kernels), 158034254974106998u) << name;
    EXPECT_EQ(gated_hash(kernels), 13161700307365131759u) << name;
    EXPECT_EQ(squared_hash(kernels), 18074471487770572838u) << name;
    EXPECT_EQ(delta_hash(kernels), 17047067069305592791u) << name;
  }
}

}  // namespace
}  // namespace holdfast::cpu::golden_test
