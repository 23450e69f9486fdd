// Goal: every weight type and architecture computes what other implementations compute, and every
// family, batch split, thread count and neighbour gives the same bits.
// Method: the small models of the conformance data; their expected logits come from the dequantised
// weights in float32 (README there). int15 and int8 rows must agree within what the project allows,
// float types as closely as float32 does.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/engine/result_rows.h"
#include "worker/backend/api/load.h"
#include "worker/backend/cpu/family.h"

namespace holdfast::logits_test {
namespace {

using backend::Wants;

namespace fs = std::filesystem;

fs::path logits_dir() {
  const char* env = std::getenv("HOLDFAST_CONFORMANCE_DIR");
  return fs::path(env != nullptr ? env : HOLDFAST_SOURCE_DIR "/../shared/conformance") / "logits";
}

struct Case {
  std::shared_ptr<const gguf::File> file;
  model::Program program;
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> positions;
  std::vector<std::vector<double>> logits;
};

Case load_case(const std::string& name) {
  Case c;
  c.file = gguf::File::open((logits_dir() / (name + ".gguf")).string()).value();
  const plan::ModelShape shape = plan::read_shape(*c.file).value();
  c.program = model::build_program(*c.file, shape).value();
  std::ifstream in(logits_dir() / (name + ".json"));
  const nlohmann::json j = nlohmann::json::parse(in);
  c.tokens = j.at("tokens").get<std::vector<std::int32_t>>();
  c.positions = j.at("positions").get<std::vector<std::int64_t>>();
  c.logits = j.at("logits").get<std::vector<std::vector<double>>>();
  return c;
}

std::unique_ptr<backend::Executor> open(const Case& c, const std::string& family, int threads,
                                        const std::string& kv) {
  backend::LoadOptions options;
  options.limits.context = static_cast<std::int64_t>(c.tokens.size()) + 64;
  options.limits.pages = static_cast<std::int32_t>(c.tokens.size()) / 64 * 3 + 6;
  options.limits.batch_tokens = static_cast<std::int32_t>(c.tokens.size()) * 2;
  options.limits.batch_segments = 4;
  options.limits.logit_rows = options.limits.batch_tokens;
  options.limits.kv_type = kv;
  options.threads = threads;
  options.kernels = family;
  auto executor = backend::load("cpu", c.program, options);
  EXPECT_TRUE(executor.has_value()) << (executor.has_value() ? "" : executor.error().what);
  return executor.has_value() ? std::move(executor).value() : nullptr;
}

/// Logits of every token, fed in chunks; pages start at `page` so that neighbours can have others.
std::vector<float> run_chunks(backend::Executor& executor, const Case& c, std::int32_t chunk,
                              std::int32_t n) {
  std::vector<std::int32_t> pages;
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(c.tokens.size()) / 64 + 1; ++p) {
    pages.push_back(p * 2 + 1);
  }
  std::vector<float> out;
  for (std::int32_t at = 0; at < n; at += chunk) {
    backend::Segment s;
    s.tokens = c.tokens.data() + at;
    s.n = std::min(chunk, n - at);
    s.start = at;
    s.pages = pages.data();
    s.wants = Wants::logits(s.n);
    const auto result = executor.forward({{s}});
    EXPECT_TRUE(result.has_value()) << result.error().what;
    if (!result.has_value()) return {};
    const std::vector<float> rows = copy_rows(*result, c.logits[0].size());
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

double relative_error(const std::vector<float>& all, const Case& c) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < c.positions.size(); ++i) {
    const std::size_t vocab = c.logits[i].size();
    for (std::size_t v = 0; v < vocab; ++v) {
      const double have = all[static_cast<std::size_t>(c.positions[i]) * vocab + v];
      error += (have - c.logits[i][v]) * (have - c.logits[i][v]);
      norm += c.logits[i][v] * c.logits[i][v];
    }
  }
  return std::sqrt(error / norm);
}

bool plain_floats(const Case& c) {  // of 16 or 32 bits, but not bfloat16
  for (const gguf::TensorInfo& tensor : c.file->tensors()) {
    if (tensor.type != gguf::TensorType::kF32 && tensor.type != gguf::TensorType::kF16)
      return false;
  }
  return true;
}

bool quantised(const Case& c) {
  for (const gguf::TensorInfo& tensor : c.file->tensors()) {
    if (gguf::type_traits(tensor.type)->block_elements > 1) return true;
  }
  return false;
}

/// Every family that can be forced here, also those that are never chosen by themselves.
std::vector<std::string> all_families() {
  std::vector<std::string> families = backend::cpu_families();
  for (const char* name : {"amx-emulated", "avx512bf16-emulated"}) {
    if (cpu::select_family(name).has_value()) families.emplace_back(name);
  }
  return families;
}

/// True if products take activations as bfloat16.
bool bfloat_products(const std::string& family) {
  return family.rfind("amx", 0) == 0 || family.rfind("avx512bf16", 0) == 0;
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  if (!fs::exists(logits_dir())) return names;
  for (const auto& entry : fs::directory_iterator(logits_dir())) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Logits, Logits_WithEveryTypeAndArchitecture_AgreeWithOtherImplementations) {
  const auto names = case_names();
  if (names.empty()) GTEST_SKIP() << "no conformance data in " << logits_dir();
  for (const std::string& name : names) {
    const Case c = load_case(name);
    std::printf("%-16s", name.c_str());
    for (const std::string& family : all_families()) {
      if (family == "scalar" || family == "avx2" || family == "avxvnni")
        continue;  // the same bits, says the next test
      if (family == "avx512bf16-emulated") continue;
      const auto executor = open(c, family, 2, "f32");
      ASSERT_NE(executor, nullptr) << name;
      const auto tokens = static_cast<std::int32_t>(c.tokens.size());
      const double error = relative_error(run_chunks(*executor, c, 64, tokens), c);
      // Below the error with int8 rows in the first layers too (0.012 and more).
      double allowed = quantised(c) ? 8e-3 : 2e-5;
      if (bfloat_products(family)) allowed = plain_floats(c) ? 1e-4 : 1e-2;
      if (name.rfind("qwen3", 0) == 0) allowed = 2e-3;
      EXPECT_LT(error, allowed) << name << " with " << executor->capabilities().class_prefix;
      std::printf(" %s %.2e", family.c_str(), error);
    }
    std::printf("\n");
  }
}

TEST(Logits, Logits_WhenFamilyChunkOrThreadsDiffer_HaveTheSameBits) {
  const auto names = case_names();
  if (names.empty()) GTEST_SKIP() << "no conformance data in " << logits_dir();
  for (const std::string& name : names) {
    const Case c = load_case(name);
    const auto n = static_cast<std::int32_t>(c.tokens.size());
    std::map<std::string, std::vector<float>> firsts;  // by numerics class
    const auto compare = [&](const std::string& family, int threads, std::int32_t chunk,
                             std::int32_t tokens) {
      const auto executor = open(c, family, threads, "f16");
      ASSERT_NE(executor, nullptr);
      const auto rows = run_chunks(*executor, c, chunk, tokens);
      std::vector<float>& first =
          firsts[bfloat_products(family) ? family.substr(0, family.find('-')) : "plain"];
      if (first.empty()) first = rows;
      ASSERT_LE(rows.size(), first.size());
      EXPECT_EQ(std::memcmp(rows.data(), first.data(), rows.size() * sizeof(float)), 0)
          << name << " " << executor->capabilities().class_prefix << " threads " << threads
          << " chunk " << chunk;
    };
    for (const std::string& family : all_families()) {
      if (family == "scalar") {  // slow: a few tokens show whether it computes something else
        compare(family, 1, 9, 14);
        continue;
      }
      if (family.ends_with("-emulated")) {  // slow too
        compare(family, 2, 33, n);
        compare(family, 1, 5, std::min(n, 40));
        continue;
      }
      for (const std::int32_t chunk : {1, 2, 3, 5, 33, 128}) compare(family, 1, chunk, n);
      for (const std::int32_t chunk : {7, 64}) compare(family, 2, chunk, n);
    }
  }
}

TEST(Executor, Forward_WithNeighbours_HasTheSameBitsAndAllocatesNothing) {
  const auto names = case_names();
  if (names.empty()) GTEST_SKIP() << "no conformance data in " << logits_dir();
  const Case c = load_case("llama-Q4_K_M");
  const auto n = static_cast<std::int32_t>(c.tokens.size());
  const auto executor = open(c, "", 2, "f16");
  const std::vector<float> alone = run_chunks(*executor, c, 7, n);
  const std::uint64_t before = executor->counters().allocations;
  const std::int32_t mine[] = {1, 4, 5}, other[] = {0, 2, 3};
  const std::size_t vocab = c.logits[0].size();
  for (std::int32_t at = 0; at + 9 <= n; at += 9) {
    // The neighbour runs through the same text backwards, before our segment in the batch.
    std::vector<std::int32_t> theirs(c.tokens.rbegin() + at, c.tokens.rbegin() + at + 5);
    const std::int64_t start = at / 9 * 5;
    const backend::Batch batch{{{theirs.data(), 5, start, other, Wants::logits(2)},
                                {c.tokens.data() + at, 9, at, mine, Wants::logits(9)}}};
    const auto result = executor->forward(batch);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(
        std::memcmp(copy_rows(*result, 2, 9, vocab).data(),
                    alone.data() + static_cast<std::size_t>(at) * vocab, 9 * vocab * sizeof(float)),
        0)
        << at;
  }
  EXPECT_EQ(executor->counters().allocations, before);
}

TEST(Executor, DeferredLogits_WhenComputed_AreThoseOfAForward) {
  const auto names = case_names();
  if (names.empty()) GTEST_SKIP() << "no conformance data in " << logits_dir();
  const std::int32_t mine[] = {1, 4, 5}, other[] = {0, 2, 3};
  for (const std::string& name : names) {
    const Case c = load_case(name);
    const std::size_t vocab = c.logits[0].size();
    const auto n = std::min<std::int32_t>(static_cast<std::int32_t>(c.tokens.size()), 40);
    for (const std::string& family : all_families()) {
      if (family == "scalar") continue;  // slow; the executor is the same
      const auto executor = open(c, family, 2, "f16");
      const std::vector<float> expected = run_chunks(*executor, c, n, n);
      const backend::Batch both{{{c.tokens.data(), 5, 0, other, Wants::logits(1)},
                                 {c.tokens.data(), n, 0, mine, Wants::deferred_logits()}}};
      ASSERT_TRUE(executor->forward(both).has_value());
      const std::uint64_t before = executor->counters().allocations;
      for (std::int32_t at = 0, rows = 1; at < n; at += rows, rows += 7) {
        rows = std::min(rows, n - at);
        const auto deferred = executor->compute_deferred_logits(5 + at, rows);
        ASSERT_TRUE(deferred.has_value());
        EXPECT_EQ(std::memcmp(copy_rows(*deferred, vocab).data(),
                              expected.data() + static_cast<std::size_t>(at) * vocab,
                              static_cast<std::size_t>(rows) * vocab * sizeof(float)),
                  0)
            << name << " " << executor->capabilities().class_prefix << " at " << at;
        const auto [last, maxima] = deferred->logits(rows - 1);
        for (std::size_t id = 0; id < vocab; id += backend::kBlockIds) {
          EXPECT_EQ(maxima[id / backend::kBlockIds],
                    *std::max_element(last + id, last + std::min(vocab, id + backend::kBlockIds)));
        }
      }
      EXPECT_EQ(executor->counters().allocations, before);
    }
  }
}

TEST(Executor, Load_WhenOptionsAreUnsupported_IsRefusedWithTypedError) {
  const auto names = case_names();
  if (names.empty()) GTEST_SKIP() << "no conformance data in " << logits_dir();
  const Case c = load_case("llama-Q8_0");
  backend::LoadOptions options;
  options.limits = {64, 4, 8, 2, 8, "f16"};
  options.kernels = "neon";
  auto refused = backend::load("cpu", c.program, options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  options.kernels.clear();
  options.limits.kv_type = "q8";
  EXPECT_EQ(backend::load("cpu", c.program, options).error().code, Errc::kUnsupported);
  options.limits.kv_type = "f16";
  EXPECT_EQ(backend::load("opencl:999", c.program, options).error().code, Errc::kUnsupported);
  EXPECT_EQ(backend::load("abacus", c.program, options).error().code, Errc::kUnsupported);
  options.limits.pages = 1 << 30;
  options.limits.kv_type = "f32";
  EXPECT_EQ(backend::load("cpu", c.program, options).error().code, Errc::kMemoryExhausted);
}

TEST(Executor, Load_WhenATensorHoldsInfinity_NamesIt) {
  const auto names = case_names();
  if (names.empty()) GTEST_SKIP() << "no conformance data in " << logits_dir();
  std::ifstream in(logits_dir() / "llama-F32.gguf", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto whole = gguf::File::from_bytes(bytes, "whole").value();
  const gguf::TensorInfo* tensor = whole->tensor("blk.1.ffn_up.weight");
  ASSERT_NE(tensor, nullptr);
  const std::string original(reinterpret_cast<const char*>(tensor->data.data()), 4096);
  const std::size_t at = bytes.find(original);
  ASSERT_NE(at, std::string::npos);
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(bytes.data() + at + 400, &infinity, 4);
  const auto broken = gguf::File::from_bytes(bytes, "broken").value();
  const auto program = model::build_program(*broken, plan::read_shape(*broken).value()).value();
  backend::LoadOptions options;
  options.limits = {64, 4, 8, 2, 8, "f16"};
  const auto refused = backend::load("cpu", program, options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kFileInvalid);
  EXPECT_NE(refused.error().what.find("blk.1.ffn_up.weight"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::logits_test
