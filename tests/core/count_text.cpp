#include "tests/core/count_text.h"

namespace holdfast::core {
namespace {

using Counts = std::map<std::string, std::int64_t>;

void put(Counts& to, const std::string& name, std::uint64_t value) {
  if (value != 0) to[name] = static_cast<std::int64_t>(value);
}

void put(Counts& to, const std::string& name, const Histogram& h) {
  put(to, name, h.count());
  put(to, name + ".us", static_cast<std::uint64_t>(h.sum()));
}

void put(Counts& to, const std::string& name, const ModelStats& m) {
  put(to, name + ".queue_wait", m.queue_wait);
  put(to, name + ".first_token", m.first_token);
  put(to, name + ".token_gap", m.token_gap);
  put(to, name + ".prefill", m.prefill);
  put(to, name + ".decode", m.decode);
  put(to, name + ".end_to_end", m.end_to_end);
  put(to, name + ".prompt_tokens", m.prompt_tokens);
  put(to, name + ".generated_tokens", m.generated_tokens);
  for (std::size_t i = 0; i < m.ended.size(); ++i) {
    put(to, name + ".ended." + std::to_string(i), m.ended[i]);
  }
  for (std::size_t i = 0; i < m.finished.size(); ++i) {
    put(to, name + ".finished." + std::to_string(i), m.finished[i]);
  }
}

}  // namespace

Counts counts_of(const Machine& machine, Now now) {
  Counts out;
  const Counters& c = machine.core().counters;
  const std::pair<const char*, std::uint64_t> counters[] = {
      {"accepted", c.accepted},
      {"duplicates", c.duplicates},
      {"refused", c.refused},
      {"succeeded", c.succeeded},
      {"failed", c.failed},
      {"cancelled", c.cancelled},
      {"expired", c.expired},
      {"tokens", c.tokens},
      {"duplicate_tokens", c.duplicate_tokens},
      {"stale_events", c.stale_events},
      {"violations", c.violations},
      {"envelope_drifts", c.envelope_drifts},
      {"idle_unloads", c.idle_unloads},
      {"memory_pressures", c.memory_pressures},
      {"pressure_unloads", c.pressure_unloads},
      {"dispatched", c.dispatched},
      {"resumed", c.resumed},
      {"adopted", c.adopted},
      {"returned", c.returned},
      {"requeued", c.requeued},
      {"preempted", c.preempted},
      {"workers_lost", c.workers_lost},
      {"retired", c.retired},
      {"breakers_opened", c.breakers_opened},
      {"suspicions", c.suspicions},
      {"false_suspicions", c.false_suspicions},
      {"node_suspicions", c.node_suspicions},
      {"node_false_alarms", c.node_false_alarms},
      {"second_attempts", c.second_attempts},
      {"recovered", c.recovered},
      {"replayed_tokens", c.replayed_tokens},
  };
  static_assert(sizeof(counters) / sizeof(counters[0]) * sizeof(std::uint64_t) == sizeof(Counters));
  for (const auto& [name, value] : counters) put(out, name, value);
  const Stats& s = machine.core().stats;
  for (const auto& [name, model] : s.models) put(out, name, model);
  put(out, "model_switch", s.model_switch);
  put(out, "accepted_in_minute", s.accepted.count(now.mono_us));
  put(out, "ended_in_minute", s.ended.count(now.mono_us));
  put(out, "tokens_in_minute", s.tokens.count(now.mono_us));
  for (std::size_t i = 0; i < s.refused.size(); ++i) {
    put(out, "refused." + std::string(errc_name(static_cast<Errc>(i))), s.refused[i]);
  }
  return out;
}

std::string count_changes(const Counts& before, const Counts& now) {
  std::string out;
  const auto was = [&](const std::string& name) {
    const auto at = before.find(name);
    return at == before.end() ? 0 : at->second;
  };
  for (const auto& [name, value] : now) {
    if (value == was(name)) continue;
    const std::int64_t change = value - was(name);
    out += " " + name + (change > 0 ? "=+" : "=") + std::to_string(change);
  }
  return out;
}

}  // namespace holdfast::core
