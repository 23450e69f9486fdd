#pragma once
// The verbs that ask about a model's vocabulary: `models.tokenize` and `models.detokenize`. An
// ingress helper does the work, as for a prompt; the machine takes no part and nothing is written.

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "control/core/api_key_limiter.h"
#include "control/core/fair_line.h"
#include "control/core/helper_pool.h"
#include "control/core/machine.h"
#include "control/endpoints/detokenizers.h"

namespace holdfast::daemon {

/// Questions about vocabularies that helpers answer. Bounded, so that they cannot hold up prompts.
/// Not thread-safe.
class TokenizeService {
 public:
  using Send = std::function<void(core::PeerId, wire::Message)>;
  static constexpr std::size_t kQuestionsMax = 64;              // at once; more are refused
  static constexpr std::int64_t kTokensMax = 1 << 20;           // of one answer
  static constexpr std::int64_t kTokensWithBytesMax = 1 << 16;  // of one with the bytes of each
  static constexpr std::size_t kHelperQuestionsMax = 4;         // at a time, of one helper

  TokenizeService(DetokenizerCache& detokenizer, Send send)
      : detokenizers_(detokenizer), send_(std::move(send)) {}

  static bool knows(const std::string& verb) {
    return verb == "models.tokenize" || verb == "models.detokenize";
  }
  /// Answers with an OP_RESULT: a refusal at once, else when a helper has answered.
  void ask(core::PeerId peer, const wire::Op& op, const core::Machine& machine,
           std::int64_t now_us);
  void helper_up(core::PeerId helper);
  /// Returns false if the job is not one of this service's.
  bool prepared(core::PeerId helper, const wire::Prepared& prepared);
  /// Drops the questions of a peer, or gives those of a helper to others.
  void peer_gone(core::PeerId peer);
  /// Refuses questions that have waited too long.
  void expire(std::int64_t now_us);

 private:
  struct Question {
    core::PeerId peer = 0;
    std::uint64_t tag = 0;
    std::string verb;
    bool with_token_bytes = false;
    bool packed = false;      // token bytes in one text
    bool packed_ids = false;  // ids in one text
    std::int64_t tokens_max = 0;
    bool empty = false;  // no text and no ids, which helpers refuse
    std::string model;
    std::int64_t context = 0;
    std::int64_t deadline_us = 0;
    std::string tenant;
    std::int64_t bytes = 0;   // of the arguments
    core::PeerId helper = 0;  // 0: waits in line for one
    std::int64_t tries = 0;
    std::int64_t tries_max = 0;
    wire::Prepare job;
  };
  using Questions = std::map<std::uint64_t, Question>;
  bool charge(core::PeerId peer, const wire::Op& op, const nlohmann::json& args,
              std::int64_t now_us);
  Question question_of(core::PeerId peer, const wire::Op& op, const nlohmann::json& args,
                       const core::ModelRow& model);
  void assign();
  bool make_way(const std::string& tenant);
  void refuse(core::PeerId peer, std::uint64_t tag, Errc code, std::string message);
  void refuse_long(const Question& question, std::int64_t tokens);
  void answer(const Question& question, const wire::Prepared& prepared);
  void answer_ids(const Question& question, const std::vector<wire::TokenId>& ids,
                  const text::DetokenizerTable* detokenizer, nlohmann::json& document);

  DetokenizerCache& detokenizers_;
  Send send_;
  core::HelperPool helpers_{kHelperQuestionsMax};
  Questions questions_;
  core::ApiKeyLimiter keys_;  // questions of a key in the last minute, limited as its requests are
  core::FairLine line_;       // questions without a helper: tenants take turns
  std::uint64_t last_job_ = 0;
};

}  // namespace holdfast::daemon
