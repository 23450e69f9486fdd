// Reads the arguments of operator verbs. operator_render.cpp has their answers.
#include "control/operator/operator_verbs.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "control/core/admission.h"
#include "shared/base/json_text.h"
#include "shared/profile/profile.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

constexpr std::size_t kNodeModelsMax = 100'000;
constexpr std::size_t kNodeFetchesMax = 1'000;
constexpr std::size_t kFetchTextMax = 4'096;  // of an error, a name
constexpr std::int64_t kFetchBytesMax = 1LL << 50;
constexpr std::size_t kHashDigits = 64;
constexpr std::size_t kDomainMax = 64;
constexpr std::int64_t kRoundTripMaxUs = 60'000'000;
constexpr std::int64_t kRateMax = 1LL << 50;  // bytes a second

wire::Refusal usage(const std::string& verb, const std::string& why) {
  return core::refuse(Errc::kUsage, verb + ": " + why);
}

/// Reads members by type: one of another type is the caller's mistake, not a default.
struct Args {
  const json& j;
  std::string wrong;  // first field of the wrong type
  std::string text(const char* key) {
    const auto it = j.find(key);
    if (it == j.end() || it->is_null()) return {};
    if (it->is_string()) return it->get<std::string>();
    if (it->is_object()) return it->dump();  // options may be given as an object
    wrong = wrong.empty() ? std::string(key) + ": expected a text" : wrong;
    return {};
  }
  std::int64_t integer(const char* key, std::int64_t fallback, std::int64_t low,
                       std::int64_t high) {
    const auto it = j.find(key);
    if (it == j.end() || it->is_null()) return fallback;
    if (it->is_number_integer()) {
      const auto value = it->get<std::int64_t>();
      if (value >= low && value <= high) return value;
    }
    if (wrong.empty()) {
      wrong = std::string(key) + ": expected a whole number from " + std::to_string(low) + " to " +
              std::to_string(high);
    }
    return fallback;
  }
  bool flag(const char* key) {
    const auto it = j.find(key);
    if (it == j.end() || it->is_null()) return false;
    if (it->is_boolean()) return it->get<bool>();
    wrong = wrong.empty() ? std::string(key) + ": expected true or false" : wrong;
    return false;
  }
};

OpAction add_model(core::PeerId peer, const wire::Op& op, Args& args) {
  core::OpAddModel e;
  e.peer = peer;
  e.tag = op.tag;
  e.name = args.text("name");
  e.path = args.text("path");
  e.context = args.integer("context", 0, 0, 1LL << 31);
  e.slots = static_cast<std::int32_t>(args.integer("slots", 0, 0, 65'536));
  e.kv_type = args.text("kv_type");
  e.options = args.text("options");
  e.load = args.flag("load");
  if (const auto profile = args.j.find("profile"); profile != args.j.end()) {
    auto checked = profile::checked_profile(*profile);
    if (!checked) return core::refuse(checked.error().code, op.verb + ": " + checked.error().what);
    e.profile = std::move(*checked);
  }
  return core::Event(std::move(e));
}

/// requests.move {"id", "priority": "interactive", "normal", "batch" or their numbers 0 to 2}.
OpAction move_request(core::PeerId peer, const wire::Op& op, Args& args) {
  core::OpMove e{peer, op.tag, args.text("id"), wire::PriorityClass::kNormal};
  const std::string priority = args.text("priority");
  constexpr const char* kNames[] = {"interactive", "normal", "batch"};
  for (int i = 0; i < 3; ++i) {
    if (priority != kNames[i] && priority != std::to_string(i)) continue;
    e.priority = static_cast<wire::PriorityClass>(i);
    return core::Event(std::move(e));
  }
  return usage(op.verb,
               "priority: expected interactive, normal or batch, not \"" + priority + "\"");
}

void add_settings(const json& settings, core::OpConfig& e) {
  if (!settings.is_object()) return;
  for (const auto& [name, value] : settings.items()) {
    e.changes.push_back({name, value.is_string() ? value.get<std::string>() : value.dump()});
  }
}

void add_unset_names(const json& names, core::OpConfig& e) {
  if (!names.is_array()) return;
  for (const json& name : names) {
    if (name.is_string()) e.changes.push_back({name.get<std::string>(), std::nullopt});
  }
}

/// config.set {"settings": {"name": value, …}}, config.unset {"names": […]}, config.rollback
/// {"version": N}; "who" names the caller.
OpAction change_config(core::PeerId peer, const wire::Op& op, Args& args) {
  core::OpConfig e{peer, op.tag, op.verb, args.text("who"), {}, {}, op.from_network};
  if (op.verb == "config.rollback") {
    e.rollback_to = args.integer("version", 0, 0, 1LL << 53);
    if (!args.j.contains("version")) return usage(op.verb, "version: expected a number");
    return core::Event(std::move(e));
  }
  if (op.verb == "config.set") add_settings(args.j.value("settings", json::object()), e);
  if (op.verb == "config.unset") add_unset_names(args.j.value("names", json::array()), e);
  return core::Event(std::move(e));
}

OpAction golden(core::PeerId peer, const wire::Op& op, Args& args) {
  core::OpGolden e{peer, op.tag, args.text("name"), args.text("class"), {}};
  const json ids = args.j.value("ids", json::array());
  for (const json& id : ids) {
    if (id.is_number_integer()) e.ids.push_back(id.get<core::TokenId>());
  }
  if (e.numerics_class.empty() || e.ids.empty() || e.ids.size() != ids.size()) {
    return usage(op.verb, "class: expected a text, ids: a list of token ids");
  }
  return core::Event(std::move(e));
}

/// models.alias {"name", "to": "MODEL=WEIGHT,…", "when_ready", "who"}; models.alias_remove.
OpAction change_alias(core::PeerId peer, const wire::Op& op, Args& args) {
  core::OpAlias e;
  e.peer = peer;
  e.tag = op.tag;
  e.name = args.text("name");
  e.who = args.text("who");
  e.when_ready = args.flag("when_ready");
  if (op.verb == "models.alias_remove") return core::Event(std::move(e));
  auto targets = core::parse_targets(args.text("to"));
  if (!targets) return usage(op.verb, targets.error().what);
  e.targets = std::move(targets).value();
  return core::Event(std::move(e));
}

/// models.canary {"name", "model", "percent", bounds by the names of canary_fields(), "who"};
/// models.canary_rollback and models.canary_promote {"name", "who"}.
OpAction change_canary(core::PeerId peer, const wire::Op& op, Args& args) {
  core::OpCanary e;
  e.peer = peer;
  e.tag = op.tag;
  e.name = args.text("name");
  e.who = args.text("who");
  e.model = args.text("model");
  for (const core::CanaryField& field : core::canary_fields()) {
    e.settings.*field.field = args.integer(field.name, -1, 0, 1LL << 40);
  }
  if (op.verb == "models.canary_rollback") e.end = core::OpCanary::End::kRollBack;
  if (op.verb == "models.canary_promote") e.end = core::OpCanary::End::kPromote;
  return core::Event(std::move(e));
}

OpAction drain_node(core::PeerId peer, const wire::Op& op, Args& args) {
  return core::Event(core::OpNode{peer, op.tag, args.text("name"), op.verb == "nodes.drain"});
}

core::WorkerExit read_exit(Args& args) {
  core::WorkerExit e;
  e.pid = args.integer("pid", 0, 0, 1LL << 31);
  e.status = static_cast<std::int32_t>(args.integer("status", 0, -1024, 1024));
  e.signal = static_cast<std::int32_t>(args.integer("signal", 0, 0, 128));
  e.oom = args.flag("oom");
  if (args.j.contains("step") && args.j["step"].is_array()) {
    e.step.emplace();
    for (const json& mark : args.j["step"]) {
      if (mark.is_string()) {
        e.step->push_back(std::strtoull(mark.get_ref<const std::string&>().c_str(), nullptr, 16));
      }
    }
  }
  return e;
}

OpAction worker_exit(core::PeerId /*peer*/, const wire::Op& /*op*/, Args& args) {
  return core::Event(read_exit(args));
}

/// Reads the content hashes of a node's report: 64 hex digits each.
std::optional<std::set<std::string>> read_hashes(Args& args) {
  const auto list = args.j.find("models");
  if (list == args.j.end()) return std::nullopt;
  std::set<std::string> hashes;
  for (const json& item : *list) {
    const bool good = list->is_array() && list->size() <= kNodeModelsMax && item.is_string() &&
                      item.get_ref<const std::string&>().size() == kHashDigits;
    if (!good) {
      args.wrong = "models: expected a list of at most " + std::to_string(kNodeModelsMax) +
                   " SHA-256 in hex";
      return std::nullopt;
    }
    hashes.insert(item.get<std::string>());
  }
  return hashes;
}

/// Reads how far one fetch of a node is.
core::FetchReport read_fetch(Args& args) {
  core::FetchReport report;
  const std::pair<const char*, std::string core::FetchReport::*> texts[] = {
      {"sha", &core::FetchReport::sha},
      {"name", &core::FetchReport::name},
      {"state", &core::FetchReport::state},
      {"source", &core::FetchReport::source},
      {"error_code", &core::FetchReport::error_code},
      {"error", &core::FetchReport::error}};
  for (const auto& [key, member] : texts) {
    report.*member = args.text(key);
    if ((report.*member).size() > kFetchTextMax) (report.*member).resize(kFetchTextMax);
  }
  report.done_bytes = args.integer("done_bytes", 0, 0, kFetchBytesMax);
  report.bytes = args.integer("bytes", 0, 0, kFetchBytesMax);
  return report;
}

/// Reads the fetches of a node's report; nullopt: its program has none.
std::optional<std::vector<core::FetchReport>> read_fetches(Args& args) {
  const auto list = args.j.find("fetches");
  if (list == args.j.end()) return std::nullopt;
  std::vector<core::FetchReport> reports;
  for (const json& item : *list) {
    if (!list->is_array() || list->size() > kNodeFetchesMax || !item.is_object()) {
      args.wrong =
          "fetches: expected a list of at most " + std::to_string(kNodeFetchesMax) + " objects";
      return std::nullopt;
    }
    Args one{item, {}};
    reports.push_back(read_fetch(one));
    if (!one.wrong.empty()) args.wrong = "fetches: " + one.wrong;
  }
  return reports;
}

/// Reads what a node measured of its machine and its link; nullopt: it says nothing of it.
std::optional<core::NodeFacts> read_facts(Args& args) {
  const auto facts = args.j.find("facts");
  if (facts == args.j.end() || facts->is_null()) return std::nullopt;
  if (!facts->is_object()) {
    args.wrong = "facts: expected an object";
    return std::nullopt;
  }
  Args one{*facts, {}};
  core::NodeFacts read;
  read.domain = one.text("domain");
  read.round_trip_us = one.integer("round_trip_us", 0, 0, kRoundTripMaxUs);
  read.link_bytes_s = one.integer("link_bytes_s", 0, 0, kRateMax);
  read.memory_bytes_s = one.integer("memory_bytes_s", 0, 0, kRateMax);
  if (read.domain.size() > kDomainMax) {
    one.wrong = "domain: expected at most " + std::to_string(kDomainMax) + " bytes";
  }
  if (!one.wrong.empty()) args.wrong = "facts: " + one.wrong;
  return read;
}

OpAction change_model(core::PeerId peer, const wire::Op& op, Args& args) {
  return core::Event(core::OpModel{peer, op.tag, op.verb, args.text("name")});
}

/// models.keep_alive {"name", "ms", "client"}: how long the model stays after its last request;
/// negative: without end.
OpAction set_keep_alive(core::PeerId peer, const wire::Op& op, Args& args) {
  constexpr std::int64_t kYearMs = 31'536'000'000;
  return core::Event(core::OpModel{peer, op.tag, op.verb, args.text("name"),
                                   args.integer("ms", -1, -1, kYearMs), args.flag("client")});
}

OpAction cancel_request(core::PeerId peer, const wire::Op& op, Args& args) {
  return core::Event(core::OpCancel{peer, op.tag, args.text("id")});
}

OpAction requeue_request(core::PeerId peer, const wire::Op& op, Args& args) {
  return core::Event(core::OpRequeue{peer, op.tag, args.text("id")});
}

OpAction drain_worker(core::PeerId peer, const wire::Op& op, Args& args) {
  return core::Event(core::OpWorker{peer, op.tag, args.text("key"), op.verb == "workers.drain"});
}

OpAction pause_queue(core::PeerId peer, const wire::Op& op, Args& /*args*/) {
  return core::Event(core::OpPause{peer, op.tag, op.verb == "queue.pause"});
}

OpAction shut_down(core::PeerId /*peer*/, const wire::Op& /*op*/, Args& args) {
  return core::Event(core::Shutdown{args.integer("limit_ms", 10'000, 0, 86'400'000)});
}

/// Leaves a question to be answered from what is committed.
OpAction defer(core::PeerId /*peer*/, const wire::Op& op, Args& /*args*/) {
  return Deferred{op.verb, op.args};
}

using VerbReader = OpAction (*)(core::PeerId, const wire::Op&, Args&);

constexpr std::pair<std::string_view, VerbReader> kVerbReaders[] = {
    {"models.add", add_model},
    {"models.remove", change_model},
    {"models.load", change_model},
    {"models.unload", change_model},
    {"models.pin", change_model},
    {"models.unpin", change_model},
    {"models.verify", change_model},
    {"models.keep_alive", set_keep_alive},
    {"models.golden", golden},
    {"models.alias", change_alias},
    {"models.alias_remove", change_alias},
    {"requests.cancel", cancel_request},
    {"requests.move", move_request},
    {"requests.requeue", requeue_request},
    {"workers.drain", drain_worker},
    {"workers.resume", drain_worker},
    {"nodes.drain", drain_node},
    {"nodes.resume", drain_node},
    {"config.set", change_config},
    {"config.unset", change_config},
    {"config.rollback", change_config},
    {"queue.pause", pause_queue},
    {"queue.resume", pause_queue},
    {"supervisor.worker_exit", worker_exit},
    {"shutdown", shut_down},
    {"status", defer},
    {"metrics", defer},
    {"models.list", defer},
    {"models.show", defer},
    {"models.aliases", defer},
    {"models.alias_history", defer},
    {"workers.list", defer},
    {"nodes.list", defer},
    {"nodes.show", defer},
    {"requests.list", defer},
    {"requests.show", defer},
    {"queue.stats", defer},
    {"config.list", defer},
    {"config.get", defer},
    {"config.explain", defer},
    {"config.history", defer},
    {"config.diff", defer},
    {"db.stats", defer},
    {"objects.get", defer},
    {"objects.list", defer},
    {"ids.derive", defer},
    {"keys.server", defer},
    {"pulls.list", defer},
    {"pulls.show", defer},
};

/// Returns nullptr for a verb that does not exist.
VerbReader reader_of(std::string_view verb) {
  if (verb.starts_with("models.canary")) return change_canary;
  const auto* found = std::ranges::find(kVerbReaders, verb, [](const auto& r) { return r.first; });
  return found == std::end(kVerbReaders) ? nullptr : found->second;
}

}  // namespace

std::optional<wire::Refusal> refuse_tenant(const wire::Op& op) {
  if (op.tenant.empty()) return std::nullopt;
  for (const char* verb : {"objects.put", "objects.delete", "objects.get", "objects.list",
                           "ids.derive", "models.tokenize", "models.detokenize"}) {
    if (op.verb == verb) return std::nullopt;
  }
  return core::refuse(Errc::kUnauthorized, op.verb + ": is for operators");
}

OpAction read_node_op(core::PeerId peer, const wire::Op& op, const std::string& node) {
  const json j = op.args.empty() ? json::object() : try_parse_json<json>(op.args);
  if (!j.is_object()) return usage(op.verb, "arguments are not a JSON object");
  Args args{j, {}};
  core::Event event;
  if (op.verb == "node.exit") {
    core::WorkerExit exit = read_exit(args);
    exit.worker_key = node + "/" + args.text("name");
    event = std::move(exit);
  } else {
    core::NodeReport report;
    report.peer = peer;
    report.tag = op.tag;
    report.name = node;
    report.left = op.verb == "node.bye";
    report.incarnation = args.text("incarnation");
    report.host = args.text("host");
    report.version = args.text("version");
    report.leaving = args.flag("leaving");
    report.models = read_hashes(args);
    report.fetches = read_fetches(args);
    report.facts = read_facts(args);
    event = std::move(report);
  }
  if (!args.wrong.empty()) return usage(op.verb, args.wrong);
  return event;
}

OpAction read_op(core::PeerId peer, const wire::Op& op) {
  const json j = op.args.empty() ? json::object() : try_parse_json<json>(op.args);
  if (!j.is_object()) return usage(op.verb, "arguments are not a JSON object");
  Args args{j, {}};
  OpAction action = usage(op.verb, "no such verb");
  if (const auto read = reader_of(op.verb)) action = read(peer, op, args);
  if (!args.wrong.empty()) return usage(op.verb, args.wrong);
  return action;
}

}  // namespace holdfast::daemon
