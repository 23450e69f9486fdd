// Registration of models, and operator verbs for them.
#include "control/core/model_verbs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "control/core/admission.h"
#include "control/core/aliases.h"
#include "control/core/golden.h"
#include "control/core/ingress_jobs.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/registry.h"
#include "shared/base/roots.h"

namespace holdfast::core {
namespace {

wire::Refusal is_alias(const std::string& name) {
  return refuse(Errc::kConflict,
                "models.add: \"" + name + "\" is an alias; take another name or remove the alias");
}

}  // namespace

void ModelVerbs::on(const OpAddModel& event) {
  if (event.name.empty() || event.name.size() > 128 || event.path.empty()) {
    core_.op_refused(
        event.peer, event.tag,
        refuse(Errc::kUsage, "models.add: expected a name of at most 128 bytes and a path"));
    return;
  }
  if (aliases_.all().count(event.name) > 0)
    return core_.op_refused(event.peer, event.tag, is_alias(event.name));
  if (const auto allowed = allowed_by_roots(event.path, core_.config.model_roots); !allowed) {
    return core_.op_refused(event.peer, event.tag,
                            refuse(allowed.error().code, "models.add: " + allowed.error().what));
  }
  IngressJob job;
  job.inspect = true;
  job.add = event;
  job.deadline_us = core_.now.mono_us + core_.config.ingress_inspect_timeout_ms * 1000;
  jobs_.start_job(std::move(job));
}

void ModelVerbs::on(const InspectedEvent& event) {
  const auto answered = jobs_.take_answered(event.inspected.job, event.peer, true);
  if (!answered) return;
  const IngressJob& job = *answered;
  if (!event.inspected.ok) {
    core_.op_refused(job.add.peer, job.add.tag, event.inspected.refusal);
    return;
  }
  if (job.verify) {
    core_.op_done(job.add.peer, job.add.tag, "models.verify", verified_key(event));
  } else {
    add_inspected(job, event);
  }
}

void ModelVerbs::add_inspected(const IngressJob& job, const InspectedEvent& event) {
  const OpAddModel& add = job.add;
  // An alias may have been made while the file was read.
  if (aliases_.all().count(add.name) > 0)
    return core_.op_refused(add.peer, add.tag, is_alias(add.name));
  ModelRow row = event.row;
  row.name = add.name;
  row.path = add.path;
  row.sha = event.inspected.model_sha;
  row.size = event.inspected.size;
  row.mtime_ns = event.inspected.mtime_ns;
  row.options = add.options;
  row.profile = add.profile.value_or(std::string());
  row.created_ms = core_.now.wall_ms;
  const auto existing = registry_.models().find(add.name);
  if (existing != registry_.models().end()) {
    const ModelRow& old = existing->second.row;
    const bool used = !loads_.all().of_model(add.name).empty();
    const bool waits =
        lifecycle_.unread() > 0 ||  // it is not known yet which models those want
        std::any_of(lifecycle_.requests().all().begin(), lifecycle_.requests().all().end(),
                    [&](const auto& item) {
                      return !item.second.terminal() && item.second.row.model == add.name;
                    });
    const bool same_file = old.sha == row.sha;
    if (!same_file && (used || waits)) {
      core_.op_refused(
          add.peer, add.tag,
          refuse(Errc::kConflict, "model \"" + add.name + "\" is in use with another file (" +
                                      old.path + "); unload it first or take another name"));
      return;
    }
    row.created_ms = old.created_ms;
    row.load_requested = old.load_requested;
    row.last_used_ms = old.last_used_ms;
    if (same_file) {
      // The plan of an existing load stays; new numbers take effect with the next one.
      row.state = old.state;
      row.reason = old.reason;
      if (!add.profile) retain_profile(old, row);
    }
  }
  row.load_requested = row.load_requested || add.load;
  Model& model = registry_.models()[add.name];
  const bool fresh = model.row.name.empty();
  model.row = row;
  registry_.set_identity(model, event.inspected.identity);
  core_.out->write(PutModelBlobs{row.sha, event.inspected.tokenizer, event.inspected.detokenizer},
                   Durability::kFull);
  registry_.put_model(model);
  if (fresh) {
    core_.out->write(
        InsertTransition{"model", add.name, "", "registered", core_.now.wall_ms, 0, 0, add.path},
        Durability::kFull);
  }
  if (add.load) registry_.want(model);
  core_.op_done(add.peer, add.tag, "models.add", add.name);
}

void ModelVerbs::on(const OpModel& event) {
  const auto it = registry_.models().find(event.name);
  if (it == registry_.models().end()) {
    core_.op_refused(
        event.peer, event.tag,
        refuse(Errc::kModelNotFound, "model \"" + event.name + "\" is not registered"));
    return;
  }
  Model& model = it->second;
  if (event.verb == "models.verify") return verify(event, model);
  if (event.verb == "models.load") {
    registry_.load_again(model, "asked by operator");
  } else if (event.verb == "models.unload") {
    registry_.unload(model, "asked to unload");
  } else if (event.verb == "models.keep_alive") {
    if (!set_keep_alive(event, model)) return;
  } else if (event.verb == "models.pin" || event.verb == "models.unpin") {
    model.pinned = event.verb == "models.pin";
    core_.out->write(PutFlag{"pin/" + event.name, model.pinned ? "1" : "0"}, Durability::kFull);
    core_.want_placement = true;
  } else if (!remove(event, model)) {
    return;
  }
  core_.op_done(event.peer, event.tag, event.verb, event.name);
}

/// Keeps what the name adds to its file. `row` has what the file has by itself.
void ModelVerbs::retain_profile(const ModelRow& old, ModelRow& row) {
  if (old.profile.empty()) return;
  row.profile = old.profile;
  row.chat = old.chat;
  row.output = old.output;
}

/// Removes the name of a model that nobody uses. Returns false if it was refused.
bool ModelVerbs::remove(const OpModel& event, Model& model) {
  const bool loaded = !loads_.all().of_model(event.name).empty();
  const bool waits =
      lifecycle_.unread() > 0 ||  // it is not known yet which models those want
      std::any_of(lifecycle_.requests().all().begin(), lifecycle_.requests().all().end(),
                  [&](const auto& item) {
                    return !item.second.terminal() && item.second.row.model == event.name;
                  });
  if (loaded || waits) {
    core_.op_refused(event.peer, event.tag,
                     refuse(Errc::kConflict, "model \"" + event.name + "\" is " +
                                                 (loaded ? "loaded; unload it first"
                                                         : "wanted by "
                                                           "requests that have not ended")));
    return false;
  }
  if (const std::string alias = aliases_.alias_with(event.name); !alias.empty()) {
    core_.op_refused(event.peer, event.tag,
                     refuse(Errc::kConflict, "model \"" + event.name + "\" is part of alias \"" +
                                                 alias + "\"; change the alias first"));
    return false;
  }
  core_.out->write(DeleteModel{event.name}, Durability::kFull);
  if (model.pinned) core_.out->write(PutFlag{"pin/" + event.name, "0"}, Durability::kFull);
  registry_.set_identity(model, {});
  registry_.count_failures(model, 0);
  registry_.set_keep_alive(model, std::nullopt);
  core_.out->write(
      InsertTransition{"model", event.name, std::string(model_state_name(model.row.state)),
                       "removed", core_.now.wall_ms, 0, 0, "asked by operator"},
      Durability::kFull);
  registry_.models().erase(event.name);
  return true;
}

/// Returns false if it was refused.
bool ModelVerbs::set_keep_alive(const OpModel& event, Model& model) {
  if (event.for_client && core_.config.models_client_keep_alive == 0) {
    core_.op_refused(event.peer, event.tag,
                     refuse(Errc::kUnauthorized,
                            "keep_alive: how long models stay is up to the operator here "
                            "(models.client_keep_alive=0)"));
    return false;
  }
  registry_.set_keep_alive(model, event.keep_alive_ms);
  return true;
}

/// Has a helper read and hash the file once more; its result changes nothing.
void ModelVerbs::verify(const OpModel& event, const Model& model) {
  IngressJob job;
  job.inspect = true;
  job.verify = true;
  job.add.peer = event.peer;
  job.add.tag = event.tag;
  job.add.name = model.row.name;
  job.add.path = model.row.path;
  job.add.context = model.row.context;
  job.add.slots = model.row.slots;
  job.add.kv_type = model.row.kv_type;
  job.deadline_us = core_.now.mono_us + core_.config.ingress_inspect_timeout_ms * 1000;
  jobs_.start_job(std::move(job));
}

void ModelVerbs::on(const OpGolden& event) {
  const auto model = registry_.models().find(event.model);
  if (model == registry_.models().end()) {
    core_.op_refused(
        event.peer, event.tag,
        refuse(Errc::kModelNotFound, "model \"" + event.model + "\" is not registered"));
    return;
  }
  const std::string key = golden_key(model->second.row.sha, event.numerics_class);
  const std::string ids = golden_text(event.ids);
  const auto [stored, first] = goldens_.emplace(key, ids);
  if (first) {
    core_.out->write(PutFlag{"golden/" + key, ids}, Durability::kFull);
    core_.out->note("golden answer of a model stored", {{"model", event.model}, {"key", key}});
  } else if (stored->second != ids) {
    core_.out->note("a model answers otherwise than at its first verification",
                    {{"model", event.model}, {"class", event.numerics_class}, {"ids", ids}}, true);
    core_.op_refused(
        event.peer, event.tag,
        refuse(Errc::kDeterminismViolation,
               "model \"" + event.model + "\" answers otherwise than at its first " +
                   "verification in class " + event.numerics_class + ": " +
                   first_difference(stored->second, ids) +
                   "; its memory or processor is bad, or the kernels changed without a new "
                   "revision: report it"));
    return;
  }
  core_.op_done(event.peer, event.tag, "models.golden",
                event.model + (first ? "\nstored" : "\nsame"));
}

void ModelVerbs::boot(const Boot& event) {
  goldens_ = event.goldens;
}

}  // namespace holdfast::core
