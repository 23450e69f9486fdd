// Goal: a head of a gated delta net computes what its paper says, with the same bits in every
// family, however its tokens are cut into calls. Method: random rows of drawn sizes, odd ones among
// them, against float64; calls over all tokens, one by one, and in parts that go on in the middle.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/kernels/random_matrix.h"
#include "worker/backend/cpu/family.h"
#include "worker/backend/cpu/kernels.h"

namespace holdfast::cpu::delta_test {
namespace {

constexpr std::int64_t kTokens = 37;

struct Head {
  std::int64_t keys, values;
  int taps;
  std::int64_t columns() const { return 2 * keys + values; }
  std::int64_t stride() const { return round_up(columns(), kLanes) + kLanes; }
  std::vector<float> in, conv, gates, norm, z;
  float rate = -0.7f, step_bias = 0.2f;

  Head(std::int64_t k, std::int64_t v, int t) : keys(k), values(v), taps(t) {
    in = random_rows(kTokens, stride(), stride(), 1);
    conv = random_rows(taps, columns(), round_up(columns(), kLanes), 2);
    conv.resize(conv.size() + kLanes);
    gates = random_rows(kTokens, 2, 2, 3);
    for (float& g : gates) g *= 3;
    norm = random_rows(1, values, round_up(values, kLanes), 4);
    z = random_rows(kTokens, stride(), stride(), 5);
  }
};

/// The state that one sequence carries from call to call.
struct Carried {
  std::vector<float> state, rows, next_rows;
  explicit Carried(const Head& h)
      : state(static_cast<std::size_t>(h.keys * round_up(h.values, kLanes))),
        rows(static_cast<std::size_t>((h.taps - 1) * h.stride())),
        next_rows(rows.size()) {}
};

/// Runs tokens [from, to), of which `first` have been done by the call before on the same rows.
void call(const Kernels& k, const Head& h, Carried& c, std::int64_t from, std::int64_t to,
          std::int64_t first, std::vector<float>& out) {
  std::vector<float> scratch(static_cast<std::size_t>(delta_scratch_floats(h.keys, h.values)));
  DeltaArgs a;
  a.first = first;
  a.tokens = to - from;
  a.keys = h.keys;
  a.values = h.values;
  a.taps = h.taps;
  a.in = h.in.data() + from * h.stride();
  a.in_stride = a.row_stride = h.stride();
  a.before = from > 0 ? c.rows.data() : nullptr;
  a.after = c.next_rows.data();
  a.conv = h.conv.data();
  a.conv_stride = round_up(h.columns(), kLanes);
  a.at_q = h.values;  // anywhere
  a.at_k = h.values + h.keys;
  a.at_v = 0;
  a.gates = h.gates.data() + from * 2;
  a.gate_stride = 2;
  a.at_beta = 1;
  a.rate = h.rate;
  a.step_bias = h.step_bias;
  a.state = c.state.data();
  a.norm = h.norm.data();
  a.eps = 1e-6f;
  a.z = h.z.data() + from * h.stride();
  a.z_stride = h.stride();
  a.out = out.data() + from * h.values;
  a.out_stride = h.values;
  a.scratch = scratch.data();
  k.delta(a);
}

/// Runs all tokens in calls that end at `ends`.
std::vector<float> run(const Kernels& k, const Head& h, const std::vector<std::int64_t>& ends) {
  Carried c(h);
  std::vector<float> out(static_cast<std::size_t>(kTokens * h.values));
  std::int64_t from = 0;
  for (const std::int64_t end : ends) {
    call(k, h, c, from, end, 0, out);
    c.rows.swap(c.next_rows);
    from = end;
  }
  return out;
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}

std::vector<double> want_of(const Head& h) {
  const auto at = [](const std::vector<float>& v, std::int64_t i) {
    return static_cast<double>(v[static_cast<std::size_t>(i)]);
  };
  std::vector<double> state(static_cast<std::size_t>(h.keys * h.values)), out;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    std::vector<double> x(static_cast<std::size_t>(h.columns()));
    for (std::int64_t c = 0; c < h.columns(); ++c) {
      double sum = 0;
      for (int j = 0; j < h.taps; ++j) {
        const std::int64_t from = t + j - (h.taps - 1);
        if (from >= 0) {
          sum +=
              at(h.in, from * h.stride() + c) * at(h.conv, j * round_up(h.columns(), kLanes) + c);
        }
      }
      x[static_cast<std::size_t>(c)] = silu(sum);
    }
    const auto unit = [&](std::int64_t first) {
      std::vector<double> v(x.begin() + first, x.begin() + first + h.keys);
      double squares = 1e-6;
      for (const double e : v) squares += e * e;
      for (double& e : v) e /= std::sqrt(squares);
      return v;
    };
    const std::vector<double> q = unit(h.values), k = unit(h.values + h.keys);
    const double time = std::log1p(std::exp(at(h.gates, 2 * t) + double{h.step_bias}));
    const double decay = std::exp(double{h.rate} * time);
    const double beta = 1 / (1 + std::exp(-at(h.gates, 2 * t + 1)));
    std::vector<double> o;
    double squares = 0;
    for (std::int64_t j = 0; j < h.values; ++j) {
      double kv_mem = 0, y = 0;
      for (std::int64_t i = 0; i < h.keys; ++i) {
        kv_mem += (state[static_cast<std::size_t>(i * h.values + j)] *= decay) *
                  k[static_cast<std::size_t>(i)];
      }
      for (std::int64_t i = 0; i < h.keys; ++i) {
        double& s = state[static_cast<std::size_t>(i * h.values + j)];
        s += k[static_cast<std::size_t>(i)] * (x[static_cast<std::size_t>(j)] - kv_mem) * beta;
        y += s * q[static_cast<std::size_t>(i)] / std::sqrt(static_cast<double>(h.keys));
      }
      o.push_back(y);
      squares += y * y;
    }
    const double scale = 1 / std::sqrt(squares / static_cast<double>(h.values) + 1e-6);
    for (std::int64_t j = 0; j < h.values; ++j) {
      out.push_back(o[static_cast<std::size_t>(j)] * scale * at(h.norm, j) *
                    silu(at(h.z, t * h.stride() + j)));
    }
  }
  return out;
}

TEST(Delta, GatedDeltaRule_WhenCallsAreCut_AgreesWithFloat64AndRepeatsBits) {
  std::vector<std::int64_t> single;
  for (std::int64_t t = 1; t <= kTokens; ++t) single.push_back(t);
  for (const auto& [keys, values, taps] : {std::tuple<std::int64_t, std::int64_t, int>{128, 128, 4},
                                           {32, 48, 4},
                                           {5, 7, 2},
                                           {33, 100, 5},
                                           {64, 16, 3}}) {
    const Head h(keys, values, taps);
    const std::vector<float> have = run(scalar_kernels(), h, {kTokens});
    const std::vector<double> want = want_of(h);
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      error += std::pow(static_cast<double>(have[i]) - want[i], 2);
      norm += want[i] * want[i];
    }
    EXPECT_LT(std::sqrt(error / norm), 1e-5) << keys << " " << values;
    for (const std::string& name : runnable_families()) {
      const Kernels& k = *select_family(name).value();
      for (const auto& ends : {std::vector<std::int64_t>{kTokens}, single, {1, 3, 20, kTokens}}) {
        const std::vector<float> again = run(k, h, ends);
        EXPECT_EQ(std::memcmp(again.data(), have.data(), have.size() * sizeof(float)), 0)
            << name << " " << keys << " " << values << " in " << ends.size();
      }
    }
  }
}

// A call that stores a snapshot midway goes on after it with the same rows.
TEST(Delta, GatedDeltaRule_WhenResumedMidway_HasTheSameBits) {
  const Head h(48, 40, 4);
  const Kernels& k = *select_family("").value();
  const std::vector<float> want = run(k, h, {kTokens});
  for (std::int64_t cut = 1; cut <= kTokens; ++cut) {
    Carried c(h);
    std::vector<float> out(want.size());
    call(k, h, c, 0, cut, 0, out);
    const std::vector<float> snapshot_state = c.state, snapshot_rows = c.next_rows;
    call(k, h, c, 0, kTokens, cut, out);
    EXPECT_EQ(std::memcmp(out.data(), want.data(), want.size() * sizeof(float)), 0) << cut;
    if (cut == kTokens) continue;
    Carried other(h);  // a sequence with the same beginning
    other.state = snapshot_state;
    other.rows = snapshot_rows;
    std::vector<float> rest(want.size());
    call(k, h, other, cut, kTokens, 0, rest);
    const auto done = static_cast<std::size_t>(cut * h.values);
    EXPECT_EQ(
        std::memcmp(rest.data() + done, want.data() + done, (want.size() - done) * sizeof(float)),
        0)
        << cut;
  }
}

TEST(Delta, GatedDeltaRule_WithExtremeGates_StaysFiniteAndPreservesNaN) {
  Head h(16, 16, 2);
  for (const float gate : {-1e30f, -100.0f, 100.0f, 1e30f}) {
    for (float& g : h.gates) g = gate;
    for (const float y : run(*select_family("").value(), h, {kTokens})) {
      EXPECT_TRUE(std::isfinite(y)) << gate;
    }
  }
  h.gates[8] = std::numeric_limits<float>::quiet_NaN();  // must not turn into a number
  EXPECT_TRUE(std::isnan(run(*select_family("").value(), h, {kTokens}).back()));
}

}  // namespace
}  // namespace holdfast::cpu::delta_test
