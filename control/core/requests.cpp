#include "control/core/requests.h"

#include <algorithm>

#include "control/core/workers.h"

namespace holdfast::core {

std::int32_t Request::open_choices() const {
  return static_cast<std::int32_t>(
      std::count_if(choices.begin(), choices.end(),
                    [](const Choice& c) { return c.phase != ChoicePhase::kEnded; }));
}

std::int64_t tokens_of(const Request& request, const Choice& choice) {
  return request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] + choice.row.next_index;
}

std::int64_t indexes_at_most(const Request& request) {
  const bool scores_alone = request.row.max_tokens == 0 && request.sampling.prompt_logprobs >= 0;
  return scores_alone ? 1 : request.row.max_tokens;
}

std::int64_t pages_at_most(const Request& request, const Choice& choice) {
  const std::int64_t prompt = request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)];
  return pages_for(prompt + request.row.max_tokens, kPageTokens);
}

Request* RequestTable::by_seq(Seq seq) {
  const auto it = requests_.find(seq);
  return it == requests_.end() ? nullptr : &it->second;
}

Request* RequestTable::by_id(std::string_view id) {
  const auto it = by_id_.find(std::string(id));
  return it == by_id_.end() ? nullptr : by_seq(it->second);
}

Request* RequestTable::by_key(const std::string& tenant, const std::string& idem_key) {
  if (idem_key.empty()) return nullptr;
  const auto it = by_key_.find({tenant, idem_key});
  return it == by_key_.end() ? nullptr : by_seq(it->second);
}

Request* RequestTable::insert(Request request) {
  const Seq seq = request.row.seq;
  const auto [it, fresh] = requests_.emplace(seq, std::move(request));
  CHECK_MSG(fresh, "a request is taken in once");
  Request& in = it->second;
  CHECK_MSG(by_id_.emplace(in.row.id, seq).second, "request ids are unique");
  if (!in.row.idem_key.empty()) by_key_[{in.row.tenant, in.row.idem_key}] = seq;
  if (in.terminal()) {
    ended_.push_back(seq);
  } else {
    usage_.count_request(in.row, in.payload_bytes, 1);
    usage_.count_bound(in.row, 1);
    if (in.row.state == RequestState::kQueued) usage_.count_waiting(in.row, 1);
  }
  return &in;
}

void RequestTable::ended(Request& request) {
  CHECK(request.terminal());
  usage_.count_request(request.row, request.payload_bytes, -1);
  usage_.count_bound(request.row, -1);
  ended_.push_back(request.row.seq);
}

void RequestTable::trim(std::int64_t ended_max) {
  auto it = ended_.begin();
  while (static_cast<std::int64_t>(ended_.size()) > ended_max && it != ended_.end()) {
    const Request* oldest = by_seq(*it);
    if (oldest != nullptr && oldest->subscribers > 0) {
      ++it;
      continue;
    }
    forget(*it);
    it = ended_.erase(it);
  }
}

bool RequestTable::retire(Seq seq) {
  const Request* request = by_seq(seq);
  if (request != nullptr && (!request->terminal() || request->subscribers > 0)) return false;
  forget(seq);
  return true;
}

void RequestTable::forget(Seq seq) {
  const Request* request = by_seq(seq);
  if (request == nullptr) return;
  by_id_.erase(request->row.id);
  if (!request->row.idem_key.empty()) by_key_.erase({request->row.tenant, request->row.idem_key});
  requests_.erase(seq);
}

}  // namespace holdfast::core
