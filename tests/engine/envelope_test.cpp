// Goal: the memory envelope that the daemon reserves is what the CPU backend takes, to the huge
// page. Method: the demo model opened with various contexts, slots, chunks, threads and KV types.

#include <gtest/gtest.h>

#include "shared/gguf/gguf.h"
#include "shared/plan/plan.h"
#include "worker/engine/engine.h"

namespace holdfast::engine {
namespace {

TEST(Envelope, IsWhatTheCpuBackendTakes) {
  const std::string path = HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";
  const auto file = gguf::File::open(path).value();
  const plan::ModelShape shape = plan::read_shape(*file).value();
  struct Case {
    std::int64_t context;
    std::int32_t slots;
    std::int64_t chunk;
    int threads;
    const char* kv;
  };
  for (const Case& c : {Case{256, 1, 64, 1, "f16"}, Case{512, 4, 512, 2, "f16"},
                        Case{512, 16, 128, 3, "f32"}, Case{64, 33, 8, 1, "f32"}}) {
    plan::LoadWish wish;
    wish.context = c.context;
    wish.slots = c.slots;
    wish.prefill_chunk = c.chunk;
    wish.threads = c.threads;
    wish.kv_type = c.kv;
    const plan::Envelope envelope = plan::memory_envelope(shape, wish);
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
    EXPECT_EQ(static_cast<std::uint64_t>(taken.kv), envelope.kv) << c.context;
    EXPECT_EQ(static_cast<std::uint64_t>(taken.weights), envelope.weights) << c.context;
    EXPECT_EQ(static_cast<std::uint64_t>(taken.scratch), envelope.scratch) << c.context;
  }
}

}  // namespace
}  // namespace holdfast::engine
