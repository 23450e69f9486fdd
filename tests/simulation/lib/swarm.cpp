#include "tests/simulation/lib/swarm.h"

#include <algorithm>

#include "tests/simulation/lib/sim_random.h"

namespace holdfast::simulation {

std::string_view fault_name(Fault fault) {
  static constexpr std::string_view kNames[] = {
#define HOLDFAST_FAULT(id, name) name,
#include "tests/simulation/lib/faults.inc"
#undef HOLDFAST_FAULT
  };
  return kNames[static_cast<std::size_t>(fault)];
}

namespace {

constexpr double kPairs = 0.2;   // the share of cluster seeds with a standby
constexpr double kNodes = 0.15;  // … with nodes

/// Draws values: off in most seeds, else up to `most`, small values more likely than large ones.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed * 7919 + 13) {}
  double rate(double on, double most) {
    if (!random_.bernoulli(on)) return 0;
    const double x = static_cast<double>(random_.between(1, 1000)) / 1000;
    return most * x * x;
  }
  std::uint32_t disk(double on, std::int64_t most) {
    return random_.bernoulli(on) ? static_cast<std::uint32_t>(random_.between(1, most)) : 0;
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return random_.between(low, high); }
  bool bernoulli(double p) { return random_.bernoulli(p); }

 private:
  SimRandom random_;
};

void draw_cluster_options(Draws& d, Swarm& s) {
  s.requests = static_cast<int>(d.between(50, 60));
  s.clients = static_cast<int>(d.between(2, 5));
  s.workers = static_cast<int>(d.between(1, 3));
  s.slots = static_cast<int>(d.between(1, 4));
  s.prompt_pages = static_cast<int>(d.between(1, 4));
  s.fresh_disk = d.bernoulli(0.3);
  s.two_classes = d.bernoulli(0.15);
  s.reboots = d.bernoulli(0.3);
  s.small_memory = d.bernoulli(0.3);
  s.local_workers = d.bernoulli(0.5);
  s.submit_over_us = d.between(1, 10) * 1'000'000;
  s.step_us = d.between(5, 40) * 1000;
  s.delay_us = d.bernoulli(0.7) ? d.between(100, 3000) : d.between(5'000, 60'000);
  s.sync_us = d.between(100, 8000);
  s.ring_tokens = d.bernoulli(0.3) ? d.between(1, 4) : 4096;
  if (d.bernoulli(0.5)) s.blame_alone = 1, s.blame_quarantine = d.between(2, 3);
  if (d.bernoulli(0.3)) s.boot_queued = d.between(1, 8);
  if (d.bernoulli(0.1)) s.queue_max = d.between(3, 20);
  if (d.bernoulli(0.2)) s.exit_report_ms = d.between(100, 2000);
}

/// Ended requests are deleted: for space, where the clock stands still as far as hours are
/// concerned, or for their age, where it jumps.
void draw_retention(Draws& d, Swarm& s) {
  if (d.bernoulli(0.2)) {
    s.retention_max_bytes = d.bernoulli(0.5) ? 1 : d.between(80'000, 250'000);
    s.retention_key_hours = d.bernoulli(0.7) ? 0 : 1;
  } else if (d.bernoulli(0.12)) {
    s.retention_hours = 1;
    s.retention_key_hours = d.between(0, 2);
  } else {
    return;
  }
  s.ask_again = std::max(s.ask_again, 0.1);
  s.same_key = std::max(s.same_key, 0.2);
  s.other_body = std::max(s.other_body, 0.1);
  if (s.retention_key_hours > 0 || s.retention_hours == 1) {
    s.clock_step = static_cast<double>(d.between(0, 500)) / 1000;
    s.clock_step_ms = 3 * 3'600'000;
  }
}

/// Some seeds are about requests that kill their workers again and again, and what may happen to
/// one in quarantine: damaged rows, an operator, its deadline, deaths of the daemon.
void draw_poison(Draws& d, Swarm& s) {
  s.poison = static_cast<double>(d.between(50, 300)) / 1000;
  s.blame_alone = 1;
  s.blame_quarantine = d.between(1, 3);
  s.bit_rot = d.bernoulli(0.6) ? 2 : 0;
  s.daemon_kill = static_cast<double>(d.between(100, 600)) / 1000;
  s.op_requeue = d.bernoulli(0.5) ? 1 : 0;
  s.op_cancel = d.bernoulli(0.3) ? 1 : 0;
  s.exit_report_ms = d.bernoulli(0.5) ? d.between(100, 1000) : 50;
}

/// Accidents by the second.
void draw_rates(Draws& d, Swarm& s) {
  s.daemon_kill = d.rate(0.3, 0.8);
  s.power_failure = d.rate(0.4, 0.6);
  s.connection_drop = d.rate(0.4, 3);
  s.clog = d.rate(0.3, 2);
  s.partition = d.rate(0.25, 0.8);
  s.worker_kill = d.rate(0.35, 1);
  s.worker_crash = d.rate(0.25, 1);
  s.worker_oom = d.rate(0.2, 0.5);
  s.worker_hang = d.rate(0.2, 0.5);
  s.worker_pause = d.rate(0.3, 1);
  s.worker_starve = d.rate(0.4, 3);
  s.worker_drain = d.rate(0.15, 0.4);
  s.helper_death = d.rate(0.2, 1);
  s.clock_step = d.rate(0.4, 1);
  s.disk_full = d.rate(0.15, 0.4);
  s.storage_low = d.rate(0.15, 0.3);
  s.op_pause = d.rate(0.3, 0.5);
  s.op_cancel = d.rate(0.2, 1);
  s.op_load = d.rate(0.2, 0.5);
  s.op_unload = d.rate(0.2, 0.3);
  s.op_shutdown = d.rate(0.15, 0.3);
  s.op_requeue = d.rate(0.2, 1);
  s.op_move = d.rate(0.2, 1);
  s.op_drain = d.rate(0.15, 0.3);
  s.client_vanish = d.rate(0.4, 1);
}

/// Accidents by the opportunity.
void draw_probabilities(Draws& d, Swarm& s) {
  s.die_before_commit = d.rate(0.3, 0.02);
  s.die_in_commit = d.rate(0.3, 0.02);
  s.die_after_commit = d.rate(0.3, 0.02);
  s.die_in_release = d.rate(0.3, 0.02);
  s.die_in_boot = d.rate(0.3, 0.6);
  s.die_again = d.rate(0.3, 0.5);
  s.slow_sync = d.rate(0.2, 0.1);
  s.socket_full = d.rate(0.25, 0.2);
  s.load_fails = d.rate(0.15, 0.5);
  s.gap = d.rate(0.1, 0.02);
  s.lie = d.rate(0.12, 0.02);
  s.repeat = d.rate(0.3, 0.2);
  s.stale = d.rate(0.2, 0.1);
  s.slow_worker = d.rate(0.3, 0.05);
  s.bit_rot = d.rate(0.1, 0.5);
  s.exit_lost = d.rate(0.2, 1);
  s.repeat_submit = d.rate(0.3, 0.5);
  s.same_key = d.rate(0.3, 0.3);
  s.other_body = d.rate(0.2, 0.3);
  s.foreign = d.rate(0.15, 0.3);
  s.cancel = d.rate(0.4, 0.5);
  s.replay = d.rate(0.3, 0.3);
  s.deadline = d.rate(0.4, 1);
  s.text_prompt = d.rate(0.3, 0.5);
  s.poison = d.rate(0.25, 0.1);
  s.slow_client = d.rate(0.3, 0.2);
  s.zero_tokens = d.rate(0.1, 0.2);
  s.return_dispatch = d.rate(0.2, 0.1);
  s.new_worker = d.rate(0.35, 1);
  s.ask_again = d.rate(0.4, 0.5);
  s.step_unknown = d.rate(0.3, 1);
  s.write_eio = d.disk(0.08, 100);
  s.sync_eio = d.disk(0.2, 3000);
  s.read_eio = d.disk(0.15, 150);
  s.write_full = d.disk(0.08, 200);
  if (d.bernoulli(0.8)) s.tail_rows = d.between(1, 60);
}

void draw_aliases(Draws& d, Swarm& s) {
  s.aliases = d.bernoulli(0.35);
  if (!s.aliases) return;
  s.op_alias = static_cast<double>(d.between(500, 4000)) / 1000;
  s.bad_model = d.bernoulli(0.6) ? static_cast<double>(d.between(10, 500)) / 1000 : 0;
}

/// A standby on a machine of its own. Workers and clients are elsewhere.
void draw_pair(Draws& d, Swarm& s) {
  s.pair = true;
  s.local_workers = false;
  s.pair_strict = d.bernoulli(0.15);
  s.pair_synced = d.bernoulli(0.3);
  s.record_delay_us = d.bernoulli(0.7) ? d.between(2'000, 30'000) : d.between(30'000, 600'000);
  s.machine_lost = d.rate(0.7, 2);
  s.link_cut = d.rate(0.8, 3);
  s.record_away = d.rate(0.5, 1);
  s.switch_over = d.rate(0.6, 2);
  s.power_at_takeover = d.rate(0.4, 0.5);
  s.record_late = d.rate(0.5, 0.6);
  s.record_answer_lost = d.rate(0.5, 0.6);
  s.standby_dies_in_write = d.rate(0.3, 0.02);
}

/// Workers on nodes, two at most on each.
void draw_nodes(Draws& d, Swarm& s) {
  s.workers = static_cast<int>(d.between(2, 4));
  s.nodes = static_cast<int>(d.between(2, s.workers));
  s.local_workers = false;
  s.datagrams = d.bernoulli(0.7);
  s.node_lost = d.rate(0.5, 0.8);
  s.node_cut = d.rate(0.6, 1.5);
  s.node_leave = d.rate(0.6, 1.2);
  s.op_node = d.rate(0.5, 1);
  s.datagram_loss = d.rate(0.4, 0.2);
}

/// A cluster without accidents in which one tenant requests much more than there are slots.
Swarm draw_crowd(Draws& d, const Swarm& busy) {
  Swarm s;
  s.crowd = true;
  s.requests = busy.requests;
  s.clients = busy.clients;
  s.workers = busy.workers;
  s.slots = busy.slots;
  s.prompt_pages = busy.prompt_pages;
  s.small_memory = busy.small_memory;
  s.submit_over_us = d.between(1, 4) * 1'000'000;
  s.step_us = busy.step_us;
  s.delay_us = d.between(100, 3000);
  s.sync_us = busy.sync_us;
  s.ring_tokens = 4096;
  return s;
}

}  // namespace

Swarm draw_swarm(std::uint64_t seed) {
  Draws d(seed);
  Swarm s;
  draw_cluster_options(d, s);
  draw_rates(d, s);
  draw_probabilities(d, s);
  if (s.fresh_disk && d.bernoulli(0.6)) {
    // The first start, cut short.
    s.die_in_boot = std::max(s.die_in_boot, 0.4);
    s.power_failure = std::max(s.power_failure, 0.3);
  }
  draw_retention(d, s);
  if (d.bernoulli(0.06)) draw_poison(d, s);
  draw_aliases(d, s);
  if (d.bernoulli(0.08)) return draw_crowd(d, s);
  if (seed < kClusterSeeds) return s;
  if (d.bernoulli(kPairs)) draw_pair(d, s);
  if (d.bernoulli(kNodes)) draw_nodes(d, s);
  return s;
}

}  // namespace holdfast::simulation
