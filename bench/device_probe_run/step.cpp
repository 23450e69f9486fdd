// A whole decode step as one kernel, beside the same phases as separate launches: microseconds a
// token by the host's clock, and the bits of both.

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>

#include "bench/device_probe_run/q4k.h"
#include "bench/device_probe_run/random.h"
#include "bench/device_probe_run/run.h"

namespace holdfast::bench::probe {
namespace {

using opencl::MemoryHandle;
using std::size_t;

// The 7B shape.
constexpr size_t kWidth = 4096, kFf = 14336, kHeads = 32, kKvHeads = 8, kHeadDim = 128;
constexpr size_t kLayers = 32, kVocab = 32000, kPages = 16, kPageTokens = 64;
constexpr size_t kQkv = (kHeads + 2 * kKvHeads) * kHeadDim;
constexpr size_t kPageBytes = kPages * kLayers * kKvHeads * kHeadDim * kPageTokens * 2;
constexpr int kPhases = 2 + 5 * static_cast<int>(kLayers);

// Where the device's `state` has what, in words (step_ring.cl).
constexpr size_t kRowAt = kWidth, kSquaresAt = 2 * kWidth, kQkvAt = kSquaresAt + kWidth / 16;
constexpr size_t kLogitAt = kQkvAt + kQkv + kWidth + kFf, kTokensAt = kLogitAt + kVocab;
constexpr size_t kStateWords = kTokensAt + 1024 + 8192;

// Bits of the kernel's `flags`.
// kAlone is of this file: the groups do not wait for one another, and results mean nothing.
enum : int { kPrefetch = 1, kAttend = 2, kMultiply = 4, kMeet = 8, kAlone = 16 };

constexpr double kErrorMost = 0.01;  // of the outputs' root mean square
constexpr int kTokens = 16;          // of a launch
constexpr int kRounds = 5;           // of launches, the first one for warming

/// How a kernel is made: teams of 128 items a group, stages of a team's ring, blocks of a stage,
/// groups of a multiprocessor.
struct Make {
  const char* name;
  long teams, stages, chunk;
  size_t groups_each;
};
constexpr Make kMakes[] = {
    {"teams4", 4, 4, 4, 1},   {"teams8", 8, 3, 2, 1},        {"teams6", 6, 5, 2, 1},
    {"teams2x2", 2, 2, 4, 2}, {"teams4_chunk2", 4, 8, 2, 1}, {"teams4_more", 4, 9, 2, 1},
};

constexpr size_t block_bytes(size_t rows, size_t k) {
  return rows / kPanelRows * (k / kBlockK) * kBlockBytes;
}
constexpr size_t weight_bytes() {
  const size_t layer = block_bytes(kQkv + kWidth + 2 * kFf, kWidth) + block_bytes(kWidth, kFf);
  return kLayers * layer + block_bytes(kVocab, kWidth);
}

std::string step_source(const Make& make) {
  return program_text({"ptx", "step_ptx", "step_ring", "step_rows", "step_attention", "step"},
                      {{"TEAMS", make.teams},
                       {"STAGES", make.stages},
                       {"CHUNK", make.chunk},
                       {"WIDTH", kWidth},
                       {"FF", kFf},
                       {"HEADS", kHeads},
                       {"KV_HEADS", kKvHeads},
                       {"LAYERS", kLayers},
                       {"VOCAB", kVocab},
                       {"PAGES", kPages}});
}

/// The model's memory on the device.
struct Model {
  MemoryHandle weights, norms, rope, keys, values, state, words;
};

/// Small halves, and weights by the device.
Model make_model(Card& card) {
  Model m;
  m.weights = card.buffer(weight_bytes());
  const auto fill = card.kernel(card.build("step_fill", step_source(kMakes[0])), "fill_weights");
  card.set(fill, m.weights, std::uint64_t{weight_bytes() / 4});
  card.run(fill, {4096, 1, 256, 1});
  Random random(5);
  std::vector<float> norms((2 * kLayers + 1) * kWidth);
  for (float& v : norms) v = 1.0f + 0.1f * random.normal();
  m.norms = card.buffer_of(norms);
  std::vector<float> rope;
  for (size_t position = 0; position < kPages * kPageTokens; ++position) {
    for (size_t i = 0; i < kHeadDim; ++i) {
      const double by = std::pow(1e4, -static_cast<double>(i % 64) / 64);
      const double angle = static_cast<double>(position) * by;
      rope.push_back(static_cast<float>(i < 64 ? std::cos(angle) : std::sin(angle)));
    }
  }
  m.rope = card.buffer_of(rope);
  std::vector<Half> halves(kPageBytes / 2);
  constexpr size_t kDistinct = size_t{1} << 20;
  for (size_t i = 0; i < halves.size(); ++i) {
    Half& h = halves[i];
    if (i >= kDistinct) {
      h = halves[i - kDistinct];
      continue;
    }
    h = static_cast<Half>(0x3000 + random.below(0x0c00));
    h = static_cast<Half>(h | (random.below(2) << 15));
  }
  m.keys = card.buffer_of(halves);
  m.values = card.buffer_of(halves);
  m.state = card.buffer(kStateWords * 4);
  card.zero(m.state, kStateWords * 4);
  const std::int32_t first = 17;
  card.write(m.state, kTokensAt * 4, &first, 4);
  m.words = card.buffer(4096);
  card.finish();
  return m;
}

/// A kernel on a queue whose launches the device does not time.
class Stepper {
 public:
  Stepper(Run& run, const Make& make, const Model& model)
      : card_(run.card), model_(model), groups_(run.units() * make.groups_each) {
    items_ = static_cast<size_t>(make.teams) * 128;
    kernel_ =
        card_.kernel(card_.build(std::string("step_") + make.name, step_source(make)), "step");
    card_.set(kernel_, model.weights, model.norms, model.rope, model.keys, model.values,
              model.state, model.words, 0, 0, 0, 0);
    if (!card_.good()) return;
    cl_int status = CL_SUCCESS;
    const opencl::Api& api = card_.api();
    queue_ = {api, api.clCreateCommandQueue(card_.context(), card_.device().id, 0, &status)};
    if (status != CL_SUCCESS) card_.fail("make a queue: " + opencl::status_text(status));
  }

  /// Enqueues phases [from, to).
  void enqueue(int from, int to, int position, int flags) {
    if (!card_.good()) return;
    const opencl::Api& api = card_.api();
    const cl_uint none = 0;
    cl_int status = CL_SUCCESS;
    if ((flags & kMeet) != 0) {
      status = api.clEnqueueFillBuffer(queue_.get(), model_.words.get(), &none, sizeof none, 0, 24,
                                       0, nullptr, nullptr);
    }
    card_.set_at(kernel_, 7, from);
    card_.set_at(kernel_, 8, to);
    card_.set_at(kernel_, 9, position);
    card_.set_at(kernel_, 10, flags);
    const size_t all = groups_ * items_;
    if (status == CL_SUCCESS) {
      status = api.clEnqueueNDRangeKernel(queue_.get(), kernel_.get(), 1, nullptr, &all, &items_, 0,
                                          nullptr, nullptr);
    }
    if (status != CL_SUCCESS) card_.fail("launch: " + opencl::status_text(status));
  }
  /// Enqueues whole tokens: one launch, or one for each phase.
  void tokens(int n, int position, int flags, bool launches) {
    if (!launches) {
      return enqueue(0, n * kPhases, position, (flags & kAlone) != 0 ? flags : flags | kMeet);
    }
    for (int phase = 0; phase < n * kPhases; ++phase) enqueue(phase, phase + 1, position, flags);
  }
  void wait() {
    if (!card_.good()) return;
    const cl_int status = card_.api().clFinish(queue_.get());
    if (status != CL_SUCCESS) card_.fail("finish: " + opencl::status_text(status));
  }
  /// Waits; a launch whose groups did not all meet in time is a failure.
  void finish() {
    wait();
    if (card_.good() && card_.values_of<std::uint32_t>(model_.words, 2)[1] != 0) {
      card_.fail("the groups did not meet within two seconds: not all of them are resident");
    }
  }

 private:
  Card& card_;
  const Model& model_;
  size_t groups_, items_ = 0;
  opencl::KernelHandle kernel_;
  opencl::QueueHandle queue_;
};

/// Weights of a row of the panel whose blocks are given, as the device's fill made them.
double weight_in(const std::uint8_t* panel, size_t row, size_t k) {
  const std::uint8_t* block = panel + k / kBlockK * kBlockBytes;
  const size_t at = k % kBlockK, group = at / kGroupK;
  const auto half = [&](size_t i) {
    return static_cast<double>(float_of(static_cast<Half>(block[2 * i] | block[2 * i + 1] << 8)));
  };
  const int code = block[320 + (at / 8 * 16 + row) * 4 + at % 4] >> (at % 8 / 4 * 4) & 15;
  return half(row) * block[64 + group * 16 + row] * code -
         half(16 + row) * block[192 + group * 16 + row];
}

/// Values of an int8 row as the step stores it.
std::vector<double> values_of_row(const std::vector<std::uint32_t>& state, size_t at, size_t n) {
  std::vector<double> out(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t panel = i / 16, byte = (i % 16) ^ (panel / 2 % 2 * 8);
    const auto* bytes = reinterpret_cast<const std::int8_t*>(&state[at + panel * 16]);
    const float one = std::bit_cast<float>(state[at + panel * 16 + 8]);
    out[i] = (bytes[byte] * 128.0 + bytes[16 + byte]) * static_cast<double>(one);
  }
  return out;
}

/// The error of a phase's first panels, [0, 16 * panels), over their root mean square. The row is
/// that at row_at, the matrix begins at matrix_at.
double error_of(Card& card, const Model& model, const std::vector<std::uint32_t>& state,
                size_t row_at, size_t matrix_at, size_t y_at) {
  constexpr size_t kPanels = 24;
  const std::vector<double> row = values_of_row(state, row_at, kWidth);
  std::vector<std::uint8_t> bytes(block_bytes(kPanels * kPanelRows, kWidth));
  card.read(model.weights, matrix_at, bytes.data(), bytes.size());
  double squares = 0, errors = 0, all = 0;
  for (size_t i = 0; i < kWidth / 16; ++i) squares += std::bit_cast<float>(state[kSquaresAt + i]);
  const double factor = 1 / std::sqrt(squares / kWidth + 1e-5);
  for (size_t r = 0; r < kPanels * kPanelRows; ++r) {
    const std::uint8_t* panel = &bytes[r / kPanelRows * block_bytes(kPanelRows, kWidth)];
    double sum = 0;
    for (size_t k = 0; k < kWidth; ++k) sum += row[k] * weight_in(panel, r % kPanelRows, k);
    const double off = std::bit_cast<float>(state[y_at + r]) - sum * factor;
    errors += off * off;
    all += sum * factor * sum * factor;
  }
  return std::sqrt(errors / all);
}

/// The hash of the logits and of the tokens after `tokens`.
std::string hash_after(Card& card, const Model& model, Stepper& stepper, int position, int flags,
                       bool launches) {
  stepper.tokens(kTokens, position, flags, launches);
  stepper.finish();
  if (!card.good()) return "";
  const auto state = card.values_of<std::uint32_t>(model.state, kStateWords);
  char text[40];
  std::snprintf(
      text, sizeof text, "%016" PRIx64 " %d %d", hash_of(&state[kLogitAt], (kVocab + kTokens) * 4),
      static_cast<int>(state[kTokensAt + 1]), static_cast<int>(state[kTokensAt + kTokens - 1]));
  return text;
}

void check(Run& run, const Make& make, const Model& model, const std::string& name) {
  Card& card = run.card;
  Stepper stepper(run, make, model);
  // The first product, and the logits of one token, against the host.
  stepper.tokens(1, 64, kPrefetch | kAttend | kMultiply, true);
  stepper.finish();
  if (!card.good()) return;
  const auto logits = card.values_of<std::uint32_t>(model.state, kStateWords);
  stepper.enqueue(0, 1, 64, kPrefetch | kAttend | kMultiply);
  stepper.enqueue(1, 2, 64, kPrefetch | kAttend | kMultiply);
  stepper.finish();
  if (!card.good()) return;
  const auto qkv = card.values_of<std::uint32_t>(model.state, kStateWords);
  const size_t logits_at = weight_bytes() - block_bytes(kVocab, kWidth);
  for (const auto& [what, error] :
       {std::pair{"qkv", error_of(card, model, qkv, kRowAt, 0, kQkvAt)},
        std::pair{"logits", error_of(card, model, logits, kRowAt, logits_at, kLogitAt)}}) {
    run.report.add(name + "." + what + ".error", std::isfinite(error) ? error : 1e9, "of the rms",
                   Goal{kErrorMost, Better::kLower}, "against float64 from the same codes");
    run.fact(name + "." + what + ".error", std::to_string(error));
  }
  for (const int position : {64, 512}) {
    const int flags = kPrefetch | kAttend | kMultiply;
    const std::string launches = hash_after(card, model, stepper, position, flags, true);
    const std::string whole = hash_after(card, model, stepper, position, flags, false);
    const std::string late = hash_after(card, model, stepper, position, flags & ~kPrefetch, false);
    const std::string what = name + "." + std::to_string(position) + ".hash";
    run.fact(what + ".launches", launches);
    run.fact(what + ".step", whole);
    run.fact(what + ".no_prefetch", late);
    if (card.good() && (launches != whole || launches != late)) {
      run.report.problem(what + ": the step and its launches differ; they are timed anyway");
    }
  }
}

/// A way to run the phases.
struct Way {
  const char* name;
  int flags;
  bool launches = false;
};
constexpr Way kWays[] = {
    {"step", kPrefetch | kAttend | kMultiply},
    {"step_no_prefetch", kAttend | kMultiply},
    {"step_no_attention", kPrefetch | kMultiply},
    {"step_barriers_only", 0},
    {"step_products_only", kPrefetch | kMultiply | kAlone},
    {"step_launches", kPrefetch | kAttend | kMultiply, true},
};

/// Times of each kind of phase in the last launch, by the clock of the first group's
/// multiprocessor.
void report_phases(Run& run, const Model& model, const std::string& name) {
  constexpr const char* kKinds[] = {"qkv",  "attention", "out",  "gate_up",
                                    "down", "logits",    "embed"};
  const auto words = run.card.values_of<std::uint32_t>(model.words, 16);
  if (!run.card.good() || words[7] == 0) return;
  const double us = words[6] / 1e3 / words[7] / kTokens;  // of a cycle, for each token
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    const double all = words[8 + i] * us, each = i < 5 ? all / kLayers : all;
    run.report.add(name + ".phase." + kKinds[i], each, "us", {}, "with its barrier");
    std::fprintf(stderr, "  %-44s %9.2f us each\n", (name + "." + kKinds[i]).c_str(), each);
  }
}

void time_way(Run& run, Stepper& stepper, const Way& way, int position, const std::string& name) {
  std::vector<double> us;
  for (int round = 0; round < kRounds && run.card.good(); ++round) {
    const std::int64_t start = now_us();
    stepper.tokens(kTokens, position, way.flags, way.launches);
    stepper.wait();
    const std::int64_t end = now_us();
    stepper.finish();
    if (round > 0) us.push_back(static_cast<double>(end - start) / kTokens);
  }
  if (!run.card.good()) return;
  run.report.add_samples(name + "." + way.name + ".us", us, "us", Better::kLower);
  std::fprintf(stderr, "  %-44s %9.1f us a token\n", (name + "." + way.name).c_str(), median(us));
}

void try_make(Run& run, const Make& make, std::optional<Model>& made) {
  Card& card = run.card;
  const std::string name = std::string("step.") + make.name;
  const auto item = [&] {
    if (!made) made = make_model(card);
    const Model& model = *made;
    if (card.good()) check(run, make, model, name);
    Stepper stepper(run, make, model);
    for (const int position : {64, 512}) {
      for (const Way& way : kWays) {
        const bool attends = (way.flags & kAttend) != 0;
        if (position != 64 && !attends) continue;
        const std::string what = name + "." + std::to_string(position);
        time_way(run, stepper, way, position, what);
        if (!way.launches) report_phases(run, model, what + "." + way.name);
      }
    }
  };
  if (!run.attempt_ptx(name, item)) made.reset();  // the context is another one
}

}  // namespace

void probe_step(Run& run) {
  std::optional<Model> model;
  for (const Make& make : kMakes) try_make(run, make, model);
}

}  // namespace holdfast::bench::probe
