#pragma once
// The way in: idempotency, refusals, acceptance.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/core/aliases.h"
#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/ingress_jobs.h"
#include "control/core/models.h"
#include "control/core/requests.h"

namespace holdfast::core {

class Aliases;
class Canaries;
class IngressJobs;
class Lifecycle;
class Loads;
class Registry;

/// Takes submissions: a known one is answered, a new one is refused or prepared and accepted.
class Intake {
 public:
  Intake(Core& core, IngressJobs& jobs, Lifecycle& lifecycle, Registry& registry, Loads& loads,
         Aliases& aliases, Canaries& canaries)
      : core_(core),
        jobs_(jobs),
        lifecycle_(lifecycle),
        registry_(registry),
        loads_(loads),
        aliases_(aliases),
        canaries_(canaries) {}

  void on(const SubmitEvent& event);
  void on(const PreparedEvent& event);

  /// Sets the rowid of the newest request that the database has.
  void boot(const Boot& event) { last_seq_ = event.last_seq; }

 private:
  struct Tokenized {  // a submission as it was prepared
    std::vector<std::vector<TokenId>> ids;
    std::vector<std::string> text;  // of the prompts, for an echo
    bool embedding = false;         // vectors are asked for
    std::int64_t since_us = 0;
    bool charged = false;  // to its key, when its preparation began
    std::vector<std::string> notes = {};
    std::optional<std::int64_t> most_tokens = {};  // of the model's profile
  };
  bool answer_duplicate(const SubmitEvent& event);
  std::optional<wire::Refusal> refuse_early(const SubmitEvent& event, const Model* model) const;
  std::optional<wire::Refusal> refuse_full(const SubmitEvent& event, const Model& model) const;
  std::optional<wire::Refusal> refuse_key(const SubmitEvent& event, const Model& model);
  void add_forecast(wire::Refusal& refusal, const Model& model) const;
  void admit(const SubmitEvent& event, const Waiters& waiters, bool charged = false);
  void make_way_in_line(const std::string& tenant);
  static std::optional<wire::Refusal> refuse_kind(const SubmitEvent& event, const Model& model,
                                                  bool embedding);
  std::optional<wire::Refusal> refuse_prompts(const SubmitEvent& event, const Model& model,
                                              const Tokenized& tokenized,
                                              std::int64_t& max_tokens) const;
  void take_keep_alive(const wire::Submit& submit, Model& model);
  Request make_request(const SubmitEvent& event, const Route& route, const Model& model,
                       std::int64_t max_tokens);
  void accept(const SubmitEvent& event, const Route& route, const Waiters& waiters,
              Tokenized tokenized);

  Core& core_;
  IngressJobs& jobs_;
  Lifecycle& lifecycle_;
  Registry& registry_;
  Loads& loads_;
  Aliases& aliases_;
  Canaries& canaries_;

  Seq last_seq_ = 0;
};

}  // namespace holdfast::core
