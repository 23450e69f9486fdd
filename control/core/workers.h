#pragma once
// Workers and their loads. Credits are arithmetic here: a worker reports its sizes once, the daemon
// counts what it has given out.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "control/core/requests.h"
#include "shared/base/kv_page.h"

namespace holdfast::core {

/// One model on one worker, from the decision to load it to its end.
struct Load {
  LoadRow row;
  PeerId worker = 0;  // 0: its worker is gone
  std::set<ChoiceRef> running;
  std::int64_t pages_used = 0;  // of `running`, by our count
  std::int64_t held_until_us = 0;
  bool alone = false;               // a suspected choice runs here by itself
  std::int64_t ready_us = 0;        // monotonic; 0 = not yet
  std::int64_t idle_since_us = 0;   // when it last ended to run something
  std::int64_t dwell_timer_us = 0;  // end of its dwell time, when a timer was set for it
  std::string why;                  // reason of the placement, and with what
  double progress = 0;
  wire::MemoryReport memory;
  std::int64_t deadline_us = 0;  // of the next report while loading
  /// Keys of the memory pools that it takes from; not known from a start of the daemon until its
  /// worker says HELLO: until then it counts in all of them.
  std::optional<std::vector<std::string>> pools;
  bool settled = false;  // was ready: what its pools have available lacks its memory already
  /// Its worker's Hello::only_class: it serves what is bound to such a class, and nothing new.
  std::string only_class = {};
};

/// Memory that the load of a lost worker may still hold: the process is not known to have ended.
struct Remains {
  LoadRow row;               // of the load, ended; `bytes` are what is held
  bool in_database = false;  // its reservation stands there, so that the next start counts it too
  std::optional<std::vector<std::string>> pools;
  bool settled = false;
  std::int64_t until_us = 0;
};

/// A worker as the daemon has it in memory, from its hello to its end.
struct Worker {
  PeerId peer = 0;
  wire::Hello hello;                // without models and active; `memory` as last reported
  std::int64_t free_at_change = 0;  // free bytes of its device at the last change of a load
  wire::WorkerStats stats;
  bool quarantined = false;
  bool draining = false;
  bool suspect = false;       // one of the two below; its loads and fences stay
  bool self_suspect = false;  // silent or stopped
  bool node_suspect = false;  // its node is silent, and it has not spoken since
  std::string suspicion;      // why
  std::int64_t spoke_us = 0;  // its last message, monotonic
  std::string quarantine_reason;
  std::int64_t since_ms = 0;
  std::set<std::string> loads;  // load ids

  bool takes_work() const { return !quarantined && !draining && !suspect; }
};

/// A worker that was given up and has not come back, for operators to see.
struct LostWorker {
  std::int64_t pid = 0;
  std::string host, device;
  std::string why;
  std::int64_t since_ms = 0;
};

/// Name of the worker's state in the worker list and in the metrics.
std::string_view worker_state_name(const Worker& worker);

/// Keys of the memory pools that the worker takes from, as it reported them last.
std::vector<std::string> pool_keys(const Worker& worker);

/// KV pages of `tokens` tokens.
std::int64_t pages_for(std::int64_t tokens, std::int64_t page_tokens);

/// Returns true if a choice of `tokens` tokens so far (prompt + committed) fits: its pages, and one
/// page for each sequence that runs already to grow into. `fewer` of those, with `pages` pages, are
/// about to give way.
bool fits_now(const Load& load, std::int64_t tokens, std::int64_t fewer = 0,
              std::int64_t pages = 0);

}  // namespace holdfast::core
