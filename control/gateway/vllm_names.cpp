#include "control/gateway/vllm_names.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::gateway {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

/// A metric of ours and vLLM's name for it (docs.vllm.ai, "Production Metrics").
struct Name {
  std::string_view ours;
  std::string_view theirs;
};
constexpr Name kNames[] = {
    {"holdfast_num_requests_running", "vllm:num_requests_running"},
    {"holdfast_num_requests_waiting", "vllm:num_requests_waiting"},
    {"holdfast_kv_cache_usage_perc", "vllm:kv_cache_usage_perc"},
    {"holdfast_prefix_cache_queries_total", "vllm:prefix_cache_queries_total"},
    {"holdfast_prefix_cache_hits_total", "vllm:prefix_cache_hits_total"},
    {"holdfast_prompt_tokens_total", "vllm:prompt_tokens_total"},
    {"holdfast_generation_tokens_total", "vllm:generation_tokens_total"},
    {"holdfast_request_success_total", "vllm:request_success_total"},
    {"holdfast_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
    {"holdfast_inter_token_latency_seconds", "vllm:inter_token_latency_seconds"},
    {"holdfast_inter_token_latency_seconds", "vllm:time_per_output_token_seconds"},
    {"holdfast_e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds"},
    {"holdfast_request_queue_time_seconds", "vllm:request_queue_time_seconds"},
    {"holdfast_request_prefill_time_seconds", "vllm:request_prefill_time_seconds"},
    {"holdfast_request_decode_time_seconds", "vllm:request_decode_time_seconds"},
};

bool is_theirs(const ClientMetric::Label& label) {
  return label.name == "model_name" || label.name == "finished_reason";
}

/// Adds up what has the same labels.
void add_to(std::vector<ClientMetric>& sums, const ClientMetric& metric) {
  std::vector<ClientMetric::Label> labels;
  std::copy_if(metric.label.begin(), metric.label.end(), std::back_inserter(labels), is_theirs);
  const auto same = std::find_if(sums.begin(), sums.end(),
                                 [&](const ClientMetric& sum) { return sum.label == labels; });
  if (same == sums.end()) {
    sums.push_back(metric);
    sums.back().label = std::move(labels);
    return;
  }
  same->counter.value += metric.counter.value;
  same->gauge.value += metric.gauge.value;
}

}  // namespace

void add_vllm_names(std::vector<MetricFamily>& families) {
  std::vector<MetricFamily> added;
  for (const Name& name : kNames) {
    const auto ours = std::find_if(families.begin(), families.end(),
                                   [&](const MetricFamily& one) { return one.name == name.ours; });
    if (ours == families.end()) continue;
    MetricFamily& family = added.emplace_back();
    family.name = name.theirs;
    family.help = ours->help;
    family.type = ours->type;
    for (const ClientMetric& metric : ours->metric) add_to(family.metric, metric);
  }
  for (MetricFamily& family : added) families.push_back(std::move(family));
}

}  // namespace holdfast::gateway
