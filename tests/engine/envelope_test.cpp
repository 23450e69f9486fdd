// Goal: the memory envelope that the daemon reserves is what the CPU backend takes, to the huge
// page. Method: the demo model opened with various contexts, slots, chunks, threads and KV types,
// and a tiny model of every architecture with wide batches.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ops/model_tools/synth_family.h"
#include "shared/gguf/gguf.h"
#include "shared/plan/plan.h"
#include "worker/engine/engine.h"

namespace holdfast::engine::envelope_test {
namespace {

struct Case {
  std::int64_t context;
  std::int32_t slots;
  std::int64_t chunk;
  int threads;
  const char* kv;
};

/// Opens the file as the case says and compares; returns the envelope.
plan::Envelope compare(const std::string& path, const Case& c, const std::string& name) {
  const auto file = gguf::File::open(path).value();
  const plan::ModelShape shape = plan::read_shape(*file).value();
  plan::LoadRequest load_request;
  load_request.context = c.context;
  load_request.slots = c.slots;
  load_request.prefill_chunk = c.chunk;
  load_request.threads = c.threads;
  load_request.kv_type = c.kv;
  const plan::Envelope envelope = plan::memory_envelope(shape, load_request);
  // The daemon computes the same from its row.
  const auto row = plan::shape_from_json(plan::shape_to_json(shape));
  EXPECT_EQ(plan::memory_envelope(row.value(), load_request).total(), envelope.total()) << name;
  EngineOptions options;
  options.device = "cpu";
  options.context = c.context;
  options.slots = c.slots;
  options.prefill_chunk = static_cast<std::int32_t>(c.chunk);
  options.prefill_chunk_busy = static_cast<std::int32_t>(c.chunk);
  options.threads = c.threads;
  options.kv_type = c.kv;
  const auto engine = open_engine(path, options).value();
  const wire::MemoryReport taken = engine->describe().memory;
  EXPECT_EQ(static_cast<std::uint64_t>(taken.kv), envelope.kv) << name << " " << c.context;
  EXPECT_EQ(static_cast<std::uint64_t>(taken.weights), envelope.weights) << name;
  EXPECT_EQ(static_cast<std::uint64_t>(taken.scratch), envelope.scratch) << name << " " << c.chunk;
  return envelope;
}

TEST(Envelope, MemoryEnvelope_ForTheDemoModel_EqualsMemoryTakenOnCpu) {
  const std::string path = HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";
  for (const Case& c : {Case{256, 1, 64, 1, "f16"}, Case{512, 4, 512, 2, "f16"},
                        Case{512, 16, 128, 3, "f32"}, Case{64, 33, 8, 1, "f32"}}) {
    compare(path, c, "demo");
  }
}

TEST(Envelope, MemoryEnvelope_ForEveryArchitecture_EqualsMemoryTakenOnCpu) {
  for (const std::string& name : cli::synth_architectures()) {
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{3}}) {
      const std::string path = (std::filesystem::temp_directory_path() /
                                ("holdfast-envelope-" + std::to_string(::getpid()) + ".gguf"))
                                   .string();
      ASSERT_TRUE(cli::synth_family(name, path, "q8_0", seed).has_value());
      // Wide batches, so that every part is more than the page that it is rounded up to.
      const plan::Envelope e = compare(path, {256, 80, 5000, 2, "f16"}, name);
      EXPECT_GT(e.scratch, 8u << 20) << name;
      EXPECT_GT(e.kv, 2u << 20) << name;
      std::filesystem::remove(path);
    }
  }
}

}  // namespace
}  // namespace holdfast::engine::envelope_test
