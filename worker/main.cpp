// holdfast-worker: loads models and runs them for the daemon. Keeps nothing that cannot be lost.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/base/roots.h"
#include "shared/base/standard_files.h"
#include "shared/base/step_journal.h"
#include "shared/base/version.h"
#include "shared/sandbox/report.h"
#include "shared/sandbox/rights.h"
#include "shared/text/regex_split.h"
#include "worker/backend/backend.h"
#include "worker/backend/opencl.h"
#include "worker/engine/engine.h"
#include "worker/engine/fake_options.h"
#include "worker/link/claims.h"
#include "worker/link/host.h"
#include "worker/link/link.h"

namespace hf = holdfast;

namespace {

constexpr char kUsage[] =
    "usage: holdfast-worker --state DIR [--device D] [--threads N] [--kernels K]\n"
    "                       [--engine model|fake] [--key NAME] [--endpoint E] [--ring TOKENS]\n"
    "                       [--orphan-ms N] [--drain-ms N] [--heartbeat-timeout-ms N]\n"
    "                       [--step-watchdog-ms N] [--step-journal FILE]\n"
    "                       [--fake-device JSON]   (docs/fake-engine.md)\n";

/// What loads need beside the link's options.
struct Own {
  hf::engine::FakeDevice fake;
  std::string kernels;    // forced
  std::string cache_dir;  // of kernels that were built for devices
  std::string run_dir;    // of the daemon's sockets
  std::string roots;      // models.roots when this process began
};

hf::worker::Link* running_link = nullptr;  // for the signal handler

void on_stop_signal(int) {
  if (running_link != nullptr) running_link->request_stop();
}

std::optional<std::int64_t> parse_number(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 0 || value > 1'000'000'000) return std::nullopt;
  return value;
}

/// False if `value` does not describe a device.
bool set_fake_device(hf::worker::LinkOptions& o, hf::engine::FakeDevice& fake,
                     const std::string& value) {
  auto device = hf::engine::parse_fake_device(value);
  if (!device) return std::fprintf(stderr, "%s\n", device.error().what.c_str()), false;
  fake = *device;
  o.device = fake.name;
  o.device_memory_bytes = fake.memory_bytes;
  o.device_memories = {{fake.name, fake.memory_bytes, false}};
  return true;
}

/// Made before the process gives up making files. Without one blame is less exact; work goes on.
std::shared_ptr<hf::StepJournal> open_journal(const std::string& path) {
  auto journal = hf::StepJournal::create(path);
  if (journal) return std::move(journal).value();
  hf::log::warn("no step journal", {{"reason", journal.error().what}});
  return nullptr;
}

/// False after a message on stderr.
bool set_option(hf::worker::LinkOptions& o, Own& own, const std::string& name,
                const std::string& value) {
  if (name == "--fake-device" && set_fake_device(o, own.fake, value)) return true;
  if (name == "--state") {
    const std::string state = std::filesystem::absolute(value).string();
    const std::string run = state + "/run";
    own.run_dir = run;
    own.cache_dir = state + "/cache/opencl";
    if (o.endpoint.empty()) o.endpoint = "ipc://" + run + "/workers.sock";
    o.images_path = run + "/images.sock";
    return true;
  }
  if (name == "--device") return o.device = value, true;
  if (name == "--kernels") return o.kernels = own.kernels = value, true;
  if (name == "--key") return o.worker_key = value, true;
  if (name == "--endpoint") return o.endpoint = value, true;
  if (name == "--step-journal") return o.journal = open_journal(value), true;
  if (name == "--engine" && (value == "model" || value == "fake")) return o.engine = value, true;
  const std::optional<std::int64_t> number = parse_number(value);
  if (number.has_value()) {
    if (name == "--threads") return o.threads = static_cast<std::int32_t>(*number), true;
    if (name == "--ring") return o.ring_tokens = static_cast<std::size_t>(*number), true;
    if (name == "--orphan-ms") return o.orphan_ms = *number, true;
    if (name == "--drain-ms") return o.drain_ms = *number, true;
    if (name == "--step-watchdog-ms") return o.step_watchdog_ms = *number, true;
    if (name == "--heartbeat-timeout-ms") {
      o.heartbeat_timeout_ms = static_cast<int>(*number);
      return true;
    }
  }
  std::fprintf(stderr, "holdfast-worker: %s %s: unknown option or value out of range\n%s",
               name.c_str(), value.c_str(), kUsage);
  return false;
}

/// Where the kernel has Landlock, the file could not be opened either.
hf::Result<void> check_roots(const Own& own, const std::string& path) {
  if (hf::allowed_by_roots(path, own.roots)) return {};
  return hf::Error{hf::Errc::kUnauthorized,
                   "load " + path +
                       ": not below models.roots as this worker found it at its start (" +
                       own.roots + "); end the worker, its next start takes the new value"};
}

/// Gives up what serving models does not take.
void confine(const hf::worker::LinkOptions& link, Own& own) {
  namespace sandbox = hf::sandbox;
  const auto roots = hf::read_roots(own.run_dir);
  own.roots = roots.value_or("");
  const bool device = link.engine == "model" && link.device != "cpu";
  if (device) {
    std::error_code ignored;
    std::filesystem::create_directories(own.cache_dir, ignored);
    sandbox::confine_and_report(sandbox::device_worker_wish(own.roots, own.run_dir, own.cache_dir),
                                own.run_dir);
  } else {
    hf::text::interpret_patterns();
    sandbox::Wish wish = sandbox::worker_wish(own.roots, own.run_dir);
    // One that plays being out of memory asks to be the first that is killed.
    if (link.engine == "fake") wish.files.write.emplace_back("/proc");
    sandbox::confine_and_report(wish, own.run_dir);
  }
}

hf::Result<std::unique_ptr<hf::engine::Engine>> open_engine(
    const hf::worker::LinkOptions& link, const Own& own, const hf::wire::Load& load,
    const hf::worker::Progress& progress, hf::images::Client& images, hf::worker::Claims& claims) {
  hf::engine::EngineOptions options;
  options.images = &images;
  options.device = link.device;
  options.kernels = load.kernels.empty() ? own.kernels : load.kernels;
  options.cache_dir = own.cache_dir;
  options.threads = load.threads > 0 ? std::min(load.threads, link.threads) : link.threads;
  options.context = load.context;
  options.slots = load.slots;
  options.pages = load.pages;
  if (!load.kv_type.empty()) options.kv_type = load.kv_type;
  options.prefill_chunk = load.prefill_chunk;
  options.model_sha = load.model_sha;
  options.progress = progress;
  if (link.engine == "fake") {
    return hf::engine::open_fake_engine(load.options, options, own.fake, load.path);
  }
  HF_CHECKED(hf::engine::read_options(load.options, options));
  HF_CHECKED(check_roots(own, load.path));
  HF_TRY(const hf::hf::Stamp stamp, hf::worker::check_model_file(load));
  // Weights that wait for a worker to come back give way to a model that is wanted now.
  const std::int64_t available = hf::available_memory(hf::host_memory_pools());
  if (available >= 0 && available < load.bytes) images.make_room(load.model_sha);
  const bool on_host = std::all_of(link.device_memories.begin(), link.device_memories.end(),
                                   [](const auto& memory) { return memory.of_host; });
  if (on_host)
    HF_CHECKED(claims.claim(load.bytes, hf::worker::host_memory(link.images_path).pools));
  auto engine = hf::engine::open_engine(load.path, options);
  if (on_host) claims.release();
  // A file that was cut or written while it was read explains any other error.
  HF_CHECKED(hf::worker::check_unchanged(load, stamp));
  return engine;
}

/// What HELLO says of the device: the family that runs, of an OpenCL device also why, and its own
/// memory. One that is not there is told by the loads, which fail with the reason.
void describe_device(hf::worker::LinkOptions& o, const Own& own) {
  if (o.engine == "fake") {
    char speed[32];
    std::snprintf(speed, sizeof speed, "fake x%.3g", own.fake.speed);
    o.kernels = own.fake.speed == 1 ? "fake" : speed;
  } else if (o.kernels.empty() && o.device == "cpu") {
    const std::vector<std::string> families = hf::backend::cpu_families();
    if (!families.empty()) o.kernels = families.front();
  } else if (o.device.rfind("opencl", 0) == 0) {
    const auto found = hf::opencl::find_device(o.device, own.cache_dir);
    if (!found) {
      hf::log::warn("no device", {{"device", o.device}, {"reason", found.error().what}});
      return;
    }
    o.device = found->device;
    o.kernels = (own.kernels.empty() ? found->tier : own.kernels) + " on " + found->name +
                ", driver " + found->driver + " (" + found->why + ")";
    o.device_memory_bytes = static_cast<std::int64_t>(found->memory_bytes);
    for (const hf::opencl::FoundMemory& memory : found->memories) {
      o.device_memories.push_back(
          {memory.key, static_cast<std::int64_t>(memory.bytes), memory.of_host});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  hf::open_standard_files();
  if (hf::printed_version(argc, argv, "holdfast-worker")) return 0;
  hf::arm_crash_points("worker");
  hf::log::init("holdfast-worker", isatty(STDERR_FILENO) == 0);
  hf::worker::LinkOptions options;
  Own own;
  options.ring_tokens = 4096;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc || std::string(argv[i]) == "--help") return std::fputs(kUsage, stderr), 2;
    if (!set_option(options, own, argv[i], argv[i + 1])) return 2;
  }
  if (options.endpoint.empty() || options.threads < 1 || options.ring_tokens < 1) {
    return std::fputs(kUsage, stderr), 2;
  }
  hf::worker::Claims claims;  // its file is opened while that is allowed
  confine(options, own);
  describe_device(options, own);
  hf::images::Client images(options.images_path);
  const auto factory = [options, own, &images, &claims](const hf::wire::Load& load,
                                                        const hf::worker::Progress& progress) {
    return open_engine(options, own, load, progress, images, claims);
  };
  hf::crash_point(hf::CrashPoint::kWorkerStartBegin);
  hf::worker::Link link(options, factory);
  running_link = &link;
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGINT, on_stop_signal);
  std::signal(SIGPIPE, SIG_IGN);
  const hf::Result<void> end = link.run();
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);
  running_link = nullptr;
  if (end.has_value()) return 0;
  hf::log::error("worker ends", {{"reason", end.error().what}});
  return 1;
}
