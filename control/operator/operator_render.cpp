// Documents that answer operator verbs.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/core/drift.h"
#include "control/core/golden.h"
#include "control/objects/objects.h"
#include "control/objects/pulls.h"
#include "control/operator/alias_documents.h"
#include "control/operator/bound_requests.h"
#include "control/operator/config_documents.h"
#include "control/operator/db_documents.h"
#include "control/operator/derived_ids.h"
#include "control/operator/documents.h"
#include "control/operator/metrics_document.h"
#include "control/operator/operator_verbs.h"
#include "control/operator/server_key.h"
#include "control/operator/status_document.h"
#include "shared/base/json_text.h"
#include "shared/pull/job.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

std::string breaker_state(const core::Breaker& breaker) {
  return breaker.tripped() ? "open after " + std::to_string(breaker.failures()) + " failures"
                           : "closed";
}

/// Devices as placement sees them now, the first that it tries at the top; for a model that failed
/// as it saw them then.
json devices_json(const core::Machine& machine, const core::Model& model) {
  const bool is_assigned = model.row.load_requested && model.row.state != core::ModelState::kFailed;
  json list = json::array();
  for (const core::DeviceVerdict& v :
       is_assigned ? machine.placement().survey(model) : model.devices) {
    list.push_back({{"worker", v.worker_key},
                    {"device", v.device},
                    {"verdict", core::verdict_name(v.verdict)},
                    {"needed_bytes", v.needed},
                    {"free_bytes", v.free},
                    {"may_give_bytes", v.may_give},
                    {"largest_context", v.largest_context},
                    {"why", v.why}});
  }
  return list;
}

json model_json(const core::Machine& machine, const core::Model& model) {
  const core::ModelRow& r = model.row;
  json loads = json::array();
  double progress = -1;
  for (const core::Load* at : machine.loads().all().of_model(r.name)) {
    const core::Load& load = *at;
    progress = std::max(progress, load.progress);
    loads.push_back({{"load_id", load.row.load_id},
                     {"worker", load.row.worker_key},
                     {"connected", load.worker != 0},
                     {"state", core::model_state_name(load.row.state)},
                     {"class", load.row.numerics_class},
                     {"slots", load.row.slots},
                     {"pages", load.row.pages},
                     {"pages_used", load.pages_used},
                     {"running", load.running.size()},
                     {"reserved_bytes", load.row.bytes},
                     {"placed", load.why},
                     {"weights_bytes", load.memory.weights},
                     {"kv_bytes", load.memory.kv},
                     {"scratch_bytes", load.memory.scratch},
                     {"taken_bytes", load.memory.taken},
                     {"drift_percent", core::drift_percent(load)},
                     {"drifts", core::memory_drifts(load, machine.config())},
                     {"progress", load.progress},
                     {"reason", load.row.reason}});
  }
  json j = {{"name", r.name},
            {"state", core::model_state_name(r.state)},
            {"reason", r.reason},
            {"breaker", breaker_state(model.breaker)},
            {"architecture", r.architecture},
            {"context", r.context},
            {"slots", r.slots},
            {"pages", r.pages},
            {"kv_type", r.kv_type},
            {"vocab", r.vocab},
            {"chat", r.chat},
            {"output", r.output},
            {"makes", core::is_encoder(r) ? "vectors" : "text"},
            {"size_bytes", r.size},
            {"weights_bytes", r.weights_bytes},
            {"kv_bytes", r.kv_bytes},
            {"scratch_bytes", r.scratch_bytes},
            {"sha", r.sha},
            {"path", r.path},
            {"options", r.options},
            {"wanted", r.load_requested},
            {"pinned", model.pinned},
            {"failures", model.failures},
            {"created_ms", r.created_ms},
            {"last_used_ms", r.last_used_ms},
            {"loads", std::move(loads)}};
  if (progress >= 0) j["progress"] = progress;
  if (const auto at_ms = machine.idle_unloads().unloads_at_ms(model)) j["unloads_ms"] = *at_ms;
  j["devices"] = devices_json(machine, model);
  return j;
}

}  // namespace

json models_json(const core::Machine& machine) {
  json list = json::array();
  for (const auto& [name, model] : machine.registry().models())
    list.push_back(model_json(machine, model));
  return list;
}

namespace {

json worker_json(const core::Machine& machine, const core::Worker& worker) {
  std::int64_t running = 0;
  std::int64_t pages_used = 0;
  std::int64_t pages = 0;
  std::int64_t slots = 0;
  json models = json::array();
  for (const std::string& id : worker.loads) {
    const auto load = machine.loads().all().find(id);
    if (load == machine.loads().all().end()) continue;
    running += static_cast<std::int64_t>(load->second.running.size());
    pages_used += load->second.pages_used;
    pages += load->second.row.pages;
    slots += load->second.row.slots;
    models.push_back(load->second.row.model);
  }
  const wire::Hello& h = worker.hello;
  return {{"key", h.worker_key},
          {"id", h.worker_key},
          {"state", core::worker_state_name(worker)},
          {"reason", worker.quarantined ? worker.quarantine_reason : worker.suspicion},
          {"failures", machine.breakers().of_worker(h.worker_key).failures()},
          {"breaker", breaker_state(machine.breakers().of_worker(h.worker_key))},
          {"pid", h.pid},
          {"host", h.host},
          {"device", h.device},
          {"kernels", h.kernels},
          {"threads", h.threads},
          {"engine", h.engine},
          {"only_class", h.only_class},
          {"incarnation", h.incarnation},
          {"since_ms", worker.since_ms},
          {"running", running},
          {"slots", slots},
          {"pages", pages},
          {"pages_used", pages_used},
          {"models", std::move(models)},
          {"memory_total", h.memory.total},
          {"memory_free", h.memory.free},
          {"rss_bytes", h.memory.rss},
          {"steps", worker.stats.steps},
          {"tokens", worker.stats.tokens},
          {"allocations", worker.stats.allocations},
          {"step_ms", worker.stats.step_ms}};
}

/// Has the members of a connected worker, so that scripts need no second case.
json lost_json(const core::Machine& machine, const std::string& key, const core::LostWorker& lost) {
  core::Worker gone;
  gone.hello.worker_key = key;
  gone.hello.pid = lost.pid;
  gone.hello.host = lost.host;
  gone.hello.device = lost.device;
  gone.since_ms = lost.since_ms;
  json row = worker_json(machine, gone);
  row["state"] = "lost";
  row["reason"] = lost.why;
  return row;
}

}  // namespace

json workers_json(const core::Machine& machine) {
  json list = json::array();
  for (const auto& [peer, worker] : machine.fleet().workers())
    list.push_back(worker_json(machine, worker));
  for (const auto& [key, lost] : machine.fleet().lost_workers())
    list.push_back(lost_json(machine, key, lost));
  return list;
}

namespace {

json bound_json(const core::Machine& machine) {
  json list = json::array();
  for (const BoundRequests& bound : bound_requests(machine)) {
    list.push_back({{"model", bound.model},
                    {"class", bound.class_start},
                    {"requests", bound.requests},
                    {"served", bound.served},
                    {"loaded", bound.loaded},
                    {"worker", bound.worker}});
  }
  return list;
}

}  // namespace

json queue_json(const core::Machine& machine) {
  const core::Config& config = machine.config();
  return {{"paused", machine.core().paused},
          {"bound", bound_json(machine)},
          {"queued_choices", machine.lifecycle().queued_choices()},
          {"running_choices", machine.lifecycle().running_choices()},
          {"live_requests",
           machine.lifecycle().requests().usage().all().requests + machine.lifecycle().unread()},
          {"unread_requests", machine.lifecycle().unread()},
          {"live_bytes", machine.lifecycle().requests().usage().all().bytes},
          {"preparing", machine.jobs().size()},
          {"max_requests", config.queue_max_requests},
          {"max_tenant_requests", config.queue_max_tenant_requests},
          {"max_bytes", config.queue_max_bytes}};
}

namespace {

json request_json(const core::RequestRow& r) {
  return {{"id", r.id},
          {"seq", r.seq},
          {"state", wire::state_name(r.state)},
          {"model", r.model},
          {"model_sha", r.model_sha},
          {"alias", r.alias},
          {"canary", r.canary},
          {"rerouted_from", r.rerouted_from},
          {"api_key", r.api_key},
          {"tenant", r.tenant},
          {"class", r.numerics_class},
          {"priority", static_cast<int>(r.priority)},
          {"n", r.n},
          {"max_tokens", r.max_tokens},
          {"created_ms", r.created_ms},
          {"started_ms", r.started_ms},
          {"finished_ms", r.finished_ms},
          {"error_code", r.error_code},
          {"error", r.error}};
}

json attempt_json(const store::Store::Attempt& a) {
  json j = {{"choice", a.choice},
            {"fence_epoch", a.fence.epoch},
            {"fence_counter", a.fence.counter},
            {"worker_key", a.worker_key},
            {"load_id", a.load_id},
            {"start_index", a.start_index},
            {"end_index", nullptr},
            {"adopted", a.adopted ? 1 : 0},
            {"started_ms", a.started_ms},
            {"ended_ms", nullptr},
            {"reason", a.reason}};
  if (a.ended_ms != 0) {
    j["ended_ms"] = a.ended_ms;
    j["end_index"] = a.end_index;
  }
  return j;
}

/// Row, sums of tokens and number of attempts; if `full`, choices and attempts too.
Result<json> request_details(const core::RequestRow& row, core::Machine& machine,
                             store::Store& store, bool full) {
  json j = request_json(row);
  HOLDFAST_TRY(const auto found, store.find_by_id(row.id));
  HOLDFAST_TRY(const auto attempts, store.attempts(row.seq));
  std::int64_t tokens = 0;
  std::int64_t prompt_tokens = 0;
  json choices = json::array();
  if (found) {
    for (const core::BootChoice& c : found->choices) {
      const std::int64_t prompt = found->prompt_tokens[static_cast<std::size_t>(c.row.prompt)];
      tokens += c.row.next_index;
      prompt_tokens += prompt;
      choices.push_back({{"choice", c.row.choice},
                         {"prompt", c.row.prompt},
                         {"prompt_tokens", prompt},
                         {"next_index", c.row.next_index},
                         {"finish", wire::finish_name(c.row.finish)},
                         {"error_code", c.row.error_code},
                         {"error", c.row.error},
                         {"deaths", c.row.deaths}});
    }
  }
  j["tokens"] = tokens;
  j["prompt_tokens"] = prompt_tokens;
  j["attempts"] = attempts.size();
  const core::Request* live = machine.request(row.id);
  if (live != nullptr && (full || row.state == wire::RequestState::kQueued)) {
    const wire::RequestInfo info = machine.lifecycle().info(*live);
    j["queue_position"] = info.queue_position;
    j["eta_ms"] = info.eta_ms;
    j["subscribers"] = live->subscribers;
  }
  if (!full) return j;
  j["choices"] = std::move(choices);
  j["attempts"] = json::array();
  for (const store::Store::Attempt& a : attempts) j["attempts"].push_back(attempt_json(a));
  return j;
}

Result<json> requests_json(const json& args, core::Machine& machine, store::Store& store) {
  store::Store::RequestSearch search;
  search.state = args.value("state", std::string());
  search.model = args.value("model", std::string());
  search.tenant = args.value("tenant", std::string());
  search.id = args.value("id", std::string());
  search.oldest_first = args.value("oldest_first", false);
  search.from = args.value("from", core::Seq{0});
  search.limit = std::clamp<std::int64_t>(args.value("limit", std::int64_t{50}), 1, 1'000);
  search.look_at = std::clamp<std::int64_t>(args.value("look_at", std::int64_t{0}), 0, 1LL << 40);
  HOLDFAST_TRY(const auto page, store.list_requests(search));
  json list = json::array();
  for (const core::RequestRow& row : page.rows) {
    HOLDFAST_TRY(json one, request_details(row, machine, store, false));
    list.push_back(std::move(one));
  }
  json j = {{"requests", std::move(list)}};
  if (page.next != 0) j["next"] = page.next;
  return j;
}

Result<json> show_request(const std::string& id, core::Machine& machine, store::Store& store) {
  HOLDFAST_TRY(const auto found, store.find_by_id(id));
  if (!found) return Error{Errc::kNotFound, "no request with id " + id};
  return request_details(found->row, machine, store, true);
}

Result<json> show_model(const std::string& name, const core::Machine& machine) {
  const auto alias = machine.aliases().all().find(name);
  if (alias != machine.aliases().all().end()) return alias_json(machine, alias->second);
  const auto model = machine.registry().models().find(name);
  if (model == machine.registry().models().end()) {
    return Error{Errc::kModelNotFound, "model \"" + name + "\" is not registered"};
  }
  json j = model_json(machine, model->second);
  const std::string& profile = model->second.row.profile;
  if (!profile.empty()) j["profile"] = try_parse_json<json>(profile);
  return j;
}

/// Compares the file of a model, as a helper found it, with what is registered.
Result<json> verify_json(const std::string& key, const core::Machine& machine) {
  const core::FoundFile found = core::read_verified_key(key);
  const auto model = machine.registry().models().find(found.model);
  if (model == machine.registry().models().end()) {
    return Error{Errc::kModelNotFound, "model \"" + found.model + "\" was removed meanwhile"};
  }
  const core::ModelRow& row = model->second.row;
  const bool same_plan = found.weights_bytes == row.weights_bytes &&
                         found.kv_bytes == row.kv_bytes && found.scratch_bytes == row.scratch_bytes;
  return json{{"name", found.model},
              {"path", row.path},
              {"same_content", found.sha == row.sha},
              {"same_size", found.size == row.size},
              {"same_mtime", found.mtime_ns == row.mtime_ns},
              {"same_envelope", same_plan},
              {"sha", found.sha},
              {"registered_sha", row.sha},
              {"size_bytes", found.size},
              {"envelope_bytes", found.weights_bytes + found.kv_bytes + found.scratch_bytes},
              {"registered_envelope_bytes", row.weights_bytes + row.kv_bytes + row.scratch_bytes}};
}

/// A question, and what answers it.
struct Question {
  const std::string& verb;
  const std::string& text;  // the key of what a change was about, or the arguments of a question
  core::Machine& machine;
  store::Store& store;
  const ProcessFacts& facts;

  json args() const { return text.empty() ? json::object() : try_parse_json<json>(text); }
};

json models_list(const core::Machine& machine) {
  json j = {{"models", models_json(machine)}};
  if (!machine.aliases().all().empty()) j["aliases"] = aliases_json(machine);
  return j;
}

Result<json> models_document(const Question& q) {
  if (q.verb == "models.list") return models_list(q.machine);
  if (q.verb == "models.aliases") return json{{"aliases", aliases_json(q.machine)}};
  if (q.verb == "models.remove" || q.verb == "models.alias_remove") {
    return json{{"name", q.text}, {"removed", true}};
  }
  if (q.verb == "models.verify") return verify_json(q.text, q.machine);
  if (q.verb == "models.golden") {
    const std::size_t end = q.text.find('\n');
    return json{{"name", q.text.substr(0, end)}, {"golden", q.text.substr(end + 1)}};
  }
  if (q.verb == "models.alias_history") {
    const json args = q.args();
    return alias_history_json(args.value("name", std::string()),
                              std::clamp<std::int64_t>(args.value("limit", 50), 1, 1'000), q.store);
  }
  if (q.verb == "models.show") return show_model(q.args().value("name", std::string()), q.machine);
  return show_model(q.text, q.machine);
}

Result<json> requests_document(const Question& q) {
  if (q.verb == "requests.list") return requests_json(q.args(), q.machine, q.store);
  if (q.verb == "requests.show") {
    return show_request(q.args().value("id", std::string()), q.machine, q.store);
  }
  return show_request(q.text, q.machine, q.store);  // it was cancelled, moved or queued again
}

/// Pulls, the newest first; one by its model's name.
Result<json> pulls_document(const Question& q) {
  constexpr std::int64_t kPullsMax = 1'000;
  if (q.verb == "pulls.show") {
    const std::string name = q.args().value("name", std::string());
    HOLDFAST_TRY(const auto row, q.store.find_object(pull::kPullKind, name));
    if (!row) return Error{Errc::kNotFound, "no pull of a model \"" + name + "\""};
    return pull_document(*row);
  }
  store::Store::ObjectQuery query;
  query.kind = pull::kPullKind;
  query.newest_first = true;
  query.limit = kPullsMax;
  HOLDFAST_TRY(const auto rows, q.store.list_objects(query));
  json list = json::array();
  for (const core::ObjectRow& row : rows) list.push_back(pull_document(row));
  return json{{"pulls", std::move(list)}};
}

Result<json> workers_document(const Question& q) {
  if (q.verb == "workers.list") return json{{"workers", workers_json(q.machine)}};
  return json{{"key", q.text}, {"draining", q.verb == "workers.drain"}};
}

/// Adds how the node is judged, and what its datagrams show.
void add_signs(json& document, const core::Node& node) {
  const core::NodeSigns& signs = node.signs;
  const bool by_datagrams = signs.liveness == core::Liveness::kDatagrams;
  const bool there = node.peer != 0;
  document["liveness"] = there ? json(core::liveness_name(signs.liveness)) : json(nullptr);
  document["silence_ms"] =
      there && by_datagrams ? json(signs.last.longest_us / 1000) : json(nullptr);
  document["datagrams_missed"] = signs.last.missed;
  document["false_alarms"] = signs.false_alarms;
}

/// The secret of a node's datagrams, for that node alone.
json session_json(const wire::LivenessSession& session) {
  return {{"session", session.id}, {"key", wire::liveness_key_text(session.key)}};
}

/// Fetches of a node: models that it lacks, and how far it is with each.
json fetches_json(const core::Node& node) {
  json list = json::array();
  for (const core::FetchReport& report : node.fetching) {
    list.push_back({{"sha", report.sha},
                    {"name", report.name},
                    {"state", report.state},
                    {"source", report.source},
                    {"done_bytes", report.done_bytes},
                    {"bytes", report.bytes},
                    {"error_code", report.error_code},
                    {"error", report.error}});
  }
  return list;
}

/// Adds what the node measured of itself; numbers that were not measured are null.
void add_facts(json& document, const core::NodeFacts& facts) {
  const auto number = [](std::int64_t value) { return value > 0 ? json(value) : json(nullptr); };
  document["domain"] = facts.domain;
  document["round_trip_us"] = number(facts.round_trip_us);
  document["link_bytes_s"] = number(facts.link_bytes_s);
  document["memory_bytes_s"] = number(facts.memory_bytes_s);
}

json node_json(const Question& q, const core::Node& node) {
  json workers = json::array();
  for (const auto& [peer, worker] : q.machine.fleet().workers()) {
    if (core::node_of(worker.hello.worker_key) == node.name) {
      workers.push_back(worker.hello.worker_key);
    }
  }
  const bool reported = node.reported_us != 0 && q.facts.now_us >= node.reported_us;
  json document = {
      {"name", node.name},
      {"state", core::node_state_name(node.state)},
      {"workers", std::move(workers)},
      {"heard_ms", reported ? json((q.facts.now_us - node.reported_us) / 1000) : json(nullptr)},
      {"host", node.host},
      {"version", node.version},
      {"since_ms", node.since_ms},
      {"drained", node.drained},
      {"models", node.models ? json(node.models->size()) : json(nullptr)},
      {"lacks", node.lacks},
      {"fetches", fetches_json(node)},
      {"gives", node.gives},
      {"fetch_bytes_s", q.machine.config().nodes_fetch_bytes_s},
      {"reason", node.why}};
  add_signs(document, node);
  add_facts(document, node.facts);
  if (q.facts.liveness_session) document["datagrams"] = session_json(*q.facts.liveness_session);
  return document;
}

Result<json> nodes_document(const Question& q) {
  if (q.verb == "nodes.list") {
    json list = json::array();
    for (const auto& [name, node] : q.machine.nodes().all()) list.push_back(node_json(q, node));
    return json{{"nodes", std::move(list)}};
  }
  const std::string name = q.verb == "nodes.show" ? q.args().value("name", std::string()) : q.text;
  const auto node = q.machine.nodes().all().find(name);
  if (node == q.machine.nodes().all().end()) {
    return Error{Errc::kNotFound, "no node \"" + name + "\" has joined"};
  }
  return node_json(q, node->second);
}

Result<json> supervised_document(const Question& q) {
  ProcessFacts supervised = q.facts;
  supervised.children = read_supervisor_note(q.facts.state_dir + "/run").children;
  if (q.verb == "metrics") return metrics_document(q.machine, q.store, supervised);
  return status_document(q.machine, q.store, supervised);
}

Result<json> document(const Question& q) {
  if (q.verb == "status" || q.verb == "metrics") return supervised_document(q);
  if (q.verb.starts_with("models.")) return models_document(q);
  if (q.verb.starts_with("requests.")) return requests_document(q);
  if (q.verb.starts_with("workers.")) return workers_document(q);
  if (q.verb.starts_with("node")) return nodes_document(q);
  if (q.verb.starts_with("pulls.")) return pulls_document(q);
  if (q.verb.starts_with("queue.")) return queue_json(q.machine);
  return json::object();
}

}  // namespace

Result<std::string> render_op(const std::string& verb, const std::string& key_or_args,
                              core::Machine& machine, store::Store& store,
                              const ProcessFacts& facts, const std::string& tenant) {
  if (verb == "ids.derive") return derive_document(key_or_args, tenant, store);
  if (verb == "keys.server") return server_key_document(store);
  if (verb.starts_with("config.")) return config_document(verb, key_or_args, machine);
  if (verb.starts_with("objects.")) {
    HOLDFAST_TRY(auto reply, Objects::render(verb, key_or_args, store, tenant));
    return std::move(reply.document);
  }
  if (verb == "db.stats") {
    HOLDFAST_TRY(const store::Store::Stats stats, store.stats());
    return stats_document(stats);
  }
  try {
    HOLDFAST_TRY(const json j, document(Question{verb, key_or_args, machine, store, facts}));
    // Names and paths are as the operator sent them; JSON text must be UTF-8.
    return j.dump(-1, ' ', false, json::error_handler_t::replace);
  } catch (const json::exception& e) {
    return Error{Errc::kUsage, verb + ": arguments: " + e.what()};
  }
}

}  // namespace holdfast::daemon
