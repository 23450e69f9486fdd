// Jobs of the ingress helpers: texts to be tokenized and model files to be read.
#include "control/core/ingress_jobs.h"

#include <optional>
#include <string>
#include <utility>

#include "control/core/admission.h"
#include "control/core/lifecycle.h"
#include "control/core/registry.h"

namespace holdfast::core {

void IngressJobs::answer_refused(const Waiters& waiters, const wire::Refusal& refusal) {
  ++core_.counters.refused;
  ++core_.stats.refused[static_cast<std::size_t>(refusal.code)];
  for (const auto& [peer, tag] : waiters) core_.out->send(peer, wire::Refused{tag, refusal});
}

bool IngressJobs::queue_has_capacity(const std::string& tenant) const {
  return core_.config.queue_max_preparing > 1 &&
         unassigned_.newest_of_longest(unassigned_.size(tenant) + 1).has_value();
}

/// Puts a job in line. An operator's job costs next to nothing, so it is next.
void IngressJobs::stand_in_line(const IngressJob& job) {
  unassigned_.push(job.inspect ? std::string() : tenant_of(job.submit.submit), job.id, job.bytes);
}

void IngressJobs::start_job(IngressJob job) {
  job.id = ++last_job_;
  job.since_us = core_.now.mono_us;
  if (!job.inspect) {
    const wire::Submit& submit = job.submit.submit;
    pending_by_id_[submit.request_id] = job.id;
    if (!submit.idem_key.empty()) pending_by_key_[{tenant_of(submit), submit.idem_key}] = job.id;
  }
  core_.timers.add(job.deadline_us, TimerKind::kJob, static_cast<std::int64_t>(job.id));
  stand_in_line(job);
  jobs_.emplace(job.id, std::move(job));
  assign_jobs();
}

/// The job as a helper gets it, with the profile that the model's name has now.
wire::Prepare IngressJobs::prepare_of(const IngressJob& job) const {
  const wire::Submit& submit = job.submit.submit;
  wire::Prepare out{job.id,      job.model_sha,         submit.prompts, submit.add_special,
                    submit.echo, submit.sampling.extra, true,           false,
                    {},          std::nullopt};
  const auto model = registry_.models().find(job.route.model);
  if (model == registry_.models().end() || model->second.row.profile.empty()) return out;
  out.profile = model->second.row.profile;
  out.options = wire::GenerationOptions{submit.sampling, submit.stops,      submit.max_tokens,
                                        submit.given,    submit.seed_given, std::nullopt};
  return out;
}

/// Gives waiting jobs to the helper with the fewest: hashing a file takes long, so jobs are spread.
/// A helper has only so many at a time; the others wait here, where tenants take turns.
void IngressJobs::assign_jobs() {
  while (const auto given = helpers_.assign(unassigned_)) {
    IngressJob& job = jobs_.at(given->first);
    job.helper = given->second;
    ++job.tries;
    if (job.inspect) {
      core_.out->send(job.helper, wire::Inspect{job.id, job.add.path, core_.config.model_roots,
                                                job.add.profile.value_or(std::string())});
    } else {
      core_.out->send(job.helper, prepare_of(job));
    }
  }
}

/// Takes a job off a helper that died or took too long: another try, or the end of the job.
void IngressJobs::job_lost(IngressJob& job, const std::string& why) {
  const bool had_helper = job.helper != 0;
  leave_helper(job);
  if (had_helper && job.tries < core_.config.ingress_tries) {
    const std::int64_t limit =
        job.inspect ? core_.config.ingress_inspect_timeout_ms : core_.config.ingress_timeout_ms;
    job.deadline_us = core_.now.mono_us + limit * 1000;
    core_.timers.add(job.deadline_us, TimerKind::kJob, static_cast<std::int64_t>(job.id));
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
    core_.op_refused(job.add.peer, job.add.tag, std::move(refusal));
  } else {
    answer_refused(job.waiters, refusal);
  }
  (void)take_job(job.id);
}

/// Takes a job out of every table and returns it.
IngressJob IngressJobs::take_job(std::uint64_t id) {
  const auto it = jobs_.find(id);
  CHECK(it != jobs_.end());
  IngressJob job = std::move(it->second);
  jobs_.erase(it);
  if (!job.inspect) {
    const wire::Submit& submit = job.submit.submit;
    pending_by_id_.erase(submit.request_id);
    if (!submit.idem_key.empty()) pending_by_key_.erase({tenant_of(submit), submit.idem_key});
    lifecycle_.keys().prepared(submit.api_key);
  }
  unassigned_.remove(id);
  leave_helper(job);
  assign_jobs();
  return job;
}

void IngressJobs::leave_helper(IngressJob& job) {
  helpers_.leave(job.helper, job.id);
  job.helper = 0;
}

void IngressJobs::on(const IngressUp& event) {
  helpers_.add(event.peer);
  assign_jobs();
}

void IngressJobs::helper_gone(PeerId peer) {
  if (!helpers_.has(peer)) return;
  for (const auto& [id, bytes] : helpers_.remove(peer)) {
    if (const auto it = jobs_.find(id); it != jobs_.end()) job_lost(it->second, "died");
  }
}

IngressJob* IngressJobs::pending(const std::string& request_id, const std::string& tenant,
                                 const std::string& idem_key) {
  if (const auto it = pending_by_id_.find(request_id); it != pending_by_id_.end()) {
    return &jobs_.at(it->second);
  }
  if (idem_key.empty()) return nullptr;
  const auto key = pending_by_key_.find({tenant, idem_key});
  return key == pending_by_key_.end() ? nullptr : &jobs_.at(key->second);
}

void IngressJobs::cancel(const std::string& request_id, const std::string& tenant) {
  const auto found = pending_by_id_.find(request_id);
  if (found == pending_by_id_.end()) return;
  const std::uint64_t id = found->second;
  const IngressJob& job = jobs_.at(id);
  if (!tenant.empty() && tenant != tenant_of(job.submit.submit)) return;
  answer_refused(job.waiters, refuse(Errc::kCancelled, "cancelled before it was accepted"));
  (void)take_job(id);
}

std::optional<IngressJob> IngressJobs::take_answered(std::uint64_t id, PeerId helper,
                                                     bool inspect) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end() || it->second.inspect != inspect || it->second.helper != helper) {
    return std::nullopt;
  }
  return take_job(id);
}

std::optional<IngressJob> IngressJobs::take_newest_of_longest(const std::string& tenant) {
  const auto id = unassigned_.newest_of_longest(unassigned_.size(tenant) + 1);
  if (!id) return std::nullopt;
  return take_job(*id);
}

void IngressJobs::job_due(std::uint64_t id) {
  const auto job = jobs_.find(id);
  if (job != jobs_.end() && job->second.deadline_us <= core_.now.mono_us) {
    job_lost(job->second, "took too long");
  }
}

void IngressJobs::forget_waiter(PeerId peer) {
  for (auto& [id, job] : jobs_) {
    std::erase_if(job.waiters, [&](const auto& waiter) { return waiter.first == peer; });
  }
}

}  // namespace holdfast::core
