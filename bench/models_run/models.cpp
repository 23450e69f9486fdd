// Models of a cluster: registering, waiting, requesting.
#include <nlohmann/json.hpp>

#include "bench/models_run/cases.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {

using nlohmann::json;

Result<std::unique_ptr<LocalCluster>> start_patient_cluster(const Options& options,
                                                            const std::string& name,
                                                            std::vector<std::string> config) {
  config.emplace_back("link.worker_timeout_ms=5000");
  return start_cluster(options, name, config);
}

Result<void> add_model(LocalCluster& cluster, const Options& options, const ModelSpec& spec) {
  const json args = {{"name", spec.name},   {"path", spec.path.empty() ? options.model : spec.path},
                     {"slots", spec.slots}, {"context", spec.context},
                     {"load", spec.load},   {"options", spec.engine_options}};
  HOLDFAST_TRY(const std::string ignored, cluster.op("models.add", args.dump()));
  return {};
}

Result<void> operate(LocalCluster& cluster, const std::string& verb, const std::string& name) {
  HOLDFAST_TRY(const std::string ignored, cluster.op(verb, json{{"name", name}}.dump()));
  return {};
}

Result<json> show_model(LocalCluster& cluster, const std::string& name) {
  HOLDFAST_TRY(const std::string text, cluster.op("models.show", json{{"name", name}}.dump()));
  json document = try_parse_json<json>(text);
  if (!document.is_object()) return Error{Errc::kInternal, "models.show: no document"};
  return document;
}

Result<void> wait_state(LocalCluster& cluster, const std::string& name, const std::string& state,
                        std::int64_t patience_ms) {
  const std::int64_t until = now_us() + patience_ms * 1000;
  std::string now;
  while (now_us() < until) {
    HOLDFAST_TRY(const json model, show_model(cluster, name));
    now = model.value("state", "");
    if (now == state) return {};
    if (now == "failed") {
      return Error{Errc::kModelFailed, "model " + name + " failed: " + model.value("reason", "")};
    }
    sleep_ms(1);
  }
  return Error{Errc::kTimeout, "model " + name + " is " + now + ", not " + state + ", after " +
                                   std::to_string(patience_ms) + " ms"};
}

RequestResult ask(client::Client& client, const std::string& model, std::int64_t number,
                  std::int64_t max_tokens) {
  wire::Submit submit = ids_submit(number, max_tokens);
  submit.model = model;
  RequestResult result;
  const std::int64_t begin = now_us();
  const auto accepted = client.submit(client::Principal::local(), std::move(submit));
  if (const auto* failure = std::get_if<client::Failure>(&accepted)) {
    result.failure = failure->message;
    return result;
  }
  const auto end =
      client.stream(client::AllTenants::local(), std::get<wire::Accepted>(accepted).info.request_id,
                    {}, [&](const wire::Event& event) {
                      result.tokens += static_cast<std::int64_t>(event.ids.size());
                      result.ids.insert(result.ids.end(), event.ids.begin(), event.ids.end());
                    });
  result.ms = static_cast<double>(now_us() - begin) / 1000;
  if (const auto* failure = std::get_if<client::Failure>(&end)) {
    result.failure = failure->message;
  } else if (std::get<wire::RequestInfo>(end).state != wire::RequestState::kSucceeded) {
    result.failure =
        "ended as " + std::string(wire::state_name(std::get<wire::RequestInfo>(end).state));
  }
  return result;
}

}  // namespace holdfast::bench
