#include "worker/engine/fake_options.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "shared/base/cgroup.h"
#include "shared/base/json_text.h"
#include "shared/base/log.h"

namespace holdfast::engine {
namespace {

using nlohmann::json;

Error invalid(const std::string& what) {
  return {Errc::kInvalidRequest, "open fake engine: " + what};
}

/// Reads "abort", "segv", "kill", "oom", "hang", "exit:N".
Result<FakeFault> parse_fault(const std::string& text) {
  using Kind = FakeFault::Kind;
  static constexpr std::pair<const char*, Kind> kKinds[] = {{"abort", Kind::kAbort},
                                                            {"segv", Kind::kSegv},
                                                            {"kill", Kind::kKill},
                                                            {"oom", Kind::kOutOfMemory},
                                                            {"hang", Kind::kHang}};
  for (const auto& [name, kind] : kKinds) {
    if (text == name) return FakeFault{kind, 0};
  }
  if (text.rfind("exit:", 0) == 0) {
    int status = -1;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 5, end, status);
    if (error == std::errc() && stop == end && status >= 0 && status <= 255) {
      return FakeFault{Kind::kExit, status};
    }
  }
  return invalid("crash \"" + text + "\": expected abort, segv, kill, oom, hang or exit:0 to 255");
}

/// Dies of memory. A real out-of-memory kill needs a limit: without one the machine would be
/// filled, and the kernel might choose another process.
[[noreturn]] void run_out_of_memory() {
  if (group_memory().limit == 0) {
    log::warn("fake engine: no memory limit on this control group; SIGKILL instead of an OOM kill");
    raise(SIGKILL);
  }
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  constexpr std::size_t kBlock = 16 << 20;
  for (std::vector<std::unique_ptr<char[]>> held;;) {
    held.push_back(std::make_unique<char[]>(kBlock));
    std::memset(held.back().get(), 1, kBlock);
  }
}

void read_options(const json& j, FakeOptions& o) {
  o.vocab = j.value("vocab", o.vocab);
  o.eos = j.value("eos", o.eos);
  o.eos_every = j.value("eos_every", o.eos_every);
  o.stamp_ids = j.value("stamp_ids", o.stamp_ids);
  o.tokenizer = j.value("tokenizer", o.tokenizer);
  o.slots = j.value("slots", o.slots);
  o.pages = j.value("pages", o.pages);
  o.context = j.value("context", o.context);
  o.prefill_chunk = j.value("prefill_chunk", o.prefill_chunk);
  o.memory_bytes = j.value("memory_bytes", o.memory_bytes);
  o.step_us = j.value("step_us", o.step_us);
  o.step_us_per_sequence = j.value("step_us_per_sequence", o.step_us_per_sequence);
  o.step_us_per_1k_context = j.value("step_us_per_1k_context", o.step_us_per_1k_context);
  o.prefill_us_per_token = j.value("prefill_us_per_token", o.prefill_us_per_token);
  o.load_ms = j.value("load_ms", o.load_ms);
  if (j.contains("fail_load")) {
    const json& f = j["fail_load"];
    o.fail_load = f.is_string() ? f.get<std::string>() : f.get<bool>() ? "fail_load is set" : "";
  }
  o.fail_load_nth = j.value("fail_load_nth", o.fail_load_nth);
  o.crash_on_load = j.value("crash_on_load", o.crash_on_load);
  o.crash_on_step = j.value("crash_on_step", o.crash_on_step);
  o.crash_on_token = j.value("crash_on_token", o.crash_on_token);
  o.crash_on_prompt_token = j.value("crash_on_prompt_token", o.crash_on_prompt_token);
  o.nan_on_token = j.value("nan_on_token", o.nan_on_token);
}

}  // namespace

Result<FakeOptions> parse_fake_options(std::string_view text, const EngineOptions& load) {
  FakeOptions o;
  if (load.context > 0) o.context = load.context;
  if (load.slots > 0) o.slots = load.slots;
  if (load.pages > 0) o.pages = load.pages;
  if (load.prefill_chunk > 0) o.prefill_chunk = load.prefill_chunk;
  if (text.empty()) return o;
  const json j = try_parse_json<json>(text);
  if (!j.is_object()) return invalid("options are no JSON object");
  std::string crash;
  try {
    read_options(j, o);
    crash = j.value("crash", "abort");
  } catch (const json::exception& e) {
    return invalid(std::string("options: ") + e.what());
  }
  HOLDFAST_TRY(o.crash, parse_fault(crash));
  if (j.contains("script")) {
    HOLDFAST_TRY(o.script, parse_script(j["script"]));
  }
  return o;
}

Result<FakeDevice> parse_fake_device(std::string_view text) {
  FakeDevice device;
  const json j = try_parse_json<json>(text);
  if (!j.is_object()) return invalid("the device is no JSON object");
  try {
    device.name = j.value("name", device.name);
    device.memory_bytes = j.value("memory_bytes", device.memory_bytes);
    device.speed = j.value("speed", device.speed);
  } catch (const json::exception& e) {
    return invalid(std::string("device: ") + e.what());
  }
  if (device.speed <= 0 || device.memory_bytes < 0) {
    return invalid("device: expected a speed above 0 and no negative memory");
  }
  return device;
}

void commit_fault(const FakeFault& fault) {
  using Kind = FakeFault::Kind;
  switch (fault.kind) {
    case Kind::kAbort:
      std::abort();
    case Kind::kSegv:
      signal(SIGSEGV, SIG_DFL);
      raise(SIGSEGV);
      break;
    case Kind::kKill:
      raise(SIGKILL);
      break;
    case Kind::kExit:
      _exit(fault.status);
    case Kind::kOutOfMemory:
      run_out_of_memory();
    case Kind::kHang:
      break;
  }
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace holdfast::engine
