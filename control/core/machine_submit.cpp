// Submissions: idempotency, early refusals, the ingress helpers, acceptance.
#include <algorithm>

#include "control/core/machine.h"

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

std::string tenant_of(const wire::Submit& submit) {
  return submit.tenant.empty() ? "default" : submit.tenant;
}

}  // namespace

void Machine::answer_refused(const Waiters& waiters, wire::Refusal refusal) {
  ++counters_.refused;
  ++stats_.refused[static_cast<std::size_t>(refusal.code)];
  for (const auto& [peer, tag] : waiters) out_->send(peer, wire::Refused{tag, refusal});
}

/// Answers a submission whose id or key is known, accepted or on its way. False: it is new.
bool Machine::answer_duplicate(const SubmitEvent& event) {
  const wire::Submit& submit = event.submit;
  const std::string tenant = tenant_of(submit);
  const std::string hash = hash_of(event);
  Request* request = submit.request_id.empty() ? nullptr : requests_.by_id(submit.request_id);
  if (request == nullptr) request = requests_.by_key(tenant, submit.idem_key);
  const Waiters waiter = {{event.peer, submit.tag}};
  const auto mismatch = [&](const std::string& id) {
    answer_refused(
        waiter, refuse(Errc::kIdempotencyMismatch, "request " + id +
                                                       " is known with another body; use a new "
                                                       "id or Idempotency-Key for a new request"));
    return true;
  };
  if (request != nullptr) {
    const bool same_body = request->row.body_hash == hash;
    if (!same_body || request->row.tenant != tenant) return mismatch(request->row.id);
    ++counters_.duplicates;
    out_->send(
        event.peer,
        wire::Accepted{submit.tag, true, info(*request), keys_.standing(submit, now_.mono_us), {}});
    return true;
  }
  Job* job = nullptr;
  if (const auto it = pending_by_id_.find(submit.request_id); it != pending_by_id_.end()) {
    job = &jobs_.at(it->second);
  } else if (!submit.idem_key.empty()) {
    const auto key = pending_by_key_.find({tenant, submit.idem_key});
    if (key != pending_by_key_.end()) job = &jobs_.at(key->second);
  }
  if (job == nullptr) return false;
  if (hash_of(job->submit) != hash || tenant_of(job->submit.submit) != tenant) {
    return mismatch(job->submit.submit.request_id);
  }
  job->waiters.emplace_back(event.peer, submit.tag);
  return true;
}

std::optional<wire::Refusal> Machine::refuse_early(const SubmitEvent& event,
                                                   const Model* model) const {
  const wire::Submit& submit = event.submit;
  if (draining_) return refuse(Errc::kDraining, "the daemon is shutting down; send it again later");
  if (storage_low_)
    return refuse(Errc::kStorageFull, "the disk of the state directory is nearly full");
  if (auto invalid = check_submit(submit, config_)) return invalid;
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
std::optional<wire::Refusal> Machine::refuse_full(const SubmitEvent& event,
                                                  const Model& model) const {
  const UsageTracker& usage = requests_.usage();
  const std::string tenant = tenant_of(event.submit);
  const std::int64_t bytes = payload_bytes(event.submit);
  const auto preparing = static_cast<std::int64_t>(jobs_.size());
  UsageCounters all = usage.all();
  all.requests += unread_ + preparing;
  const Bounds whole{config_.queue_max_requests, config_.queue_max_waiting,
                     config_.queue_max_bytes};
  auto refusal = check_full("the queue", "queue", whole, all, bytes);
  if (!refusal) {
    refusal = check_full("tenant " + tenant, "tenant." + tenant, bounds_of(config_.tenant(tenant)),
                         usage.tenant(tenant), bytes);
  }
  if (!refusal) {
    refusal =
        check_full("model " + model.row.name, "model." + model.row.name,
                   bounds_of(config_.model(model.row.name)), usage.model(model.row.name), bytes);
  }
  if (!refusal && preparing >= config_.queue_max_preparing && !queue_has_capacity(tenant)) {
    refusal =
        refuse_over(Errc::kQueueFull, std::to_string(preparing) + " requests wait for tokenizing",
                    "queue.max_preparing", preparing + 1, config_.queue_max_preparing);
  }
  if (refusal) add_forecast(*refusal, model);
  return refusal;
}

/// Refuses what is over the limits of the API key. They say nothing about the model: an alias does
/// not count these refusals.
std::optional<wire::Refusal> Machine::refuse_key(const SubmitEvent& event, const Model& model) {
  auto refusal = keys_.refuse(event.submit, now_.mono_us);
  if (refusal && refusal->retry_after_ms < 0) add_forecast(*refusal, model);
  return refusal;
}

/// Adds to a refusal when it may be worth to come again.
void Machine::add_forecast(wire::Refusal& refusal, const Model& model) const {
  refusal.queue_position = queued_choices();
  std::int64_t slots = 0;
  for (const auto& [id, load] : loads_) slots += load.row.slots;
  const double each_ms = model.service_ms > 0 ? model.service_ms : 1000;
  // Room appears when the next running request ends.
  refusal.retry_after_ms = std::max<std::int64_t>(
      static_cast<std::int64_t>(each_ms / static_cast<double>(std::max<std::int64_t>(slots, 1))),
      100);
  refusal.eta_ms =
      static_cast<std::int64_t>(each_ms * static_cast<double>(refusal.queue_position + 1) /
                                static_cast<double>(std::max<std::int64_t>(slots, 1)));
}

void Machine::on(const SubmitEvent& event) {
  if (answer_duplicate(event)) return;
  if (event.submit.request_id.empty()) {
    SubmitEvent named = event;
    named.submit.request_id = event.new_id;
    admit(named, {{event.peer, event.submit.tag}});
  } else {
    admit(event, {{event.peer, event.submit.tag}});  // not copied: prompts can be long
  }
}

void Machine::admit(const SubmitEvent& event, const Waiters& waiters, bool charged) {
  const Route route = route_of(event.submit);
  const auto model = models_.find(route.model);
  const Model* found = model == models_.end() ? nullptr : &model->second;
  if (auto refusal = refuse_early(event, found)) {
    count_refused(route);
    answer_refused(waiters, std::move(*refusal));
    return;
  }
  if (auto refusal = charged ? std::nullopt : refuse_key(event, *found)) {
    return answer_refused(waiters, std::move(*refusal));
  }
  // The sampling extra is read by a helper, as texts are.
  if (ids_only(event.submit) && event.submit.sampling.extra.empty()) {
    Tokenized tokenized;
    tokenized.since_us = now_.mono_us;
    tokenized.charged = charged;
    for (const wire::Prompt& prompt : event.submit.prompts) tokenized.ids.push_back(*prompt.ids);
    return accept(event, route, waiters, std::move(tokenized));
  }
  Job job;
  job.route = route;
  job.model_sha = found->row.sha;
  job.waiters = waiters;
  job.submit = event;
  job.deadline_us = now_.mono_us + config_.ingress_timeout_ms * 1000;
  job.bytes = payload_bytes(event.submit) + static_cast<std::int64_t>(kJobBytes);
  if (std::ssize(jobs_) >= config_.queue_max_preparing) make_way_in_line(tenant_of(event.submit));
  keys_.preparing(event.submit.api_key, now_.mono_us, charged);
  start_job(std::move(job));
}

/// Returns true for a tenant that has few jobs in a full line: one that has more gives way.
bool Machine::queue_has_capacity(const std::string& tenant) const {
  return config_.queue_max_preparing > 1 &&
         unassigned_.newest_of_longest(unassigned_.size(tenant) + 1).has_value();
}

/// Refuses the newest job of the tenant that has most in line.
void Machine::make_way_in_line(const std::string& tenant) {
  const auto id = unassigned_.newest_of_longest(unassigned_.size(tenant) + 1);
  if (!id) return;
  const Job job = take_job(*id);
  wire::Refusal refusal = refuse_over(
      Errc::kQueueFull, "too many requests wait for tokenizing, most of them of this tenant",
      "queue.max_preparing", config_.queue_max_preparing + 1, config_.queue_max_preparing);
  if (const auto model = models_.find(job.route.model); model != models_.end()) {
    add_forecast(refusal, model->second);
  }
  count_refused(job.route);
  answer_refused(job.waiters, std::move(refusal));
}

/// Puts a job in line. An operator's job costs next to nothing, so it is next.
void Machine::stand_in_line(const Job& job) {
  unassigned_.push(job.inspect ? std::string() : tenant_of(job.submit.submit), job.id, job.bytes);
}

void Machine::start_job(Job job) {
  job.id = ++last_job_;
  job.since_us = now_.mono_us;
  if (!job.inspect) {
    const wire::Submit& submit = job.submit.submit;
    pending_by_id_[submit.request_id] = job.id;
    if (!submit.idem_key.empty()) pending_by_key_[{tenant_of(submit), submit.idem_key}] = job.id;
  }
  timers_.add(job.deadline_us, TimerKind::kJob, static_cast<std::int64_t>(job.id));
  stand_in_line(job);
  jobs_.emplace(job.id, std::move(job));
  assign_jobs();
}

/// Gives waiting jobs to the helper with the fewest: hashing a file takes long, so jobs are spread.
/// A helper has only so many at a time; the others wait here, where tenants take turns.
void Machine::assign_jobs() {
  while (const auto given = helpers_.assign(unassigned_)) {
    Job& job = jobs_.at(given->first);
    job.helper = given->second;
    ++job.tries;
    if (job.inspect) {
      out_->send(job.helper, wire::Inspect{job.id, job.add.path, config_.model_roots});
    } else {
      const wire::Submit& submit = job.submit.submit;
      out_->send(job.helper, wire::Prepare{job.id, job.model_sha, submit.prompts,
                                           submit.add_special, submit.echo, submit.sampling.extra});
    }
  }
}

/// Takes a job off a helper that died or took too long: another try, or the end of the job.
void Machine::job_lost(Job& job, const std::string& why) {
  const bool had_helper = job.helper != 0;
  leave_helper(job);
  if (had_helper && job.tries < config_.ingress_tries) {
    const std::int64_t limit =
        job.inspect ? config_.ingress_inspect_timeout_ms : config_.ingress_timeout_ms;
    job.deadline_us = now_.mono_us + limit * 1000;
    timers_.add(job.deadline_us, TimerKind::kJob, static_cast<std::int64_t>(job.id));
    stand_in_line(job);
    assign_jobs();
    return;
  }
  wire::Refusal refusal =
      refuse(Errc::kTimeout,
             had_helper ? std::string(job.inspect ? "reading the model file failed "
                                                  : "preparing the request failed ") +
                              std::to_string(job.tries) + " times: the ingress helper " + why
             : helpers_.empty() ? "no ingress helper is connected"
                                : "the ingress helpers were busy with others for too long");
  if (!had_helper) refusal.retry_after_ms = 1000;
  if (job.inspect) {
    op_refused(job.add.peer, job.add.tag, std::move(refusal));
  } else {
    answer_refused(job.waiters, std::move(refusal));
  }
  end_job(job.id);
}

/// Takes a job out of every table and returns it.
Machine::Job Machine::take_job(std::uint64_t id) {
  const auto it = jobs_.find(id);
  CHECK(it != jobs_.end());
  Job job = std::move(it->second);
  jobs_.erase(it);
  if (!job.inspect) {
    const wire::Submit& submit = job.submit.submit;
    pending_by_id_.erase(submit.request_id);
    if (!submit.idem_key.empty()) pending_by_key_.erase({tenant_of(submit), submit.idem_key});
    keys_.prepared(submit.api_key);
  }
  unassigned_.remove(id);
  leave_helper(job);
  assign_jobs();
  return job;
}

void Machine::leave_helper(Job& job) {
  helpers_.leave(job.helper, job.id);
  job.helper = 0;
}

void Machine::on(const IngressUp& event) {
  helpers_.add(event.peer);
  assign_jobs();
}

void Machine::helper_gone(PeerId peer) {
  for (const auto& [id, bytes] : helpers_.remove(peer)) {
    if (const auto it = jobs_.find(id); it != jobs_.end()) job_lost(it->second, "died");
  }
}

void Machine::on(const PreparedEvent& event) {
  const auto it = jobs_.find(event.prepared.job);
  // A late answer of a helper that was given up, or an answer that nobody asked for.
  if (it == jobs_.end() || it->second.inspect || it->second.helper != event.peer) return;
  const Job job = take_job(event.prepared.job);
  if (!event.prepared.ok) {
    count_refused(job.route);
    answer_refused(job.waiters, event.prepared.refusal);
    return;
  }
  if (event.prepared.ids.size() != job.submit.submit.prompts.size()) {
    answer_refused(job.waiters,
                   refuse(Errc::kInternal, "the ingress helper answered another request"));
    return;
  }
  accept(job.submit, job.route, job.waiters,
         {event.prepared.ids, event.prepared.text, event.prepared.embedding, job.since_us,
          /*charged=*/true, event.prepared.notes});
}

/// Refuses text or vectors that the model cannot make, and options that do not go with them.
std::optional<wire::Refusal> Machine::refuse_kind(const SubmitEvent& event, const Model& model,
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
std::optional<wire::Refusal> Machine::refuse_prompts(const SubmitEvent& event, const Model& model,
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
  const TokenBounds bounds = token_bounds(config_, tenant_of(event.submit), model.row.name);
  // A vector takes no room after its prompt; it is stored as one token.
  const auto output_tokens =
      tokenized.embedding ? std::optional<std::int64_t>(0) : event.submit.max_tokens;
  ContextVerdict verdict = admit_context(prompt_tokens, output_tokens, model.row.context,
                                         std::int64_t{model.row.pages} * kPageTokens, bounds);
  max_tokens = tokenized.embedding ? 1 : verdict.max_tokens;
  if (verdict.refusal) return std::move(verdict.refusal);
  return check_scores(event.submit, prompt_tokens, config_);
}

/// Makes the request as it will be stored, without its choices.
Request Machine::make_request(const SubmitEvent& event, const Route& route, const Model& model,
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
  request.row.config_version = config_version().version;
  request.row.n = submit.n;
  request.row.max_tokens = max_tokens;
  request.row.on_disconnect = submit.on_disconnect;
  request.row.created_ms = now_.wall_ms;
  request.row.api_key = submit.api_key;
  const auto deadline = [&](std::int64_t timeout_ms, std::int64_t& wall, std::int64_t& mono) {
    if (timeout_ms == 0) return;
    const std::int64_t limited = std::min<std::int64_t>(timeout_ms, 1LL << 42);
    wall = steady_ms() + limited;
    mono = now_.mono_us + limited * 1000;
  };
  deadline(submit.queue_timeout_ms, request.row.queue_deadline_ms, request.queue_deadline_us);
  deadline(submit.total_timeout_ms, request.row.total_deadline_ms, request.total_deadline_us);
  if (submit.on_disconnect == wire::OnDisconnect::kCancel) {
    request.orphan_deadline_us = now_.mono_us + config_.requests_disconnect_grace_ms * 1000;
  }
  request.sampling = submit.sampling;
  if (!submit.seed_given) request.sampling.seed = event.new_seed;
  request.stops = submit.stops;
  request.echo = submit.echo;
  request.meta = submit.meta;
  request.payload_bytes = payload_bytes(submit);
  return request;
}

void Machine::accept(const SubmitEvent& event, const Route& route, const Waiters& waiters,
                     Tokenized tokenized) {
  // Nothing was promised yet, and its prompt is here: it is prepared again for the model that it
  // gets.
  if (!route_holds(route)) return admit(event, waiters, tokenized.charged);
  const wire::Submit& submit = event.submit;
  const auto found = models_.find(route.model);
  const Model* model = found == models_.end() ? nullptr : &found->second;
  std::int64_t max_tokens = 0;
  auto refusal = refuse_early(event, model);
  if (!refusal) refusal = refuse_kind(event, *model, tokenized.embedding);
  if (!refusal) refusal = refuse_prompts(event, *model, tokenized, max_tokens);
  if (refusal) {
    count_refused(route);
    return answer_refused(waiters, std::move(*refusal));
  }
  if (auto over = tokenized.charged ? std::nullopt : refuse_key(event, *model)) {
    return answer_refused(waiters, std::move(*over));
  }
  Request request = make_request(event, route, *model, max_tokens);
  request.submitted_us = tokenized.since_us;
  request.accepted_us = now_.mono_us;
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
  out_->write(std::move(insert), Durability::kFull);
  Request& in = *requests_.insert(std::move(request));
  ++counters_.accepted;
  stats_.accepted.add(now_.mono_us, 1);
  keys_.accepted(in.row.api_key, now_.mono_us, tokenized.charged);
  for (const std::int64_t tokens : in.prompt_tokens) {
    stats_.model(in.row.model).prompt_tokens += static_cast<std::uint64_t>(tokens);
  }
  count_accepted(in);
  if (nothing_to_do) {
    finish_request_if_done(in);
  } else {
    for (Choice& choice : in.choices) enqueue(in, choice);
    arm_request(in);
  }
  bool duplicate = false;  // clients that sent the same while it was prepared
  const auto standing = keys_.standing(submit, now_.mono_us);
  for (const auto& [peer, tag] : waiters) {
    out_->send(peer, wire::Accepted{tag, std::exchange(duplicate, true), info(in), standing,
                                    tokenized.notes});
  }
}

}  // namespace holdfast::core
