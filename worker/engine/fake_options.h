#pragma once
// Options of the fake engine and of its pretended device. docs/contribute/fake-engine.md has the
// tables.

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "worker/engine/engine.h"
#include "worker/engine/fake_script.h"

namespace holdfast::engine {

/// The way in which a process fails.
struct FakeFault {
  enum class Kind : std::uint8_t { kAbort, kSegv, kKill, kExit, kOutOfMemory, kHang };
  Kind kind = Kind::kAbort;
  int status = 1;  // kExit
};

/// How the fake engine behaves, from the JSON text after its name.
struct FakeOptions {
  std::int32_t vocab = 1024;
  std::int32_t eos = 2;
  std::int64_t eos_every = 0;
  bool stamp_ids = false;
  std::string tokenizer;  // empty: none, or with a script the loaded model's
  std::vector<ScriptTurn> script;
  // sizes
  std::int32_t slots = 16;
  std::int32_t pages = 0;
  std::int64_t context = 4096;
  std::int32_t prefill_chunk = 512;
  std::int64_t memory_bytes = 0;
  // time, slept and never spun
  std::int64_t step_us = 0;
  std::int64_t step_us_per_sequence = 0;
  std::int64_t step_us_per_1k_context = 0;
  std::int64_t prefill_us_per_token = 0;
  std::int64_t load_ms = 0;
  // failures
  std::string fail_load;
  std::int32_t fail_load_nth = 0;
  std::int32_t crash_on_load = 0;
  std::int64_t crash_on_step = 0;
  TokenId crash_on_token = -1;
  TokenId crash_on_prompt_token = -1;
  FakeFault crash;
  TokenId nan_on_token = -1;
};

/// Reads `options_json`, which outranks `load`. kInvalidRequest for a field of another type or an
/// unknown fault.
Result<FakeOptions> parse_fake_options(std::string_view options_json, const EngineOptions& load);

/// Reads {"name": "gpu-a", "memory_bytes": …, "speed": 2.0}, all optional.
Result<FakeDevice> parse_fake_device(std::string_view json);

/// The number of loads that this process has begun; fail_load_nth and crash_on_load count in them.
std::int32_t fake_loads_so_far();

/// Carries the fault out. Never returns; a hang lasts until the process is killed.
[[noreturn]] void commit_fault(const FakeFault& fault);

}  // namespace holdfast::engine
