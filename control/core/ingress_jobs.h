#pragma once
// Jobs of the ingress helpers: texts to be tokenized and model files to be read.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/core/aliases.h"
#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/fair_line.h"
#include "control/core/helper_pool.h"

namespace holdfast::core {

class Lifecycle;
class Registry;

using Waiters = std::vector<std::pair<PeerId, std::uint64_t>>;  // peer and tag

/// Work for an ingress helper.
struct IngressJob {
  std::uint64_t id = 0;
  bool inspect = false;
  bool verify = false;  // only checks that the file is as registered
  SubmitEvent submit;   // prepare
  Waiters waiters;      // clients and operators that get the answer
  Route route;          // prepare: decided before, as each model has its own tokenizer
  std::string model_sha;
  OpAddModel add;     // inspect
  PeerId helper = 0;  // 0: waits for one
  std::int32_t tries = 0;
  std::int64_t deadline_us = 0;
  std::int64_t since_us = 0;
  std::int64_t bytes = 0;  // of its prompts, for the fairness between tenants
};

/// Tenant of a submission: "default" if it names none.
inline std::string tenant_of(const wire::Submit& submit) {
  return submit.tenant.empty() ? "default" : submit.tenant;
}

/// Submissions and model files that ingress helpers work on or will work on. Tenants take turns.
class IngressJobs {
 public:
  IngressJobs(Core& core, Lifecycle& lifecycle, const Registry& registry)
      : core_(core), lifecycle_(lifecycle), registry_(registry) {}

  /// Returns the submission on its way that has this id or key; nullptr: there is none.
  IngressJob* pending(const std::string& request_id, const std::string& tenant,
                      const std::string& idem_key);
  /// Ends a submission of this tenant that is not accepted yet; nothing was promised. Does nothing
  /// if there is none.
  void cancel(const std::string& request_id, const std::string& tenant);
  /// Takes out the job that this helper has answered. nullopt: a late answer of a helper that was
  /// given up, or an answer that nobody asked for.
  std::optional<IngressJob> take_answered(std::uint64_t id, PeerId helper, bool inspect);
  /// Takes out the newest job of the tenant that has most in line, if it has more than this one.
  std::optional<IngressJob> take_newest_of_longest(const std::string& tenant);
  /// Takes a job off a helper that takes too long.
  void job_due(std::uint64_t id);
  /// Answers nothing more to a peer that is gone.
  void forget_waiter(PeerId peer);
  void on(const IngressUp& event);
  /// Answers everybody who waits for a submission with its refusal.
  void answer_refused(const Waiters& waiters, const wire::Refusal& refusal);
  /// Returns true for a tenant that has few jobs in a full line: one that has more gives way.
  bool queue_has_capacity(const std::string& tenant) const;
  /// Puts a job in line for an ingress helper, and gives it to one that is free.
  void start_job(IngressJob job);
  /// Takes the jobs of a helper that is gone: others get them. Does nothing if the peer is no
  /// helper.
  void helper_gone(PeerId peer);

  bool knows_id(const std::string& request_id) const {
    return pending_by_id_.count(request_id) > 0;
  }
  bool knows_key(const std::string& tenant, const std::string& idem_key) const {
    return pending_by_key_.count({tenant, idem_key}) > 0;
  }
  /// The request that this inspect job was made for; nullptr if it is not known (any more).
  const OpAddModel* inspect_request(std::uint64_t job) const {
    const auto it = jobs_.find(job);
    return it == jobs_.end() || !it->second.inspect ? nullptr : &it->second.add;
  }
  std::int64_t size() const { return static_cast<std::int64_t>(jobs_.size()); }
  std::int64_t helpers() const { return static_cast<std::int64_t>(helpers_.size()); }

 private:
  void stand_in_line(const IngressJob& job);
  void assign_jobs();
  wire::Prepare prepare_of(const IngressJob& job) const;
  void job_lost(IngressJob& job, const std::string& why);
  IngressJob take_job(std::uint64_t id);
  void leave_helper(IngressJob& job);

  Core& core_;
  Lifecycle& lifecycle_;
  const Registry& registry_;

  std::map<std::uint64_t, IngressJob> jobs_;
  static constexpr std::size_t kHelperJobsMax = 32;  // enough to keep a helper busy
  HelperPool helpers_{kHelperJobsMax};
  FairLine unassigned_;
  std::unordered_map<std::string, std::uint64_t> pending_by_id_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> pending_by_key_;
  std::uint64_t last_job_ = 0;
};

}  // namespace holdfast::core
