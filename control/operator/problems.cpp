#include "control/operator/problems.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "control/core/drift.h"
#include "control/operator/bound_requests.h"

namespace holdfast::daemon {
namespace {

constexpr std::int64_t kLongWaitUs = 1'000'000;  // for a device
constexpr std::int64_t kMemoryReportMaxAgeUs = 10'000'000;
constexpr std::int64_t kFirstDatagramUs = 3'000'000;  // after a node joined
constexpr std::int64_t kSlowCommitUs = 100'000;
constexpr std::int64_t kLongLogPages = 32'768;  // 128 MiB: twice what a checkpoint begins at

struct Finder {
  const core::Machine& machine;
  const store::Store& store;
  const ProcessFacts& facts;
  std::vector<Problem> found;

  void error(std::string subject, std::string what, std::string hint) {
    found.push_back({true, std::move(subject), std::move(what), std::move(hint)});
  }
  void warn(std::string subject, std::string what, std::string hint) {
    found.push_back({false, std::move(subject), std::move(what), std::move(hint)});
  }
};

std::string seconds(std::int64_t us) {
  return std::to_string((us + 999'999) / 1'000'000) + " s";
}

void look_at_worker(Finder& f, const core::Worker& worker) {
  const std::string& key = worker.hello.worker_key;
  if (worker.quarantined) {
    f.error("worker " + key, "quarantined: " + worker.quarantine_reason,
            "it is not believed any more: test its memory and processor, then `holdfast workers "
            "resume " +
                key + "`");
  } else if (worker.suspect) {
    f.warn("worker " + key, "suspect: " + worker.suspicion,
           "it keeps its models and its work and gets nothing new until it speaks again; the "
           "machine may have more to do than it has processors");
  } else if (worker.draining) {
    f.warn("worker " + key, "draining: it gets no new work",
           "`holdfast workers resume " + key + "` when you are done");
  }
  const core::Breaker breaker = f.machine.breakers().of_worker(key);
  if (!breaker.tripped()) return;
  const std::int64_t left = breaker.open_until_us() - f.facts.now_us;
  f.warn("worker " + key,
         "breaker open after " + std::to_string(breaker.failures()) + " failures in a row" +
             (left > 0 ? ", tries again in " + seconds(left) : ", one try at a time"),
         "see its log for the reason; `holdfast workers resume " + key + "` tries at once");
}

/// Reports nodes whose standstill is noticed late, as no datagrams arrive.
void look_at_nodes(Finder& f) {
  for (const auto& [name, node] : f.machine.nodes().all()) {
    const bool young = f.facts.now_us - node.signs.joined_us < kFirstDatagramUs;
    if (node.peer == 0 || node.signs.liveness != core::Liveness::kTcp || young) continue;
    f.warn("node " + name,
           "no datagrams: liveness by TCP, a machine that stands still is noticed after 2 s",
           "let UDP through to the port of `serve --listen`, in both directions "
           "(docs/run/cluster.md)");
  }
}

/// Reports a service that the loss of this machine would end.
void look_at_pair(Finder& f) {
  if (!f.facts.pair || f.facts.pair->state == "in_step") return;
  const std::string& state = f.facts.pair->state;
  if (state == "missing") {
    f.error("standby", "it is lost, and the record cannot be changed: new requests are refused",
            "bring back the standby or the record; `holdfast ha status` says which is missing");
    return;
  }
  f.warn("standby",
         state == "copying" ? "it gets the database and cannot take over yet"
                            : "there is none: the service ends with this machine",
         "start it on the other machine; see docs/run/standby.md");
}

void look_at_workers(Finder& f) {
  if (f.machine.fleet().workers().empty()) {
    f.error("workers", "no worker is connected: nothing runs",
            "see STATE/logs/worker-*.log; `holdfast serve` starts workers again by itself");
  }
  for (const auto& [peer, worker] : f.machine.fleet().workers()) look_at_worker(f, worker);
  for (const SupervisedChild& child : f.facts.children) {
    if (child.restarts < 5) continue;
    f.warn(child.role + " " + child.name,
           "was started again " + std::to_string(child.restarts) + " times",
           "see STATE/logs/" + child.name + ".log");
  }
}

/// Reports a model that has waited for a while without a device that could take it.
void look_at_waiting(Finder& f, const std::string& name, const core::Model& model) {
  const std::int64_t waits_us =
      model.switch_since_us == 0 ? 0 : f.facts.now_us - model.switch_since_us;
  if (model.row.state != core::ModelState::kPlacing || waits_us < kLongWaitUs) return;
  std::string why;
  for (const core::DeviceVerdict& device : model.devices) {
    if (device.verdict == core::Verdict::kFits || device.verdict == core::Verdict::kLoaded) return;
    why += (why.empty() ? ": " : "; ") + device.worker_key + " " + device.why;
  }
  if (why.empty()) return;  // without any worker the workers' problem says it
  f.warn("model " + name, "waits since " + seconds(waits_us) + " for a device" + why,
         "unload or unpin another model, give it a smaller context or fewer slots, or start a "
         "worker");
}

void look_at_models(Finder& f) {
  for (const auto& [name, model] : f.machine.registry().models()) {
    look_at_waiting(f, name, model);
    if (model.row.state == core::ModelState::kFailed) {
      f.error("model " + name, "failed: " + model.row.reason,
              "repair what the reason says, then `holdfast models load " + name + "`");
    } else if (model.failures > 0) {
      f.warn("model " + name, "its last " + std::to_string(model.failures) + " loads failed",
             "it is tried again by itself; `holdfast models show " + name + "` has the reason");
    }
    if (model.breaker.tripped()) {
      f.warn(
          "model " + name,
          "breaker open after " + std::to_string(model.breaker.failures()) + " failures in a row",
          "`holdfast requests list --with-state failed` has the errors");
    }
  }
  for (const auto& [id, load] : f.machine.loads().all()) {
    if (!core::memory_drifts(load, f.machine.config())) continue;
    f.warn("model " + load.row.model,
           "takes " + std::to_string(load.memory.taken) + " bytes on " + load.row.worker_key +
               ", reserved are " + std::to_string(load.row.bytes),
           "the device may run out: lower models.memory_percent, and report it");
  }
}

void look_at_memory(Finder& f) {
  for (const auto& [key, pool] : f.machine.memory().pools()) {
    // Without reports for a while, the pool's workers are gone or too busy.
    if (pool.pressed_since_us == 0 || f.facts.now_us - pool.reported_us > kMemoryReportMaxAgeUs)
      continue;
    f.warn("memory of " + pool.host,
           std::to_string(pool.last.available) + " of " + std::to_string(pool.last.total) +
               " bytes available, everybody waits for memory " +
               std::to_string(pool.last.stall / 100) +
               " % of the time: nothing is loaded, idle models are unloaded",
           "end other programs, unload models, or lower models.memory_percent; the bounds are "
           "memory.min_available_percent and memory.max_stall_percent");
  }
}

/// Reports requests that wait for a numerics class which no worker has.
void look_at_bound(Finder& f) {
  for (const BoundRequests& bound : bound_requests(f.machine)) {
    if (bound.served || !bound.loaded || !bound.worker.empty()) continue;
    f.warn("requests",
           std::to_string(bound.requests) + " of " + bound.model + " began in numerics class " +
               bound.class_start + ", which no worker has; each ends with " +
               std::string(errc_name(Errc::kDeterminismClassUnavailable)) + " after " +
               std::to_string(f.machine.config().requests_class_wait_ms) + " ms",
           "put the worker program of that kernels revision into libexec/holdfast/workers/NAME, or "
           "serve with the --kernels that it names");
  }
}

void look_at_requests(Finder& f) {
  const core::Config& config = f.machine.config();
  if (f.machine.core().paused) {
    f.warn("queue", "paused: accepted work waits", "`holdfast queue resume`");
  }
  if (f.machine.core().draining) {
    f.warn("daemon", "draining: it is about to end", "start it again, or wait for its restart");
  }
  if (f.machine.jobs().helpers() == 0) {
    f.error("ingress", "no helper is connected: prompts with text are refused",
            "see STATE/logs/ingress-*.log");
  }
  if (f.machine.lifecycle().quarantined() > 0) {
    f.warn("requests",
           std::to_string(f.machine.lifecycle().quarantined()) +
               " quarantined: workers died each time that they ran them",
           "`holdfast requests list --with-state quarantined`, then `requests requeue ID` or "
           "`requests cancel ID`");
  }
  if (f.machine.core().counters.violations > 0) {
    f.error("numerics",
            std::to_string(f.machine.core().counters.violations) +
                " times a token came out differently when it was computed again",
            "memory or processor of that worker is bad, or it is a bug of ours: report it");
  }
  const std::int64_t live =
      f.machine.lifecycle().requests().usage().all().requests + f.machine.lifecycle().unread();
  if (live * 10 >= config.queue_max_requests * 9) {
    f.warn("queue",
           std::to_string(live) + " of at most " + std::to_string(config.queue_max_requests) +
               " requests",
           "new ones will be refused with queue_full: add workers, or raise queue.max_requests");
  }
}

void look_at_config(Finder& f) {
  const core::Config effective = core::effective_config(
      f.machine.config_history().base(), f.machine.config_history().config_version());
  std::string names;
  for (const core::Knob& knob : core::knobs()) {
    const core::NamedKnob named(knob);
    if (!knob.restart || named.value(effective) == named.value(f.machine.config())) continue;
    names += (names.empty() ? "" : ", ") + std::string(knob.name);
  }
  if (names.empty()) return;
  f.warn("config", "waits for a restart of the daemon: " + names,
         "restart `holdfast serve`, or `holdfast config unset` what you do not want");
}

void look_at_disk(Finder& f) {
  const std::int64_t free = f.store.disk_free();
  const std::int64_t bound = f.machine.config().storage_min_free_bytes;
  if (f.machine.core().storage_low) {
    f.error("disk",
            std::to_string(free) + " bytes are free, new requests are refused below " +
                std::to_string(bound),
            "free some space, or lower retention.hours or retention.max_bytes");
  } else if (free < bound * 4) {
    f.warn("disk",
           std::to_string(free) + " bytes are free; admission ends at " + std::to_string(bound),
           "free some space soon");
  }
  if (f.facts.commit_us.count() >= 100 && f.facts.commit_us.quantile(0.95) > kSlowCommitUs) {
    f.warn("disk",
           "one commit in twenty takes longer than " +
               std::to_string(f.facts.commit_us.quantile(0.95) / 1000) + " ms",
           "put the state directory on a faster disk; `holdfast doctor` measures it");
  }
  const auto loss = f.store.log_loss();
  if (loss && *loss) {
    f.error("database",
            "the end of its log is lost: of " + std::to_string((*loss)->expected) +
                " groups that were synced the last " +
                std::to_string((*loss)->expected - (*loss)->found) + " are not there",
            "requests that were accepted may be unknown: restore a newer backup, or `holdfast db "
            "accept-loss` when that has been dealt with");
  }
  if (f.store.wal_pages() > kLongLogPages) {
    f.warn(
        "database",
        "its log has " + std::to_string(f.store.wal_pages()) + " pages: something reads for long",
        "end scripts that keep control.db open");
  }
}

/// Checks that keys and their directory are for their owner alone.
void look_at_keys(Finder& f) {
  const std::string dir = f.facts.state_dir + "/keys";
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(dir.c_str()), &closedir);
  if (!open) return;
  while (const dirent* entry = readdir(open.get())) {
    const std::string name = entry->d_name;
    struct stat info {};
    const std::string path = dir + "/" + name;
    if (name == ".." || stat(path.c_str(), &info) != 0 || (info.st_mode & 077) == 0) continue;
    if (name == ".") {
      f.warn("keys", dir + " can be entered by others", "chmod 700 " + dir);
    } else {
      f.error("keys", path + " can be read or written by others",
              "chmod 600 " + path + ", and make a new key: this one may be known");
    }
  }
}

}  // namespace

std::vector<Problem> find_problems(const core::Machine& machine, const store::Store& store,
                                   const ProcessFacts& facts) {
  Finder finder{machine, store, facts, {}};
  look_at_workers(finder);
  look_at_nodes(finder);
  look_at_pair(finder);
  look_at_models(finder);
  look_at_memory(finder);
  look_at_requests(finder);
  look_at_bound(finder);
  look_at_config(finder);
  look_at_disk(finder);
  look_at_keys(finder);
  std::stable_partition(finder.found.begin(), finder.found.end(),
                        [](const Problem& problem) { return problem.error; });
  return finder.found;
}

}  // namespace holdfast::daemon
