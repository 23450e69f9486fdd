// Submissions: idempotency, early refusals, acceptance.
#include "control/core/intake.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/core/admission.h"
#include "control/core/aliases.h"
#include "control/core/canaries.h"
#include "control/core/ingress_jobs.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/registry.h"

namespace holdfast::core {
namespace {

constexpr std::size_t kJobBytes = 256;  // what a job costs besides its prompts

bool ids_only(const wire::Submit& submit) {
  return !submit.echo && std::all_of(submit.prompts.begin(), submit.prompts.end(),
                                     [](const wire::Prompt& p) { return p.ids.has_value(); });
}

std::string hash_of(const SubmitEvent& event) {
  return event.submit.body_hash.empty() ? event.body_hash : event.submit.body_hash;
}

/// The refusal of work for a failed model. If it failed for want of a device, with the numbers of
/// the device that could do most.
wire::Refusal refuse_failed(const Model& model) {
  const bool unfit = model.row.reason.starts_with(errc_name(Errc::kPlacementUnsupported));
  wire::Refusal refusal =
      refuse(unfit ? Errc::kPlacementUnsupported : Errc::kModelFailed,
             "model \"" + model.row.name + "\" failed: " + model.row.reason + "; see models load");
  for (const DeviceVerdict& v : model.devices) {
    if (!unfit || v.may_give <= refusal.free) continue;
    refusal.needed = v.needed;
    refusal.free = v.may_give;
    refusal.largest = v.largest_context;
  }
  return refusal;
}

}  // namespace

/// Answers a submission whose id or key is known, accepted or on its way. False: it is new.
bool Intake::answer_duplicate(const SubmitEvent& event) {
  const wire::Submit& submit = event.submit;
  const std::string tenant = tenant_of(submit);
  const std::string hash = hash_of(event);
  Request* request =
      submit.request_id.empty() ? nullptr : lifecycle_.requests().by_id(submit.request_id);
  if (request == nullptr) request = lifecycle_.requests().by_key(tenant, submit.idem_key);
  const Waiters waiter = {{event.peer, submit.tag}};
  const auto mismatch = [&](const std::string& id) {
    jobs_.answer_refused(
        waiter, refuse(Errc::kIdempotencyMismatch, "request " + id +
                                                       " is known with another body; use a new "
                                                       "id or Idempotency-Key for a new request"));
    return true;
  };
  if (request != nullptr) {
    const bool same_body = request->row.body_hash == hash;
    if (!same_body || request->row.tenant != tenant) return mismatch(request->row.id);
    ++core_.counters.duplicates;
    core_.out->send(event.peer,
                    wire::Accepted{submit.tag,
                                   true,
                                   lifecycle_.info(*request),
                                   lifecycle_.keys().standing(submit, core_.now.mono_us),
                                   {}});
    return true;
  }
  IngressJob* job = jobs_.pending(submit.request_id, tenant, submit.idem_key);
  if (job == nullptr) return false;
  if (hash_of(job->submit) != hash || tenant_of(job->submit.submit) != tenant) {
    return mismatch(job->submit.submit.request_id);
  }
  job->waiters.emplace_back(event.peer, submit.tag);
  return true;
}

std::optional<wire::Refusal> Intake::refuse_early(const SubmitEvent& event,
                                                  const Model* model) const {
  const wire::Submit& submit = event.submit;
  if (core_.draining)
    return refuse(Errc::kDraining, "the daemon is shutting down; send it again later");
  if (core_.storage_low)
    return refuse(Errc::kStorageFull, "the disk of the state directory is nearly full");
  if (core_.standby_missing)
    return refuse(Errc::kNoStandby, "no other machine has a copy of the database now");
  if (auto invalid = check_submit(submit, core_.config)) return invalid;
  if (model == nullptr) {
    return refuse(Errc::kModelNotFound, "model \"" + submit.model + "\" is not registered");
  }
  if (model->row.state == ModelState::kFailed) {
    return refuse_failed(*model);
  }
  return refuse_full(event, *model);
}

/// Refuses what is over the bounds on how much there may be at once: of all, of the tenant, of the
/// model.
std::optional<wire::Refusal> Intake::refuse_full(const SubmitEvent& event,
                                                 const Model& model) const {
  const UsageTracker& usage = lifecycle_.requests().usage();
  const std::string tenant = tenant_of(event.submit);
  const std::int64_t bytes = payload_bytes(event.submit);
  const auto preparing = jobs_.size();
  UsageCounters all = usage.all();
  all.requests += lifecycle_.unread() + preparing;
  const Bounds whole{core_.config.queue_max_requests, core_.config.queue_max_waiting,
                     core_.config.queue_max_bytes};
  auto refusal = check_full("the queue", "queue", whole, all, bytes);
  if (!refusal) {
    refusal = check_full("tenant " + tenant, "tenant." + tenant,
                         bounds_of(core_.config.tenant(tenant)), usage.tenant(tenant), bytes);
  }
  if (!refusal) {
    refusal = check_full("model " + model.row.name, "model." + model.row.name,
                         bounds_of(core_.config.model(model.row.name)), usage.model(model.row.name),
                         bytes);
  }
  if (!refusal && preparing >= core_.config.queue_max_preparing &&
      !jobs_.queue_has_capacity(tenant)) {
    refusal =
        refuse_over(Errc::kQueueFull, std::to_string(preparing) + " requests wait for tokenizing",
                    "queue.max_preparing", preparing + 1, core_.config.queue_max_preparing);
  }
  if (refusal) add_forecast(*refusal, model);
  return refusal;
}

/// Refuses what is over the limits of the API key. They say nothing about the model: an alias does
/// not count these refusals.
std::optional<wire::Refusal> Intake::refuse_key(const SubmitEvent& event, const Model& model) {
  auto refusal = lifecycle_.keys().refuse(event.submit, core_.now.mono_us);
  if (refusal && refusal->retry_after_ms < 0) add_forecast(*refusal, model);
  return refusal;
}

/// Adds to a refusal when it may be worth to come again.
void Intake::add_forecast(wire::Refusal& refusal, const Model& model) const {
  refusal.queue_position = lifecycle_.queued_choices();
  const std::int64_t slots = loads_.all().slots();
  const double each_ms = model.service_ms > 0 ? model.service_ms : 1000;
  // Room appears when the next running request ends.
  refusal.retry_after_ms = std::max<std::int64_t>(
      static_cast<std::int64_t>(each_ms / static_cast<double>(std::max<std::int64_t>(slots, 1))),
      100);
  refusal.eta_ms =
      static_cast<std::int64_t>(each_ms * static_cast<double>(refusal.queue_position + 1) /
                                static_cast<double>(std::max<std::int64_t>(slots, 1)));
}

void Intake::on(const SubmitEvent& event) {
  if (answer_duplicate(event)) return;
  if (event.submit.request_id.empty()) {
    SubmitEvent named = event;
    named.submit.request_id = event.new_id;
    admit(named, {{event.peer, event.submit.tag}});
  } else {
    admit(event, {{event.peer, event.submit.tag}});  // not copied: prompts can be long
  }
}

void Intake::admit(const SubmitEvent& event, const Waiters& waiters, bool charged) {
  const Route route = aliases_.route_of(event.submit);
  const auto model = registry_.models().find(route.model);
  const Model* found = model == registry_.models().end() ? nullptr : &model->second;
  if (auto refusal = refuse_early(event, found)) {
    canaries_.count_refused(route);
    jobs_.answer_refused(waiters, *refusal);
    return;
  }
  if (auto refusal = charged ? std::nullopt : refuse_key(event, *found)) {
    return jobs_.answer_refused(waiters, *refusal);
  }
  // The sampling extra and the profile are read by a helper, as texts are.
  if (ids_only(event.submit) && event.submit.sampling.extra.empty() && found->row.profile.empty()) {
    Tokenized tokenized;
    tokenized.since_us = core_.now.mono_us;
    tokenized.charged = charged;
    for (const wire::Prompt& prompt : event.submit.prompts) tokenized.ids.push_back(*prompt.ids);
    return accept(event, route, waiters, std::move(tokenized));
  }
  IngressJob job;
  job.route = route;
  job.model_sha = found->row.sha;
  job.waiters = waiters;
  job.submit = event;
  job.deadline_us = core_.now.mono_us + core_.config.ingress_timeout_ms * 1000;
  job.bytes = payload_bytes(event.submit) + static_cast<std::int64_t>(kJobBytes);
  if (jobs_.size() >= core_.config.queue_max_preparing) make_way_in_line(tenant_of(event.submit));
  lifecycle_.keys().preparing(event.submit.api_key, core_.now.mono_us, charged);
  jobs_.start_job(std::move(job));
}

/// Refuses the newest job of the tenant that has most in line.
void Intake::make_way_in_line(const std::string& tenant) {
  const auto newest = jobs_.take_newest_of_longest(tenant);
  if (!newest) return;
  const IngressJob& job = *newest;
  wire::Refusal refusal = refuse_over(
      Errc::kQueueFull, "too many requests wait for tokenizing, most of them of this tenant",
      "queue.max_preparing", core_.config.queue_max_preparing + 1,
      core_.config.queue_max_preparing);
  if (const auto model = registry_.models().find(job.route.model);
      model != registry_.models().end()) {
    add_forecast(refusal, model->second);
  }
  canaries_.count_refused(job.route);
  jobs_.answer_refused(job.waiters, refusal);
}

void Intake::on(const PreparedEvent& event) {
  auto answered = jobs_.take_answered(event.prepared.job, event.peer, false);
  if (!answered) return;
  IngressJob& job = *answered;
  if (!event.prepared.ok) {
    canaries_.count_refused(job.route);
    jobs_.answer_refused(job.waiters, event.prepared.refusal);
    return;
  }
  if (event.prepared.ids.size() != job.submit.submit.prompts.size()) {
    jobs_.answer_refused(job.waiters,
                         refuse(Errc::kInternal, "the ingress helper answered another request"));
    return;
  }
  // Nothing was promised yet: for another model it is prepared again, with that one's profile.
  if (!aliases_.route_holds(job.route)) return admit(job.submit, job.waiters, true);
  Tokenized tokenized{event.prepared.ids, event.prepared.text, event.prepared.embedding,
                      job.since_us,       /*charged=*/true,    event.prepared.notes};
  if (const auto& options = event.prepared.options) {
    job.submit.submit.sampling = options->sampling;
    job.submit.submit.stops = options->stops;
    job.submit.submit.max_tokens = options->max_tokens;
    job.submit.submit.seed_given = options->seed_given;
    tokenized.most_tokens = options->most_tokens;
  }
  accept(job.submit, job.route, job.waiters, std::move(tokenized));
}

/// Refuses text or vectors that the model cannot make, and options that do not go with them.
std::optional<wire::Refusal> Intake::refuse_kind(const SubmitEvent& event, const Model& model,
                                                 bool embedding) {
  const wire::Submit& submit = event.submit;
  if (!embedding) {
    if (!is_encoder(model.row)) return std::nullopt;
    return refuse(Errc::kUnsupported, "model \"" + model.row.name +
                                          "\" is an encoder: it makes vectors, no text; ask for "
                                          "embeddings");
  }
  if (submit.n == 1 && submit.stops.empty() && !submit.echo && submit.sampling.logprobs < 0 &&
      submit.sampling.prompt_logprobs < 0) {
    return std::nullopt;
  }
  return refuse(
      Errc::kInvalidRequest,
      "an embedding is one vector of each prompt: n, stop, echo and logprobs are for text");
}

/// Checks the prompts against the model: known ids, and room for them. Sets max_tokens as resolved.
std::optional<wire::Refusal> Intake::refuse_prompts(const SubmitEvent& event, const Model& model,
                                                    const Tokenized& tokenized,
                                                    std::int64_t& max_tokens) const {
  std::vector<std::int64_t> prompt_tokens;
  for (const auto& prompt : tokenized.ids) {
    if (prompt.empty()) return refuse(Errc::kInvalidRequest, "the prompt has no tokens");
    const bool in_vocabulary = std::all_of(prompt.begin(), prompt.end(), [&](TokenId id) {
      return id >= 0 && (model.row.vocab == 0 || id < model.row.vocab);
    });
    if (!in_vocabulary) {
      return refuse(Errc::kInvalidRequest,
                    "prompt ids: expected 0 to " + std::to_string(model.row.vocab - 1));
    }
    prompt_tokens.push_back(static_cast<std::int64_t>(prompt.size()));
  }
  const TokenBounds bounds = token_bounds(core_.config, tenant_of(event.submit), model.row.name);
  // A vector takes no room after its prompt; it is stored as one token.
  const auto output_tokens =
      tokenized.embedding ? std::optional<std::int64_t>(0) : event.submit.max_tokens;
  ContextVerdict verdict = admit_context(prompt_tokens, output_tokens, model.row.context,
                                         std::int64_t{model.row.pages} * kPageTokens, bounds);
  max_tokens = tokenized.embedding ? 1 : verdict.max_tokens;
  if (tokenized.most_tokens && !tokenized.embedding)
    max_tokens = std::min(max_tokens, *tokenized.most_tokens);
  if (verdict.refusal) return std::move(verdict.refusal);
  return check_scores(event.submit, prompt_tokens, core_.config);
}

/// Makes the request as it will be stored, without its choices.
Request Intake::make_request(const SubmitEvent& event, const Route& route, const Model& model,
                             std::int64_t max_tokens) {
  const wire::Submit& submit = event.submit;
  Request request;
  request.row.seq = ++last_seq_;
  request.row.id = submit.request_id;
  request.row.tenant = tenant_of(submit);
  request.row.idem_key = submit.idem_key;
  request.row.body_hash = hash_of(event);
  request.row.model = model.row.name;
  request.row.model_sha = model.row.sha;
  request.row.alias = route.alias;
  request.row.route_key = route.key;
  request.row.canary = route.canary;
  request.row.priority = submit.priority;
  request.row.config_version = core_.config_version;
  request.row.n = submit.n;
  request.row.max_tokens = max_tokens;
  request.row.on_disconnect = submit.on_disconnect;
  request.row.created_ms = core_.now.wall_ms;
  request.row.api_key = submit.api_key;
  const auto deadline = [&](std::int64_t timeout_ms, std::int64_t& wall, std::int64_t& mono) {
    if (timeout_ms == 0) return;
    const std::int64_t limited = std::min<std::int64_t>(timeout_ms, 1LL << 42);
    wall = core_.steady_ms() + limited;
    mono = core_.now.mono_us + limited * 1000;
  };
  deadline(submit.queue_timeout_ms, request.row.queue_deadline_ms, request.queue_deadline_us);
  deadline(submit.total_timeout_ms, request.row.total_deadline_ms, request.total_deadline_us);
  if (submit.on_disconnect == wire::OnDisconnect::kCancel) {
    request.orphan_deadline_us =
        core_.now.mono_us + core_.config.requests_disconnect_grace_ms * 1000;
  }
  request.sampling = submit.sampling;
  if (!submit.seed_given) request.sampling.seed = event.new_seed;
  request.stops = submit.stops;
  request.echo = submit.echo;
  request.meta = submit.meta;
  request.payload_bytes = payload_bytes(submit);
  return request;
}

/// Takes over how long the client wants the model to stay.
void Intake::take_keep_alive(const wire::Submit& submit, Model& model) {
  if (!submit.keep_alive_ms || core_.config.models_client_keep_alive == 0) return;
  registry_.set_keep_alive(model, submit.keep_alive_ms);
}

void Intake::accept(const SubmitEvent& event, const Route& route, const Waiters& waiters,
                    Tokenized tokenized) {
  // Nothing was promised yet, and its prompt is here: it is prepared again for the model that it
  // gets.
  if (!aliases_.route_holds(route)) return admit(event, waiters, tokenized.charged);
  const wire::Submit& submit = event.submit;
  const auto found = registry_.models().find(route.model);
  const Model* model = found == registry_.models().end() ? nullptr : &found->second;
  std::int64_t max_tokens = 0;
  auto refusal = refuse_early(event, model);
  if (!refusal) refusal = refuse_kind(event, *model, tokenized.embedding);
  if (!refusal) refusal = refuse_prompts(event, *model, tokenized, max_tokens);
  if (refusal) {
    canaries_.count_refused(route);
    return jobs_.answer_refused(waiters, *refusal);
  }
  if (auto over = tokenized.charged ? std::nullopt : refuse_key(event, *model)) {
    return jobs_.answer_refused(waiters, *over);
  }
  take_keep_alive(submit, found->second);
  Request request = make_request(event, route, *model, max_tokens);
  request.submitted_us = tokenized.since_us;
  request.accepted_us = core_.now.mono_us;
  for (const auto& prompt : tokenized.ids) {
    request.prompt_tokens.push_back(static_cast<std::int64_t>(prompt.size()));
  }
  const bool nothing_to_do = indexes_at_most(request) == 0;
  InsertRequest insert;
  for (std::int32_t c = 0; c < submit.n * static_cast<std::int32_t>(tokenized.ids.size()); ++c) {
    Choice choice;
    choice.row.choice = c;
    choice.row.prompt = c / submit.n;
    if (nothing_to_do) {
      choice.row.finish = FinishReason::kLength;
      choice.phase = ChoicePhase::kEnded;
    }
    insert.choices.push_back(choice.row);
    request.choices.push_back(std::move(choice));
  }
  insert.row = request.row;
  insert.payload = {
      request.sampling,         request.stops, request.echo, request.meta, std::move(tokenized.ids),
      std::move(tokenized.text)};
  core_.out->write(std::move(insert), Durability::kFull);
  Request& in = lifecycle_.insert(std::move(request));
  ++core_.counters.accepted;
  core_.stats.accepted.add(core_.now.mono_us, 1);
  lifecycle_.keys().accepted(in.row.api_key, core_.now.mono_us, tokenized.charged);
  for (const std::int64_t tokens : in.prompt_tokens) {
    core_.stats.model(in.row.model).prompt_tokens += static_cast<std::uint64_t>(tokens);
  }
  canaries_.count_accepted(in);
  if (nothing_to_do) {
    lifecycle_.finish_request_if_done(in);
  } else {
    for (Choice& choice : in.choices) lifecycle_.enqueue(in, choice);
    lifecycle_.arm_request(in);
  }
  bool duplicate = false;  // clients that sent the same while it was prepared
  const auto standing = lifecycle_.keys().standing(submit, core_.now.mono_us);
  for (const auto& [peer, tag] : waiters) {
    core_.out->send(peer, wire::Accepted{tag, std::exchange(duplicate, true), lifecycle_.info(in),
                                         standing, tokenized.notes});
  }
}

}  // namespace holdfast::core
