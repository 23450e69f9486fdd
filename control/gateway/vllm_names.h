#pragma once
// vLLM's names for our metrics: dashboards, autoscalers and schedulers of others look for them.

#include <prometheus/metric_family.h>

#include <vector>

namespace holdfast::gateway {

/// Adds to `families` those that vLLM has too, under its names: the same numbers, summed over
/// labels that vLLM does not have.
void add_vllm_names(std::vector<prometheus::MetricFamily>& families);

}  // namespace holdfast::gateway
