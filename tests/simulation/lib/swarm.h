#pragma once
// Settings of one seed: sizes of the cluster and how likely each accident is. Most accidents are
// off in most seeds (swarm testing: a run with some kinds of faults reaches states that a run with
// all of them never does).

#include <cstdint>
#include <string_view>

namespace holdfast::simulation {

enum class Fault : std::uint8_t {
#define HOLDFAST_FAULT(id, name) id,
#include "tests/simulation/lib/faults.inc"
#undef HOLDFAST_FAULT
};
inline constexpr std::size_t kFaultCount =
#define HOLDFAST_FAULT(id, name) +1
#include "tests/simulation/lib/faults.inc"
#undef HOLDFAST_FAULT
    ;
std::string_view fault_name(Fault fault);

struct Swarm {
  // the cluster
  int requests = 50, clients = 4, workers = 2, slots = 2, prompt_pages = 2;
  bool fresh_disk = false;     // begin without a database
  bool reboots = false;        // a power failure ends the monotonic clock
  bool two_classes = false;    // the last worker computes other tokens
  bool small_memory = false;   // one model at a time on a worker
  bool local_workers = false;  // a power failure takes them too
  bool crowd = false;          // no accidents; the first request has many choices
  int nodes = 0;               // that the workers are on; 0: on hosts that are none
  bool datagrams = false;      // of nodes; else liveness by TCP
  bool pair = false;           // a standby on another machine, and a record of who is the primary
  bool pair_strict = false, pair_synced = false;  // ha.strict, ha.synced
  bool aliases = false;  // requests by an alias too; its targets and canaries change
  std::int64_t submit_over_us = 0, step_us = 0, delay_us = 0, sync_us = 0, ring_tokens = 0;
  std::int64_t blame_alone = 2, blame_quarantine = 5, queue_max = 1000;
  std::int64_t boot_queued = 512;  // requests that a start reads before it serves
  std::int64_t tail_rows = 4096;   // before the newest tokens move to their requests
  std::int64_t retention_hours = 168, retention_key_hours = 24;
  std::int64_t retention_max_bytes = 8LL << 30;
  std::int64_t clock_step_ms = 3'600'000;  // at most
  std::int64_t exit_report_ms = 50;        // until the supervisor tells of a death, at most

  std::int64_t record_delay_us = 10'000;  // of each way to the record, at most

  // rates per simulated second
  double node_lost = 0, node_cut = 0, node_leave = 0, op_node = 0;
  double machine_lost = 0, link_cut = 0, record_away = 0, switch_over = 0;
  double daemon_kill = 0, power_failure = 0, connection_drop = 0, clog = 0, partition = 0;
  double worker_kill = 0, worker_crash = 0, worker_oom = 0, worker_hang = 0, worker_pause = 0;
  double worker_starve = 0;  // or hung: silent, and its process lives
  double worker_drain = 0, helper_death = 0, clock_step = 0, disk_full = 0, storage_low = 0;
  double op_pause = 0, op_cancel = 0, op_load = 0, op_unload = 0, op_shutdown = 0, op_requeue = 0;
  double op_alias = 0, op_move = 0, op_drain = 0, client_vanish = 0;

  // per opportunity
  double datagram_loss = 0;
  double power_at_takeover = 0, record_late = 0, record_answer_lost = 0, standby_dies_in_write = 0;
  double die_before_commit = 0, die_in_commit = 0, die_after_commit = 0, die_in_release = 0;
  double die_in_boot = 0, die_again = 0, slow_sync = 0, socket_full = 0, load_fails = 0;
  double gap = 0, lie = 0, repeat = 0, stale = 0, slow_worker = 0, bit_rot = 0, exit_lost = 0;
  double repeat_submit = 0, same_key = 0, other_body = 0, foreign = 0, cancel = 0, replay = 0;
  double deadline = 0, text_prompt = 0, poison = 0, slow_client = 0, zero_tokens = 0;
  double bad_model = 0;  // a token of model m1 is an error instead
  double return_dispatch = 0, new_worker = 0, ask_again = 0, step_unknown = 0;
  std::uint32_t write_eio = 0, sync_eio = 0, read_eio = 0, write_full = 0;  // of 1 << 16
};
/// Seeds from here on may have a standby or nodes; those before are of one machine.
inline constexpr std::uint64_t kClusterSeeds = 1'000'000;
Swarm draw_swarm(std::uint64_t seed);

}  // namespace holdfast::simulation
