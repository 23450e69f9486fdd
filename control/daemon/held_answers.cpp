#include "control/daemon/held_answers.h"

#include <algorithm>
#include <type_traits>

namespace holdfast::daemon {
namespace {

std::uint64_t tag_of(const wire::Message& message) {
  return std::visit(
      [](const auto& m) -> std::uint64_t {
        if constexpr (requires { m.tag; }) return m.tag;
        return 0;
      },
      message);
}

/// True for what tells a client that something is stored for good, or that it is not: another
/// primary may have accepted it since. Also an end, and tokens whose commit says more than tokens,
/// as the first ones bind their request to a numerics class.
bool is_promise(const Delivery& answer) {
  const wire::Message& message = answer.message;
  if (const auto* refused = std::get_if<wire::Refused>(&message)) {
    return refused->refusal.code == Errc::kNotFound;
  }
  return std::holds_alternative<wire::Accepted>(message) ||
         std::holds_alternative<wire::Attached>(message) ||
         std::holds_alternative<wire::StatusReply>(message) ||
         std::holds_alternative<wire::OpResult>(message) ||
         std::holds_alternative<wire::Fin>(message) ||
         (std::holds_alternative<wire::Event>(message) && answer.full);
}

core::PeerId receiver_of(const HeldAnswers::Answer& answer) {
  return std::visit([](const auto& a) { return a.to; }, answer);
}

}  // namespace

/// True if an answer of this conversation waits. `holds`: it is a promise, and those may not leave.
bool HeldAnswers::waits(const Conversation& conversation, bool holds) {
  if (holds) waiting_.insert(conversation);
  return holds || waiting_.contains(conversation);
}

bool HeldAnswers::take(const Delivery& answer, bool promises_wait) {
  if (!promises_wait && waiting_.empty()) return false;
  const bool holds = promises_wait && is_promise(answer);
  if (!waits({answer.to, tag_of(answer.message)}, holds)) return false;
  answers_.emplace_back(answer);
  return true;
}

bool HeldAnswers::take(const core::SendOpResult& answer, bool promises_wait) {
  if (!promises_wait && waiting_.empty()) return false;
  if (!waits({answer.to, answer.tag}, promises_wait)) return false;
  answers_.emplace_back(answer);
  return true;
}

std::deque<HeldAnswers::Answer> HeldAnswers::release() {
  waiting_.clear();
  return std::exchange(answers_, {});
}

void HeldAnswers::forget(core::PeerId peer) {
  std::erase_if(answers_, [&](const Answer& answer) { return receiver_of(answer) == peer; });
  std::erase_if(waiting_, [&](const Conversation& waiting) { return waiting.first == peer; });
}

}  // namespace holdfast::daemon
