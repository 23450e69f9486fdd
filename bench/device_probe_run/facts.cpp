// Facts of a device: what its driver says, and what only a trial shows.

#include <cstdio>
#include <numeric>
#include <utility>

#include "bench/device_probe_run/half.h"
#include "bench/device_probe_run/random.h"
#include "bench/device_probe_run/run.h"

namespace holdfast::bench::probe {
namespace {

using std::uint32_t;

constexpr std::size_t kItems = 128;  // of a trial's work-groups
constexpr uint32_t kSeed = 7;

std::size_t trial_groups(const Run& run) {
  return run.count(4 * run.units(), 3);
}

void fail_unless(Card& card, bool right, const char* what) {
  if (!right) card.fail(what);
}

void describe(Run& run) {
  const opencl::Device& d = run.card.device();
  run.fact("device", d.name);
  run.fact("driver", d.driver);
  run.fact("platform", d.platform);
  run.fact("version", d.version);
  run.fact("extensions", d.extensions);
  run.fact("compute_units", std::to_string(d.compute_units));
  run.fact("memory_bytes", std::to_string(d.memory));
  run.fact("largest_buffer_bytes", std::to_string(d.max_alloc));
  run.fact("local_bytes_said", std::to_string(d.local_bytes));
  run.fact("group_items", std::to_string(d.group_items));
}

/// The sums that fill_local leaves.
std::vector<uint32_t> local_sums(std::size_t groups, uint32_t words) {
  std::vector<uint32_t> sums(groups * kItems);
  for (std::size_t g = 0; g < groups; ++g) {
    const uint32_t first = (kSeed + static_cast<uint32_t>(g)) * 40503u;
    for (uint32_t i = 0; i < words; ++i) {
      sums[g * kItems + i % kItems] += (first + words - 1 - i) * 2654435761u * (2 * i + 1);
    }
  }
  return sums;
}

cl_program local_program(Run& run, int kb) {
  return run.card.build("local_" + std::to_string(kb), program_text({"facts"}, {{"LOCAL_KB", kb}}));
}

void try_static_local(Run& run, int kb) {
  Card& card = run.card;
  const std::size_t groups = trial_groups(run);
  const auto kernel = card.kernel(local_program(run, kb), "fill_local");
  const auto sums = card.buffer(groups * kItems * 4);
  card.set(kernel, sums, kSeed);
  card.run(kernel, {groups, 1, kItems, 1});
  const auto found = card.values_of<uint32_t>(sums, groups * kItems);
  fail_unless(card, found == local_sums(groups, static_cast<uint32_t>(kb) * 256),
              "it runs, but reads other words than were written");
}

void try_local_argument(Run& run, int kb) {
  Card& card = run.card;
  const std::size_t groups = trial_groups(run);
  const auto words = static_cast<uint32_t>(kb) * 256;
  const auto kernel = card.kernel(local_program(run, 1), "fill_argument");
  const auto sums = card.buffer(groups * kItems * 4);
  card.set(kernel, sums, kSeed, words, LocalBytes{words * 4});
  card.run(kernel, {groups, 1, kItems, 1});
  const auto found = card.values_of<uint32_t>(sums, groups * kItems);
  fail_unless(card, found == local_sums(groups, words),
              "it runs, but reads other words than were written");
}

/// Copies words through local memory; `reversed`: each group leaves its words backwards.
void try_copies(Run& run, const char* macro, const char* name, bool reversed) {
  Card& card = run.card;
  constexpr std::size_t kWords = 2048;
  const std::size_t groups = trial_groups(run);
  std::vector<uint32_t> words(groups * kWords), expected(words.size());
  Random random(1);
  for (uint32_t& word : words) word = random.word();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t from = reversed ? i / kWords * kWords + kWords - 1 - i % kWords : i;
    expected[i] = words[from];
  }
  const auto program = card.build(name, program_text({"ptx", "facts"}, {{macro, 1}}));
  const auto kernel = card.kernel(program, "copy_words");
  const auto x = card.buffer_of(words);
  const auto y = card.buffer(words.size() * 4);
  card.set(kernel, x, y);
  card.run(kernel, {groups, 1, kItems, 1});
  fail_unless(card, card.values_of<uint32_t>(y, words.size()) == expected,
              "it runs, but the bytes are not those of the source");
}

void try_ldmatrix(Run& run) {
  Card& card = run.card;
  std::vector<uint32_t> rows(kItems * 4), expected(rows.size());
  std::iota(rows.begin(), rows.end(), 1000u);
  for (std::size_t item = 0; item < kItems; ++item) {
    for (std::size_t j = 0; j < 4; ++j) {  // matrix j: rows of items 8 j, ...
      const std::size_t row = item / 32 * 32 + j * 8 + item % 32 / 4;
      expected[item * 4 + j] = rows[row * 4 + item % 4];
    }
  }
  const auto program =
      card.build("ldmatrix", program_text({"ptx", "facts"}, {{"USE_LDMATRIX", 1}}));
  const auto kernel = card.kernel(program, "deal_matrices");
  const auto x = card.buffer_of(rows);
  const auto y = card.buffer(rows.size() * 4);
  card.set(kernel, x, y);
  card.run(kernel, {1, 1, kItems, 1});
  fail_unless(card, card.values_of<uint32_t>(y, rows.size()) == expected,
              "it runs, but deals the words out otherwise");
}

/// A product of small whole numbers, which is exact, by wgmma.
void try_wgmma(Run& run, uint32_t lead, uint32_t stride) {
  Card& card = run.card;
  constexpr std::size_t kTiles = 64, kSteps = 3;
  Random random(2);
  std::vector<Half> a(kTiles * kSteps * 256), b(kTiles * kSteps * 128);
  std::vector<float> c(kTiles * 128), expected(c.size());
  for (Half& v : a) v = half_of(static_cast<float>(random.below(17)) - 8);
  for (Half& v : b) v = half_of(static_cast<float>(random.below(17)) - 8);
  for (float& v : c) v = static_cast<float>(random.below(100));
  for (std::size_t i = 0; i < c.size(); ++i) {
    const std::size_t tile = i / 128, row = i / 8 % 16, column = i % 8;
    expected[i] = c[i];
    for (std::size_t k = 0; k < kSteps * 16; ++k) {
      expected[i] += float_of(a[((tile * kSteps + k / 16) * 16 + row) * 16 + k % 16]) *
                     float_of(b[((tile / 4 * 4 * kSteps + k / 16) * 8 + column) * 16 + k % 16]);
    }
  }
  const auto program = card.build_sm90a("wgmma", program_text({"ptx", "wgmma"}));
  const auto kernel = card.kernel(program, "tiles_wgmma");
  const auto left = card.buffer_of(a), right = card.buffer_of(b), start = card.buffer_of(c);
  const auto d = card.buffer(c.size() * 4);
  card.set(kernel, left, right, start, d, static_cast<int>(kSteps), lead, stride);
  card.run(kernel, {kTiles / 4, 1, kItems, 1});
  fail_unless(card, card.values_of<float>(d, c.size()) == expected,
              "it runs, but the product is wrong");
}

void find_extension_functions(Run& run) {
  const auto find = reinterpret_cast<decltype(&::clGetExtensionFunctionAddressForPlatform)>(
      loader_function("clGetExtensionFunctionAddressForPlatform"));
  for (const char* name : {"clSetKernelAttributeNV", "clCreateBufferNV"}) {
    const bool there = find != nullptr && find(run.card.device().platform_id, name) != nullptr;
    run.fact(name, there ? "yes" : "no");
  }
}

}  // namespace

void probe_facts(Run& run) {
  describe(run);
  run.attempt("facts.extension_functions", [&] { find_extension_functions(run); });
  if (run.card.takes_ptx()) {
    run.find_out("bulk_copy", [&] { try_copies(run, "USE_BULK", "bulk_copy", false); });
    run.find_out("cp_async", [&] { try_copies(run, "USE_CP_ASYNC", "cp_async", true); });
    run.find_out("ldmatrix", [&] { try_ldmatrix(run); });
    if (!run.find_out("wgmma", [&] { try_wgmma(run, 128, 256); }) &&
        run.find_out("wgmma_swapped", [&] { try_wgmma(run, 256, 128); })) {
      std::swap(run.wgmma_lead, run.wgmma_stride);
    }
  } else {
    for (const char* name : {"bulk_copy", "cp_async", "ldmatrix", "wgmma"}) {
      run.attempt_ptx(name, [] {});
    }
  }
  for (const int kb : {48, 64, 96, 128, 160, 200, 227}) {
    if (run.options.quick && kb > 48) break;
    run.find_out("local." + std::to_string(kb), [&] { try_static_local(run, kb); });
    run.find_out("local_argument." + std::to_string(kb), [&] { try_local_argument(run, kb); });
  }
}

}  // namespace holdfast::bench::probe
