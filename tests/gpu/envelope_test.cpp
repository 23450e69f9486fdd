// Goal: the memory that the daemon reserves for a load is enough for a device too.
// Method: a tiny model of every architecture with wide batches, and the demo model, opened on the
// device; each part of the memory in use against the envelope, and the sum against the reservation.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/gpu/architectures.h"
#include "tests/gpu/dense_device.h"
#include "tests/gpu/test_device.h"
#include "worker/engine/engine.h"

namespace holdfast::envelope_test {
namespace {

void expect_enough(const std::string& path, const std::string& name,
                   const std::string& kernels = "") {
  const auto file = gguf::File::open(path).value();
  const plan::ModelShape shape = plan::read_shape(*file).value();
  plan::LoadRequest load_request;
  load_request.context = 192;
  load_request.slots = 80;
  load_request.prefill_chunk = 2000;
  const plan::Envelope envelope = plan::memory_envelope(shape, load_request);
  engine::EngineOptions options;
  options.device = gpu::device();
  options.kernels = kernels;
  options.cache_dir = gpu::cache_dir();
  options.context = load_request.context;
  options.slots = load_request.slots;
  options.prefill_chunk = static_cast<std::int32_t>(load_request.prefill_chunk);
  const auto engine = engine::open_engine(path, options);
  ASSERT_TRUE(engine.has_value()) << name << " " << engine.error().what;
  const wire::MemoryReport taken = (*engine)->describe().memory;
  // Rows that are looked up lie in whole panels here: some KiB more than in the envelope.
  EXPECT_LE(static_cast<std::uint64_t>(taken.weights), envelope.weights + (256 << 10)) << name;
  EXPECT_LE(static_cast<std::uint64_t>(taken.kv), envelope.kv) << name;
  EXPECT_LE(static_cast<std::uint64_t>(taken.scratch), envelope.scratch) << name;
  EXPECT_LE(static_cast<std::uint64_t>(taken.weights + taken.kv + taken.scratch), envelope.total())
      << name;
  EXPECT_GT(taken.kv, 0) << name;
  EXPECT_EQ(taken.taken, -1) << name;  // nothing is measured in this process
}

TEST(GpuEnvelope, MemoryEnvelope_ForEveryArchitecture_IsEnoughOnADevice) {
  HOLDFAST_NEEDS_DEVICE();
  expect_enough(HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf", "demo");
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("holdfast-gpu-envelope-" + std::to_string(::getpid()) + ".gguf"))
                               .string();
  for (const std::string& architecture : gpu::architectures()) {
    ASSERT_TRUE(cli::synth_family(architecture, path, "q8_0", 2).has_value());
    expect_enough(path, architecture);
  }
  std::filesystem::remove(path);
}

// Unpacked weights and blocks of rows take what rows of logits would.
TEST(GpuEnvelope, MemoryEnvelope_ForVectorsByClblast_IsEnoughOnADevice) {
  HOLDFAST_NEEDS_CLBLAST();
  expect_enough(HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf", "demo", "clblast");
}

}  // namespace
}  // namespace holdfast::envelope_test
