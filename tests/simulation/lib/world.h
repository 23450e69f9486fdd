#pragma once
// Time, chance and memory of one simulation: an event queue in simulated microseconds, one source
// of randomness, the hash of everything that happened, and the first thing that went wrong.

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/simulation/lib/sim_random.h"
#include "tests/simulation/lib/swarm.h"

namespace holdfast::simulation {

inline constexpr std::int64_t kMs = 1000;
inline constexpr std::int64_t kSecond = 1'000'000;

struct Counts {
  std::array<std::uint64_t, kFaultCount> faults{};
  std::vector<std::uint64_t> transitions;  // of core::request_transitions()
  std::uint64_t seeds = 0, requests = 0, choices = 0, tokens = 0, commits = 0, events = 0;
  std::int64_t simulated_us = 0;
  void add(const Counts& other);
};

class World {
 public:
  World(std::uint64_t seed, const Swarm& what, bool verbose)
      : swarm(what), random(seed), verbose_(verbose) {}

  const Swarm swarm;
  SimRandom random;
  Counts counts;
  std::int64_t now_us = kSecond;
  bool healed = false;        // no more accidents
  bool power_failed = false;  // at least once
  bool taken_over = false;    // by a standby, at least once
  // Bytes that were reserved for what living workers hold, by host, then by worker and load.
  std::map<std::string, std::map<std::string, std::int64_t>> memory_held;

  std::int64_t wall_ms() const { return wall_ms_at(now_us, wall_shift_ms_); }
  void step_wall_clock(std::int64_t by_ms);
  /// The most that the wall clock went forward between any two moments since then.
  std::int64_t most_wall_gain_ms(std::int64_t since_us) const;

  void after(std::int64_t delay_us, std::function<void()> run);
  /// Runs the next event. False when nothing is left to happen.
  bool run_one();

  /// True with this probability, never after healing.
  bool accident(double probability) {
    return !healed && probability > 0 && random.bernoulli(probability);
  }
  void hit(Fault fault) { ++counts.faults[static_cast<std::size_t>(fault)]; }

  /// Adds to the hash of everything that happened. say() makes its text only if somebody will read
  /// it.
  void trace(std::uint64_t kind, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0);
  template <class Text>
  void say(const Text& text) {
    if (verbose_ && failure_.empty()) add_line(text());
  }
  void fail(const std::string& what);
  const std::string& failure() const { return failure_; }
  std::uint64_t hash() const { return hash_; }
  const std::deque<std::string>& last_lines() const { return lines_; }

 private:
  struct Entry {
    std::int64_t at_us;
    std::uint64_t order;
    std::function<void()> run;
    bool operator<(const Entry& other) const {
      return std::pair(at_us, order) > std::pair(other.at_us, other.order);
    }
  };
  static std::int64_t wall_ms_at(std::int64_t us, std::int64_t shift_ms) {
    return 1'700'000'000'000 + us / kMs + shift_ms;
  }
  void add_line(std::string line);

  std::int64_t wall_shift_ms_ = 0;                                 // all steps together
  std::vector<std::pair<std::int64_t, std::int64_t>> wall_steps_;  // when, and all up to then
  std::vector<Entry> heap_;
  std::uint64_t order_ = 0;
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
  bool verbose_;
  std::string failure_;
  std::deque<std::string> lines_;
};

}  // namespace holdfast::simulation
