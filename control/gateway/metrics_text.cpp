#include "control/gateway/metrics_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "control/gateway/vllm_names.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using nlohmann::json;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric with_labels(const std::vector<std::string>& names, const json& values) {
  ClientMetric metric;
  for (std::size_t i = 0; i < names.size(); ++i) {
    metric.label.push_back({names[i], values.at(i).get<std::string>()});
  }
  return metric;
}

void fill_histogram(ClientMetric& metric, const json& row, const std::vector<double>& bounds) {
  metric.histogram.sample_count = row.at(1).get<std::uint64_t>();
  metric.histogram.sample_sum = row.at(2).get<double>();
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    metric.histogram.bucket.push_back({row.at(3).at(i).get<std::uint64_t>(), bounds[i]});
  }
}

/// Throws json::exception if the document is malformed.
MetricFamily read_family(const json& j) {
  MetricFamily family;
  family.name = j.at("name").get<std::string>();
  family.help = j.at("help").get<std::string>();
  const auto type = j.at("type").get<std::string>();
  family.type = type == "counter"     ? MetricType::Counter
                : type == "histogram" ? MetricType::Histogram
                                      : MetricType::Gauge;
  const auto labels = j.at("labels").get<std::vector<std::string>>();
  std::vector<double> bounds;
  if (type == "histogram") bounds = j.at("bounds").get<std::vector<double>>();
  for (const json& row : j.at("rows")) {
    ClientMetric metric = with_labels(labels, row.at(0));
    if (type == "histogram") {
      fill_histogram(metric, row, bounds);
    } else if (type == "counter") {
      metric.counter.value = row.at(1).get<double>();
    } else {
      metric.gauge.value = row.at(1).get<double>();
    }
    family.metric.push_back(std::move(metric));
  }
  return family;
}

/// Returns false if the document cannot be read; then nothing of it is used.
bool read_document(const std::string& document, std::vector<MetricFamily>& out) {
  try {
    const json j = try_parse_json<json>(document);
    std::vector<MetricFamily> families;
    for (const json& family : j.at("families")) {
      families.push_back(read_family(family));
      if (families.back().metric.empty()) families.pop_back();
    }
    for (MetricFamily& family : families) out.push_back(std::move(family));
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

MetricFamily& begin(std::vector<MetricFamily>& out, MetricType type, const char* name,
                    const char* help) {
  MetricFamily& family = out.emplace_back();
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

void add_counter(std::vector<MetricFamily>& out, const char* name, const char* help,
                 std::uint64_t value) {
  ClientMetric metric;
  metric.counter.value = static_cast<double>(value);
  begin(out, MetricType::Counter, name, help).metric.push_back(std::move(metric));
}

void add_gauge(std::vector<MetricFamily>& out, const char* name, const char* help,
               std::int64_t value) {
  ClientMetric metric;
  metric.gauge.value = static_cast<double>(value);
  begin(out, MetricType::Gauge, name, help).metric.push_back(std::move(metric));
}

void add_http(std::vector<MetricFamily>& out, const HttpStats& http) {
  MetricFamily& requests = begin(out, MetricType::Counter, "holdfast_http_requests_total",
                                 "HTTP requests that this gateway has answered.");
  for (const auto& [key, count] : http.answers()) {
    ClientMetric metric;
    metric.label = {{"method", std::get<0>(key)},
                    {"path", std::get<1>(key)},
                    {"status", std::to_string(std::get<2>(key))}};
    metric.counter.value = static_cast<double>(count);
    requests.metric.push_back(std::move(metric));
  }
  if (requests.metric.empty()) out.pop_back();
  add_gauge(out, "holdfast_http_connections", "Open connections.", http.connections);
  add_counter(out, "holdfast_http_connections_accepted_total", "Connections that were accepted.",
              http.connections_accepted);
  add_counter(out, "holdfast_http_connections_refused_total", "Connections that were one too many.",
              http.connections_refused);
  add_counter(out, "holdfast_http_strangers_dropped_total",
              "Connections without a key that gave way to newer ones.", http.strangers_dropped);
  add_gauge(out, "holdfast_http_streams", "Answers that are being streamed.", http.streams);
  add_gauge(out, "holdfast_http_held_streams",
            "Streams that are held back, as their client reads slowly.", http.held_streams);
  add_counter(out, "holdfast_http_readers_cut_off_total",
              "Connections closed, as their client took no byte for too long.",
              http.readers_cut_off);
  add_counter(out, "holdfast_http_received_bytes_total", "Bytes of requests.", http.bytes_received);
  add_counter(out, "holdfast_http_sent_bytes_total", "Bytes of answers.", http.bytes_sent);
}

void add_webhooks(std::vector<MetricFamily>& out, const WebhookStats& webhooks) {
  add_gauge(out, "holdfast_webhook_deliveries_waiting",
            "Deliveries that are due or wait to be tried again, of all gateways.",
            webhooks.waiting);
  add_counter(out, "holdfast_webhook_deliveries_total",
              "Deliveries that their target has taken from this gateway.", webhooks.delivered);
  add_counter(out, "holdfast_webhook_failed_tries_total",
              "Tries of this gateway that failed and are made again.", webhooks.tries_failed);
  add_counter(out, "holdfast_webhook_given_up_total", "Deliveries that this gateway has given up.",
              webhooks.given_up);
}

}  // namespace

std::string metrics_text(const std::string* document, const HttpStats& http,
                         const WebhookStats& webhooks, MetricNames names) {
  std::vector<MetricFamily> families;
  const bool up = document != nullptr && read_document(*document, families);
  add_gauge(families, "holdfast_daemon_up", "1 if the daemon has answered this scrape.", up);
  add_http(families, http);
  add_webhooks(families, webhooks);
  if (names != MetricNames::kOurs) add_vllm_names(families);
  if (names == MetricNames::kVllm) {
    std::erase_if(families, [](const MetricFamily& one) { return !one.name.starts_with("vllm:"); });
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return std::move(text).str();
}

}  // namespace holdfast::gateway
