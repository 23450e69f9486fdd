#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {
namespace {

constexpr std::size_t kLinesMax = 4000;

}  // namespace

void Counts::add(const Counts& other) {
  for (std::size_t i = 0; i < faults.size(); ++i) faults[i] += other.faults[i];
  transitions.resize(std::max(transitions.size(), other.transitions.size()));
  for (std::size_t i = 0; i < other.transitions.size(); ++i) transitions[i] += other.transitions[i];
  seeds += other.seeds;
  requests += other.requests;
  choices += other.choices;
  tokens += other.tokens;
  commits += other.commits;
  events += other.events;
  simulated_us += other.simulated_us;
}

void World::step_wall_clock(std::int64_t by_ms) {
  wall_steps_.emplace_back(now_us, wall_shift_ms_);
  wall_shift_ms_ += by_ms;
}

std::int64_t World::most_wall_gain_ms(std::int64_t since_us) const {
  std::int64_t most = 0;
  std::int64_t from_us = since_us;
  std::int64_t lowest_ms = INT64_MAX;
  const auto stretch = [&](std::int64_t end_us, std::int64_t shift_ms) {
    if (end_us < from_us) return;
    lowest_ms = std::min(lowest_ms, wall_ms_at(from_us, shift_ms));
    most = std::max(most, wall_ms_at(end_us, shift_ms) - lowest_ms);
    from_us = end_us;
  };
  for (const auto& [at_us, shift_ms] : wall_steps_) stretch(at_us, shift_ms);
  stretch(now_us, wall_shift_ms_);
  return most;
}

void World::after(std::int64_t delay_us, std::function<void()> run) {
  heap_.push_back({now_us + std::max<std::int64_t>(delay_us, 0), ++order_, std::move(run)});
  std::push_heap(heap_.begin(), heap_.end());
}

bool World::run_one() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end());
  Entry entry = std::move(heap_.back());
  heap_.pop_back();
  now_us = entry.at_us;
  ++counts.events;
  entry.run();
  return true;
}

void World::trace(std::uint64_t kind, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  for (const std::uint64_t value : {kind, static_cast<std::uint64_t>(now_us), a, b, c}) {
    hash_ = (hash_ ^ value) * 0x100000001b3ull;
    hash_ ^= hash_ >> 29;
  }
}

void World::fail(const std::string& what) {
  if (!failure_.empty()) return;
  say([&] { return "VIOLATION " + what; });
  failure_ = what;
}

void World::add_line(std::string line) {
  lines_.push_back(std::to_string(now_us / kMs) + "." +
                   std::to_string(now_us % kMs + 1000).substr(1) + " ms  " + std::move(line));
  if (lines_.size() > kLinesMax) lines_.pop_front();
}

}  // namespace holdfast::simulation
