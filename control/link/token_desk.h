#pragma once
// The verbs that ask about a model's vocabulary: `models.tokenize` and `models.detokenize`. An
// ingress helper does the work, as it does a prompt's; the machine has no part in it and nothing is
// written.

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "control/core/fair_line.h"
#include "control/core/helper_pool.h"
#include "control/core/key_book.h"
#include "control/core/machine.h"
#include "control/link/pieces.h"

namespace holdfast::link {

class TokenDesk {
 public:
  using Send = std::function<void(core::PeerId, wire::Message)>;
  static constexpr std::size_t kQuestionsMax = 64;       // at once; more are refused
  static constexpr std::int64_t kTokensMax = 1 << 20;    // of one answer
  static constexpr std::int64_t kPiecesMax = 1 << 16;    // of one that has the bytes of each
  static constexpr std::size_t kHelperQuestionsMax = 4;  // that a helper is given at a time

  TokenDesk(PieceCache& pieces, Send send) : pieces_(pieces), send_(std::move(send)) {}

  static bool knows(const std::string& verb) {
    return verb == "models.tokenize" || verb == "models.detokenize";
  }
  /// Answers with an OP_RESULT: at once what is wrong with it, else when a helper has answered.
  void ask(core::PeerId peer, const wire::Op& op, const core::Machine& machine,
           std::int64_t now_us);
  void helper_up(core::PeerId helper);
  /// False: the job is not one of this desk's.
  bool prepared(core::PeerId helper, const wire::Prepared& prepared);
  /// A helper or somebody who asked.
  void peer_gone(core::PeerId peer);
  /// Refuses what has waited too long.
  void expire(std::int64_t now_us);

 private:
  struct Question {
    core::PeerId peer = 0;
    std::uint64_t tag = 0;
    std::string verb;
    bool with_pieces = false;
    bool packed = false;      // the pieces in one text
    bool packed_ids = false;  // so too
    std::int64_t tokens_max = 0;
    bool empty = false;  // nothing to take apart: helpers refuse that
    std::string model;
    std::int64_t context = 0;
    std::int64_t deadline_us = 0;
    std::string tenant;
    std::int64_t bytes = 0;   // of what is asked about
    core::PeerId helper = 0;  // 0: stands in line for one
    std::int64_t tries = 0;
    std::int64_t tries_max = 0;
    wire::Prepare job;
  };
  using Questions = std::map<std::uint64_t, Question>;
  bool charge(core::PeerId peer, const wire::Op& op, const nlohmann::json& args,
              std::int64_t now_us);
  void assign();
  bool make_way(const std::string& tenant);
  void refuse(core::PeerId peer, std::uint64_t tag, Errc code, std::string message);
  void refuse_long(const Question& question, std::int64_t tokens);
  void answer(const Question& question, const wire::Prepared& prepared);

  PieceCache& pieces_;
  Send send_;
  core::HelperPool helpers_{kHelperQuestionsMax};
  Questions questions_;
  core::KeyBook keys_;   // questions of a key in the last minute, as of its requests
  core::FairLine line_;  // those without a helper: tenants take turns
  std::uint64_t last_job_ = 0;
};

}  // namespace holdfast::link
