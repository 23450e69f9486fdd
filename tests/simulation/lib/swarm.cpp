#include "tests/simulation/lib/swarm.h"

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

/// Off in most seeds, else up to `most`, small values more likely than large ones.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed * 7919 + 13) {}
  double rate(double on, double most) {
    if (!random_.chance(on)) return 0;
    const double x = static_cast<double>(random_.between(1, 1000)) / 1000;
    return most * x * x;
  }
  std::uint32_t disk(double on, std::int64_t most) {
    return random_.chance(on) ? static_cast<std::uint32_t>(random_.between(1, most)) : 0;
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return random_.between(low, high); }
  bool chance(double p) { return random_.chance(p); }

 private:
  SimRandom random_;
};

void draw_house(Draws& d, Swarm& s) {
  s.requests = static_cast<int>(d.between(50, 60));
  s.clients = static_cast<int>(d.between(2, 5));
  s.workers = static_cast<int>(d.between(1, 3));
  s.slots = static_cast<int>(d.between(1, 4));
  s.prompt_pages = static_cast<int>(d.between(1, 4));
  s.fresh_disk = d.chance(0.3);
  s.two_classes = d.chance(0.15);
  s.reboots = d.chance(0.3);
  s.small_memory = d.chance(0.3);
  s.local_workers = d.chance(0.5);
  s.submit_over_us = d.between(1, 10) * 1'000'000;
  s.step_us = d.between(5, 40) * 1000;
  s.delay_us = d.chance(0.7) ? d.between(100, 3000) : d.between(5'000, 60'000);
  s.sync_us = d.between(100, 8000);
  s.ring_tokens = d.chance(0.3) ? d.between(1, 4) : 4096;
  if (d.chance(0.5)) s.blame_alone = 1, s.blame_quarantine = d.between(2, 3);
  if (d.chance(0.3)) s.boot_queued = d.between(1, 8);
  if (d.chance(0.1)) s.queue_max = d.between(3, 20);
}

}  // namespace

Swarm draw_swarm(std::uint64_t seed) {
  Draws d(seed);
  Swarm s;
  draw_house(d, s);
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
  s.hand_back = d.rate(0.2, 0.1);
  s.new_worker = d.rate(0.35, 1);
  s.write_eio = d.disk(0.08, 100);
  s.sync_eio = d.disk(0.2, 3000);
  s.read_eio = d.disk(0.15, 150);
  s.write_full = d.disk(0.08, 200);
  if (d.chance(0.8)) s.tail_rows = d.between(1, 60);
  return s;
}

}  // namespace holdfast::simulation
