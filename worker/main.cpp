// holdfast-worker: loads models and runs them for the daemon. Stores nothing that must not be lost.

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
#include "shared/client/peer_key.h"
#include "shared/model_index/model_index.h"
#include "shared/sandbox/report.h"
#include "shared/sandbox/rights.h"
#include "shared/text/regex_split.h"
#include "worker/backend/api/load.h"
#include "worker/backend/api/opencl.h"
#include "worker/backend/api/revisions.h"
#include "worker/engine/engine.h"
#include "worker/engine/fake_options.h"
#include "worker/link/claims.h"
#include "worker/link/host.h"
#include "worker/link/link.h"

namespace {

constexpr char kUsage[] =
    "usage: holdfast-worker --state DIR [--device D] [--threads N] [--kernels K]\n"
    "                       [--engine model|fake] [--key NAME] [--endpoint E] [--ring TOKENS]\n"
    "                       [--orphan-ms N] [--drain-ms N] [--heartbeat-timeout-ms N]\n"
    "                       [--step-watchdog-ms N] [--step-journal FILE] [--only-class C]\n"
    "                       [--fake-device JSON]   (docs/contribute/fake-engine.md)\n"
    "                       [--key-file FILE]      of a daemon on another machine (tcp://…)\n"
    "                       [--model-index FILE]   models by their content, for such a daemon\n"
    "       holdfast-worker --revisions   prints the kernels revisions of its backends\n";

/// Settings of loads besides the link's options.
struct LoadSettings {
  holdfast::engine::FakeDevice fake;
  std::string kernels;      // forced
  std::string cache_dir;    // of built kernels for devices
  std::string run_dir;      // of the daemon's sockets
  std::string roots;        // models.roots when this process began
  std::string key_file;     // of a daemon on another machine; empty: it is on this one
  std::string model_index;  // file with the models of this machine; empty: paths are the daemon's
};

// A cut cable closes no socket: silence of the other side ends a connection between machines.
constexpr int kRemoteTimeoutMs = 2'000;

holdfast::worker::Link* running_link = nullptr;  // for the signal handler

void on_stop_signal(int) {
  if (running_link != nullptr) running_link->request_stop();
}

std::optional<std::int64_t> parse_number(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 0 || value > 1'000'000'000) return std::nullopt;
  return value;
}

/// Sets the fake device. False, after a message on stderr, if `value` does not describe one.
bool set_fake_device(holdfast::worker::LinkOptions& o, holdfast::engine::FakeDevice& fake,
                     const std::string& value) {
  auto device = holdfast::engine::parse_fake_device(value);
  if (!device) return std::fprintf(stderr, "%s\n", device.error().what.c_str()), false;
  fake = *device;
  o.device = fake.name;
  o.device_memory_bytes = fake.memory_bytes;
  o.device_memories = {{fake.name, fake.memory_bytes, false}};
  return true;
}

/// Opens the journal, before the process gives up making files. Without one blame is less exact;
/// work goes on.
std::shared_ptr<holdfast::StepJournal> open_journal(const std::string& path) {
  auto journal = holdfast::StepJournal::create(path);
  if (journal) return std::move(journal).value();
  holdfast::log::warn("no step journal", {{"reason", journal.error().what}});
  return nullptr;
}

void set_state(holdfast::worker::LinkOptions& o, LoadSettings& settings, const std::string& value) {
  const std::string state = std::filesystem::absolute(value).string();
  const std::string run = state + "/run";
  settings.run_dir = run;
  settings.cache_dir = state + "/cache/opencl";
  if (o.endpoint.empty()) o.endpoint = "ipc://" + run + "/workers.sock";
  o.weight_cache_path = run + "/images.sock";
}

/// Sets an option whose value is a text. Returns false if it is none.
bool set_text(holdfast::worker::LinkOptions& o, LoadSettings& settings, const std::string& name,
              const std::string& value) {
  if (name == "--state") return set_state(o, settings, value), true;
  if (name == "--device") return o.device = value, true;
  if (name == "--kernels") return o.kernels = settings.kernels = value, true;
  if (name == "--key") return o.worker_key = value, true;
  if (name == "--only-class") return o.only_class = value, true;
  if (name == "--endpoint") return o.endpoint = value, true;
  if (name == "--key-file") return settings.key_file = value, true;
  if (name == "--model-index") return settings.model_index = value, true;
  if (name == "--step-journal") return o.journal = open_journal(value), true;
  const bool engine = name == "--engine" && (value == "model" || value == "fake");
  if (engine) o.engine = value;
  return engine;
}

/// Sets an option whose value is a number. Returns false if it is none.
bool set_number(holdfast::worker::LinkOptions& o, const std::string& name, std::int64_t number) {
  if (name == "--threads") return o.threads = static_cast<std::int32_t>(number), true;
  if (name == "--ring") return o.ring_tokens = static_cast<std::size_t>(number), true;
  if (name == "--orphan-ms") return o.orphan_ms = number, true;
  if (name == "--drain-ms") return o.drain_ms = number, true;
  if (name == "--step-watchdog-ms") return o.step_watchdog_ms = number, true;
  if (name != "--heartbeat-timeout-ms") return false;
  o.heartbeat_timeout_ms = static_cast<int>(number);
  return true;
}

/// Sets one option. False after a message on stderr.
bool set_option(holdfast::worker::LinkOptions& o, LoadSettings& settings, const std::string& name,
                const std::string& value) {
  if (name == "--fake-device" && set_fake_device(o, settings.fake, value)) return true;
  if (set_text(o, settings, name, value)) return true;
  const std::optional<std::int64_t> number = parse_number(value);
  if (number.has_value() && set_number(o, name, *number)) return true;
  std::fprintf(stderr, "holdfast-worker: %s %s: unknown option or value out of range\n%s",
               name.c_str(), value.c_str(), kUsage);
  return false;
}

/// kUnauthorized for a file outside models.roots. Where the kernel has Landlock, the file could not
/// be opened either.
holdfast::Result<void> check_roots(const LoadSettings& settings, const std::string& path) {
  if (holdfast::allowed_by_roots(path, settings.roots)) return {};
  return holdfast::Error{
      holdfast::Errc::kUnauthorized,
      "load " + path + ": not below models.roots as this worker found it at its start (" +
          settings.roots + "); end the worker, its next start takes the new value"};
}

/// Gives up the rights that serving models does not need.
void confine(const holdfast::worker::LinkOptions& link, LoadSettings& settings) {
  namespace sandbox = holdfast::sandbox;
  const auto roots = holdfast::read_roots(settings.run_dir);
  settings.roots = roots.value_or("");
  const bool device = link.engine == "model" && link.device != "cpu";
  const auto extended = [&](sandbox::Policy policy) {
    return settings.key_file.empty() ? policy : sandbox::connecting(std::move(policy));
  };
  if (device) {
    std::error_code ignored;
    std::filesystem::create_directories(settings.cache_dir, ignored);
    sandbox::confine_and_report(extended(sandbox::device_worker_policy(
                                    settings.roots, settings.run_dir, settings.cache_dir)),
                                settings.run_dir);
  } else {
    holdfast::text::interpret_patterns();
    sandbox::Policy policy = sandbox::worker_policy(settings.roots, settings.run_dir);
    // A fake engine that plays being out of memory asks to be the first that is killed.
    if (link.engine == "fake") policy.files.write.emplace_back("/proc");
    sandbox::confine_and_report(extended(std::move(policy)), settings.run_dir);
  }
}

/// Returns the load with the file of this machine that has the model's content. kNotFound: none
/// has.
holdfast::Result<holdfast::wire::Load> find_file(const LoadSettings& settings,
                                                 const holdfast::wire::Load& ordered) {
  if (settings.model_index.empty()) return ordered;
  const auto entry = holdfast::model_index::find(holdfast::model_index::read(settings.model_index),
                                                 ordered.model_sha);
  if (!entry) {
    return holdfast::Error{holdfast::Errc::kNotFound,
                           "load " + ordered.model_sha +
                               ": no file below the roots of this node (" + settings.roots +
                               ") has this content; copy it there"};
  }
  holdfast::wire::Load load = ordered;
  load.path = entry->path;
  load.size = entry->stamp.size;
  load.mtime_ns = entry->stamp.mtime_ns;
  load.identity = entry->stamp.identity;
  return load;
}

holdfast::Result<std::unique_ptr<holdfast::engine::Engine>> open_engine(
    const holdfast::worker::LinkOptions& link, const LoadSettings& settings,
    const holdfast::wire::Load& ordered, const holdfast::worker::Progress& progress,
    holdfast::weight_cache::Client& weight_cache, holdfast::worker::Claims& claims) {
  HOLDFAST_TRY(const holdfast::wire::Load load,
               link.engine == "fake" ? ordered : find_file(settings, ordered));
  holdfast::engine::EngineOptions options;
  options.weight_cache = &weight_cache;
  options.device = link.device;
  options.kernels = load.kernels.empty() ? settings.kernels : load.kernels;
  options.cache_dir = settings.cache_dir;
  options.threads = load.threads > 0 ? std::min(load.threads, link.threads) : link.threads;
  options.context = load.context;
  options.slots = load.slots;
  options.pages = load.pages;
  if (!load.kv_type.empty()) options.kv_type = load.kv_type;
  options.prefill_chunk = load.prefill_chunk;
  options.model_sha = load.model_sha;
  options.progress = progress;
  if (link.engine == "fake") {
    return holdfast::engine::open_fake_engine(load.options, options, settings.fake, load.path);
  }
  HOLDFAST_CHECKED(holdfast::engine::read_options(load.options, options));
  HOLDFAST_CHECKED(check_roots(settings, load.path));
  // Cached weights that no worker uses give way to a model that is needed now.
  HOLDFAST_TRY(const holdfast::huggingface::Stamp stamp, holdfast::worker::check_model_file(load));
  const std::int64_t available = holdfast::available_memory(holdfast::host_memory_pools());
  if (available >= 0 && available < load.bytes) weight_cache.evict_unused(load.model_sha);
  const bool on_host = std::all_of(link.device_memories.begin(), link.device_memories.end(),
                                   [](const auto& memory) { return memory.of_host; });
  if (on_host)
    HOLDFAST_CHECKED(
        claims.claim(load.bytes, holdfast::worker::host_memory(link.weight_cache_path).pools));
  auto engine = holdfast::engine::open_engine(load.path, options);
  if (on_host) claims.release();
  // A file that was cut or written while it was read explains any other error.
  HOLDFAST_CHECKED(holdfast::worker::check_unchanged(load, stamp));
  return engine;
}

void describe_opencl(holdfast::worker::LinkOptions& o, const LoadSettings& settings) {
  const auto found = holdfast::opencl::find_device(o.device, settings.cache_dir);
  if (!found) {
    holdfast::log::warn("no device", {{"device", o.device}, {"reason", found.error().what}});
    return;
  }
  o.device = found->device;
  o.kernels = (settings.kernels.empty() ? found->tier : settings.kernels) + " on " + found->name +
              ", driver " + found->driver + " (" + found->why + ")";
  o.device_memory_bytes = static_cast<std::int64_t>(found->memory_bytes);
  for (const holdfast::opencl::FoundMemory& memory : found->memories) {
    o.device_memories.push_back(
        {memory.key, static_cast<std::int64_t>(memory.bytes), memory.of_host});
  }
}

/// Fills in HELLO's description of the device: the family that runs, for an OpenCL device also the
/// reason, and its own memory. A missing device is reported by the loads, which fail with the
/// reason.
void describe_device(holdfast::worker::LinkOptions& o, const LoadSettings& settings) {
  if (o.engine == "fake") {
    char speed[32];
    std::snprintf(speed, sizeof speed, "fake x%.3g", settings.fake.speed);
    o.kernels = settings.fake.speed == 1 ? "fake" : speed;
  } else if (o.kernels.empty() && o.device == "cpu") {
    const std::vector<std::string> families = holdfast::backend::cpu_families();
    if (!families.empty()) o.kernels = families.front();
  } else if (o.device.rfind("opencl", 0) == 0) {
    describe_opencl(o, settings);
  }
}

/// Reads the command line. Returns false after a message on stderr.
bool read_options(int argc, char** argv, holdfast::worker::LinkOptions& options,
                  LoadSettings& settings) {
  options.ring_tokens = 4096;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc || std::string(argv[i]) == "--help") return std::fputs(kUsage, stderr), false;
    if (!set_option(options, settings, argv[i], argv[i + 1])) return false;
  }
  const bool whole = !options.endpoint.empty() && options.threads >= 1 && options.ring_tokens >= 1;
  if (!whole) std::fputs(kUsage, stderr);
  return whole;
}

/// Reads the key of a worker whose daemon is on another machine.
holdfast::Result<void> read_key(holdfast::worker::LinkOptions& options,
                                const LoadSettings& settings) {
  if (settings.key_file.empty()) return {};
  HOLDFAST_TRY(const auto key, holdfast::client::read_key_file(settings.key_file));
  options.server_key = key.server_key;
  options.public_key = key.public_key;
  options.secret_key = key.secret_key;
  if (options.heartbeat_timeout_ms == 0) options.heartbeat_timeout_ms = kRemoteTimeoutMs;
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  holdfast::open_standard_files();
  if (holdfast::printed_version(argc, argv, "holdfast-worker")) return 0;
  if (argc == 2 && std::string(argv[1]) == "--revisions") {
    return std::puts(holdfast::backend::kernels_revisions().c_str()) < 0 ? 1 : 0;
  }
  holdfast::arm_crash_points("worker");
  holdfast::log::init("holdfast-worker", isatty(STDERR_FILENO) == 0);
  holdfast::worker::LinkOptions options;
  LoadSettings settings;
  if (!read_options(argc, argv, options, settings)) return 2;
  if (const auto read = read_key(options, settings); !read) {
    std::fprintf(stderr, "holdfast-worker: %s\n", read.error().what.c_str());
    return 2;
  }
  holdfast::worker::Claims claims;  // its file is opened while that is allowed
  confine(options, settings);
  describe_device(options, settings);
  holdfast::weight_cache::Client weight_cache(options.weight_cache_path);
  const auto factory = [options, settings, &weight_cache, &claims](
                           const holdfast::wire::Load& load,
                           const holdfast::worker::Progress& progress) {
    return open_engine(options, settings, load, progress, weight_cache, claims);
  };
  holdfast::crash_point(holdfast::CrashPoint::kWorkerStartBegin);
  holdfast::worker::Link link(options, factory);
  running_link = &link;
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGINT, on_stop_signal);
  std::signal(SIGPIPE, SIG_IGN);
  const holdfast::Result<void> end = link.run();
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);
  running_link = nullptr;
  if (end.has_value()) return 0;
  holdfast::log::error("worker ends", {{"reason", end.error().what}});
  return 1;
}
