#include "control/gateway/console_api/history.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>

#include "shared/base/clock.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using nlohmann::json;

constexpr const char* kFields[] = {"at_ms",
                                   "up",
                                   "tokens_per_s",
                                   "accepted_per_s",
                                   "ended_per_s",
                                   "refused_per_s",
                                   "waiting",
                                   "running",
                                   "first_token_p50_ms",
                                   "first_token_p95_ms",
                                   "token_gap_p50_ms",
                                   "token_gap_p95_ms"};
constexpr std::string_view kFirstToken = "holdfast_time_to_first_token_seconds";
constexpr std::string_view kGap = "holdfast_inter_token_latency_seconds";

void add_times(Reading::Times& times, const json& family) {
  times.bounds_s = family.at("bounds").get<std::vector<double>>();
  times.counts.assign(times.bounds_s.size() + 1, 0);
  for (const json& row : family.at("rows")) {
    for (std::size_t i = 0; i < times.bounds_s.size(); ++i) {
      times.counts[i] += row.at(3).at(i).get<double>();
    }
    times.counts.back() += row.at(1).get<double>();
  }
}

double sum_of(const Reading& reading, std::string_view name) {
  const auto found = reading.sums.find(name);
  return found == reading.sums.end() ? 0 : found->second;
}

std::optional<double> times_of(const std::optional<Reading>& before, const Reading& now,
                               std::string_view name, double q) {
  const auto found = now.times.find(name);
  if (found == now.times.end()) return std::nullopt;
  const Reading::Times* earlier = nullptr;
  if (before) {
    const auto it = before->times.find(name);
    if (it != before->times.end()) earlier = &it->second;
  }
  return quantile_ms(earlier, found->second, q);
}

json sample_json(const Sample& sample) {
  json row = json::array({sample.at_ms, sample.up});
  const auto put = [&](bool available, double value) {
    row.push_back(available ? json(std::round(value * 1000) / 1000) : json());
  };
  for (const double rate : {sample.tokens, sample.accepted, sample.ended, sample.refused}) {
    put(sample.up && sample.counted, rate);
  }
  put(sample.up, sample.waiting);
  put(sample.up, sample.running);
  for (const auto& time :
       {sample.first_token_p50, sample.first_token_p95, sample.gap_p50, sample.gap_p95}) {
    put(time.has_value(), time.value_or(0));
  }
  return row;
}

json head_json(std::int64_t interval_ms, std::size_t most) {
  return {{"interval_ms", interval_ms},
          {"samples_max", most},
          {"fields", kFields},
          {"samples", json::array()}};
}

}  // namespace

std::string empty_history_document() {
  return head_json(0, 0).dump();
}

std::optional<Reading> read_metrics(const std::string& document) {
  try {
    Reading reading;
    const json j = try_parse_json<json>(document);
    for (const json& family : j.at("families")) {
      const auto name = family.at("name").get<std::string>();
      if (family.at("type") == "histogram") {
        if (name == kFirstToken || name == kGap) add_times(reading.times[name], family);
        continue;
      }
      double sum = 0;
      for (const json& row : family.at("rows")) sum += row.at(1).get<double>();
      reading.sums[name] = sum;
    }
    reading.epoch = static_cast<std::int64_t>(sum_of(reading, "holdfast_daemon_epoch"));
    return reading;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

namespace {

/// The part of a bucket with the counts (below, upto] that lies under the rank.
double part_below(double rank, double below, double upto) {
  return upto > below ? (rank - below) / (upto - below) : 1;
}

/// Counts of all buckets since `before`; as they are if the two cannot be compared.
std::vector<double> counts_since(const Reading::Times* before, const Reading::Times& now) {
  std::vector<double> counts = now.counts;
  if (before == nullptr || before->counts.size() != now.counts.size()) return counts;
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] -= before->counts[i];
  return counts;
}

}  // namespace

std::optional<double> quantile_ms(const Reading::Times* before, const Reading::Times& now,
                                  double q) {
  const std::vector<double> counts = counts_since(before, now);
  if (counts.empty() || counts.back() <= 0) return std::nullopt;
  const double rank = q * counts.back();
  for (std::size_t i = 0; i < now.bounds_s.size(); ++i) {
    if (counts[i] < rank || counts[i] <= 0) continue;
    const double low = i == 0 ? 0 : now.bounds_s[i - 1];
    const double below = i == 0 ? 0 : counts[i - 1];
    const double within = part_below(rank, below, counts[i]);
    return 1000 * (low + (now.bounds_s[i] - low) * std::clamp(within, 0.0, 1.0));
  }
  return now.bounds_s.empty() ? std::nullopt : std::optional(1000 * now.bounds_s.back());
}

Sample make_sample(const std::optional<Reading>& earlier, const Reading& now, std::int64_t at_ms,
                   double seconds) {
  Sample sample;
  sample.at_ms = at_ms;
  sample.up = true;
  sample.waiting = sum_of(now, "holdfast_num_requests_waiting");
  sample.running = sum_of(now, "holdfast_num_requests_running");
  // Without an earlier reading it is unknown when the counted events happened.
  if (!earlier || seconds <= 0) return sample;
  sample.counted = true;
  const std::optional<Reading> before =
      earlier->epoch == now.epoch ? earlier : std::optional<Reading>();
  const auto rate = [&](std::string_view name) {
    const double was = before ? sum_of(*before, name) : 0;
    return std::max(sum_of(now, name) - was, 0.0) / seconds;
  };
  sample.tokens = rate("holdfast_generation_tokens_total");
  sample.accepted = rate("holdfast_requests_accepted_total");
  sample.ended = rate("holdfast_requests_ended_total");
  sample.refused = rate("holdfast_requests_refused_total");
  sample.first_token_p50 = times_of(before, now, kFirstToken, 0.5);
  sample.first_token_p95 = times_of(before, now, kFirstToken, 0.95);
  sample.gap_p50 = times_of(before, now, kGap, 0.5);
  sample.gap_p95 = times_of(before, now, kGap, 0.95);
  return sample;
}

History::History(std::shared_ptr<DaemonMetrics> metrics, HistoryOptions options)
    : metrics_(std::move(metrics)), options_(options), thread_([this] { run(); }) {}

History::~History() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_changed_.notify_all();
  thread_.join();
}

std::optional<Reading> History::ask() {
  auto answer = std::make_shared<std::promise<DaemonMetrics::Document>>();
  auto document = answer->get_future();
  metrics_->ask([answer](DaemonMetrics::Document text) { answer->set_value(std::move(text)); });
  const DaemonMetrics::Document text = document.get();
  return text == nullptr ? std::nullopt : read_metrics(*text);
}

void History::run() {
  std::optional<Reading> before;
  std::int64_t before_us = 0;
  for (auto next = std::chrono::steady_clock::now();;) {
    const std::optional<Reading> now = ask();
    const std::int64_t now_us = system_clock().monotonic_us();
    Sample sample;
    sample.at_ms = system_clock().wall_ms();
    if (now) {
      sample =
          make_sample(before, *now, sample.at_ms, static_cast<double>(now_us - before_us) / 1e6);
      before = now;
      before_us = now_us;
    }
    std::unique_lock lock(mutex_);
    samples_.push_back(sample);
    if (samples_.size() > options_.samples) samples_.pop_front();
    next = std::max(next + options_.interval, std::chrono::steady_clock::now());
    if (stop_changed_.wait_until(lock, next, [this] { return stopping_; })) return;
  }
}

std::string History::document(std::int64_t since_ms) const {
  json out = head_json(options_.interval.count(), options_.samples);
  const std::lock_guard lock(mutex_);
  for (const Sample& sample : samples_) {
    if (sample.at_ms > since_ms) out["samples"].push_back(sample_json(sample));
  }
  return out.dump();
}

}  // namespace holdfast::gateway
