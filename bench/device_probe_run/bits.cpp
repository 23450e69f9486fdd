// The bits of matrix units: against a model on the host, whose parameters are searched for, and
// against each other.

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "bench/device_probe_run/mma_model.h"
#include "bench/device_probe_run/processors.h"
#include "bench/device_probe_run/random.h"
#include "bench/device_probe_run/run.h"
#include "bench/device_probe_run/tiles.h"

namespace holdfast::bench::probe {
namespace {

constexpr std::size_t kSearchTiles = 1024, kDumpTiles = 200;

/// The host model's output `i` of the tiles.
float modelled(const MmaModel& model, const Tiles& tiles, std::size_t i) {
  const std::size_t tile = i / 128, row = i / 8 % 16, column = i % 8;
  float sum = tiles.c[i];
  for (std::size_t step = 0; step < tiles.steps; ++step) {
    const std::size_t at = tile * tiles.steps + step;
    sum = mma_step(model, &tiles.a[(at * 16 + row) * 16], &tiles.b[(at * 8 + column) * 16], sum);
  }
  return sum;
}

bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// The outputs of the first `tiles_most` tiles that a model gives other bits.
std::size_t differing(const MmaModel& model, const Tiles& tiles, const std::vector<float>& outputs,
                      std::size_t tiles_most) {
  std::size_t count = 0;
  const std::size_t n = std::min(tiles.tiles, tiles_most) * 128;
  for (std::size_t i = 0; i < n; ++i) count += !same_bits(modelled(model, tiles, i), outputs[i]);
  return count;
}

std::vector<float> multiply(Run& run, const opencl::KernelHandle& kernel, const Tiles& tiles,
                            bool by_four) {
  Card& card = run.card;
  const auto a = card.buffer_of(tiles.a), b = card.buffer_of(tiles.b), c = card.buffer_of(tiles.c);
  const auto d = card.buffer(tiles.c.size() * 4);
  const int steps = static_cast<int>(tiles.steps);
  if (by_four) {
    card.set(kernel, a, b, c, d, steps, run.wgmma_lead, run.wgmma_stride);
  } else {
    card.set(kernel, a, b, c, d, steps);
  }
  card.run(kernel, {tiles.tiles / 4, 1, 128, 1});
  return card.values_of<float>(d, tiles.c.size());
}

void dump(Run& run, TileKind kind, const Tiles& tiles, const std::vector<float>& outputs) {
  if (run.options.dump.empty()) return;
  const std::size_t n = std::min(tiles.tiles, kDumpTiles);
  std::ofstream file(run.options.dump, std::ios::binary | std::ios::app);
  const auto put = [&](const void* data, std::size_t bytes) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  };
  file << "tiles " << name_of(kind) << " " << n << " steps " << tiles.steps
       << " then a[16][16] b[8][16] halves by step, c d[16][8] floats\n";
  put(tiles.a.data(), n * tiles.steps * 512);
  put(tiles.b.data(), n * tiles.steps * 256);
  put(tiles.c.data(), n * 512);
  put(outputs.data(), n * 512);
  if (!file) run.card.fail("write " + run.options.dump + ": cannot be written");
}

void note_hash(Run& run, const std::string& name, const std::vector<float>& outputs) {
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash_of(outputs.data(), outputs.size() * 4));
  run.fact("hash." + name, text);
}

/// Compares all outputs with the best models of the search.
void search(Run& run, const std::string& name, const Tiles& tiles,
            const std::vector<float>& outputs) {
  const std::vector<MmaModel> models = all_models();
  const std::size_t searched = std::max<std::size_t>(16, run.count(kSearchTiles, 32) / tiles.steps);
  std::vector<std::size_t> counts(models.size());
  on_all_processors(models.size(), [&](std::size_t i) {
    counts[i] = differing(models[i], tiles, outputs, searched);
  });
  std::string all;
  for (std::size_t i = 0; i < models.size(); ++i) {
    all += models[i].name() + "=" + std::to_string(counts[i]) + " ";
  }
  const std::size_t of = std::min(tiles.tiles, searched) * 128;
  run.report.fact("models." + name, "of " + std::to_string(of) + ": " + all);
  const std::size_t least = *std::min_element(counts.begin(), counts.end());
  for (std::size_t i = 0, reported = 0; i < models.size() && reported < 2; ++i) {
    if (counts[i] != least) continue;
    ++reported;
    std::atomic<std::size_t> differ{0};
    on_all_processors(tiles.c.size(), [&](std::size_t at) {
      if (!same_bits(modelled(models[i], tiles, at), outputs[at])) ++differ;
    });
    run.report.add("bits." + name + "." + models[i].name(), static_cast<double>(differ.load()),
                   "outputs", {},
                   "other bits than the model's, of " + std::to_string(outputs.size()));
  }
}

void try_kind(Run& run, TileKind kind) {
  Card& card = run.card;
  const Tiles tiles = make_tiles(kind, run.count(32'768, 64));
  const auto program = card.build("tiles", program_text({"ptx", "tiles"}));
  const auto kernel = card.kernel(program, "tiles_f16");
  const std::vector<float> outputs = multiply(run, kernel, tiles, false);
  if (!card.good()) return;
  note_hash(run, name_of(kind), outputs);
  dump(run, kind, tiles, outputs);
  search(run, name_of(kind), tiles, outputs);
}

void try_bytes(Run& run) {
  Card& card = run.card;
  constexpr std::size_t kTiles = 4096, kSteps = 2;
  Random random(5);
  std::vector<std::int8_t> a(kTiles * kSteps * 512), b(kTiles * kSteps * 256);
  std::vector<std::int32_t> c(kTiles * 128);
  for (std::int8_t& v : a) v = static_cast<std::int8_t>(random.word());
  for (std::int8_t& v : b) v = static_cast<std::int8_t>(random.word());
  for (std::int32_t& v : c) v = static_cast<std::int32_t>(random.below(1000)) - 500;
  const auto program = card.build("tiles", program_text({"ptx", "tiles"}));
  const auto kernel = card.kernel(program, "tiles_s8");
  const auto left = card.buffer_of(a), right = card.buffer_of(b), start = card.buffer_of(c);
  const auto d = card.buffer(c.size() * 4);
  card.set(kernel, left, right, start, d, static_cast<int>(kSteps));
  card.run(kernel, {kTiles / 4, 1, 128, 1});
  const auto found = card.values_of<std::int32_t>(d, c.size());
  std::size_t differ = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    std::int32_t sum = c[i];
    for (std::size_t k = 0; k < kSteps * 32; ++k) {
      const std::size_t at = i / 128 * kSteps + k / 32;
      sum += a[(at * 16 + i / 8 % 16) * 32 + k % 32] * b[(at * 8 + i % 8) * 32 + k % 32];
    }
    differ += sum != found[i];
  }
  if (!card.good()) return;
  run.report.add("bits.s8", static_cast<double>(differ), "outputs", Goal{0, Better::kLower},
                 "other than the exact integers, of " + std::to_string(c.size()));
}

/// The same tiles by mma and by wgmma.
void compare_wgmma(Run& run, TileKind kind) {
  Card& card = run.card;
  const Tiles tiles = make_tiles(kind, 8192, true);
  const auto program = card.build("tiles", program_text({"ptx", "tiles"}));
  const auto other = card.build_sm90a("wgmma", program_text({"ptx", "wgmma"}));
  const auto mma = card.kernel(program, "tiles_f16"), wgmma = card.kernel(other, "tiles_wgmma");
  const std::vector<float> a = multiply(run, mma, tiles, false);
  const std::vector<float> b = multiply(run, wgmma, tiles, true);
  if (!card.good()) return;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differ += !same_bits(a[i], b[i]);
  run.report.add(std::string("bits.wgmma.") + name_of(kind), static_cast<double>(differ), "outputs",
                 {}, "other bits than mma's, of " + std::to_string(a.size()));
}

/// The search itself, on outputs of one of the models: it must find that one.
void try_search(Run& run) {
  const Tiles tiles = make_tiles(TileKind::kWide, 64);
  const MmaModel model{8, 24, false, true};
  std::vector<float> outputs(tiles.c.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = modelled(model, tiles, i);
  std::size_t exact = 0;
  for (const MmaModel& one : all_models()) exact += differing(one, tiles, outputs, 64) == 0;
  run.report.add("bits.models_like_one", static_cast<double>(exact), "models",
                 Goal{1, Better::kLower},
                 "sets of parameters that one set's outputs do not rule out");
}

}  // namespace

void probe_bits(Run& run) {
  if (!run.options.dump.empty()) std::ofstream(run.options.dump).close();
  run.attempt("bits.models", [&] { try_search(run); });
  for (const TileKind kind : kTileKinds) {
    run.attempt_ptx(std::string("bits.") + name_of(kind), [&] { try_kind(run, kind); });
  }
  run.attempt_ptx("bits.s8", [&] { try_bytes(run); });
  if (!run.card.takes_ptx()) return;
  for (const TileKind kind : kTileKinds) {
    run.find_out(std::string("wgmma_bits.") + name_of(kind), [&] { compare_wgmma(run, kind); });
  }
}

}  // namespace holdfast::bench::probe
