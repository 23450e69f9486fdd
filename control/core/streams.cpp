#include "control/core/streams.h"

#include <algorithm>

namespace holdfast::core {

Subscription& StreamHub::add(Subscription subscription) {
  const Key key{subscription.peer, subscription.tag};
  by_request_[subscription.seq].insert(key);
  return subscriptions_[key] = std::move(subscription);
}

Subscription* StreamHub::find(PeerId peer, std::uint64_t tag) {
  const auto it = subscriptions_.find({peer, tag});
  return it == subscriptions_.end() ? nullptr : &it->second;
}

Seq StreamHub::remove(PeerId peer, std::uint64_t tag) {
  const auto it = subscriptions_.find({peer, tag});
  if (it == subscriptions_.end()) return 0;
  const Seq seq = it->second.seq;
  const auto request = by_request_.find(seq);
  request->second.erase({peer, tag});
  if (request->second.empty()) by_request_.erase(request);
  subscriptions_.erase(it);
  return seq;
}

std::vector<Seq> StreamHub::remove_peer(PeerId peer) {
  std::vector<Seq> seqs;
  auto it = subscriptions_.lower_bound({peer, 0});
  while (it != subscriptions_.end() && it->first.first == peer) {
    const std::uint64_t tag = it->first.second;
    ++it;
    seqs.push_back(remove(peer, tag));
  }
  return seqs;
}

std::vector<StreamHub::Key> StreamHub::of_request(Seq seq) const {
  const auto it = by_request_.find(seq);
  if (it == by_request_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

bool pump(Subscription& sub, const Request& request, const Config& config, Effects& out) {
  bool all_sent = request.terminal();
  for (const Choice& choice : request.choices) {
    const auto c = static_cast<std::size_t>(choice.row.choice);
    const std::int64_t committed = choice.row.next_index;
    const std::int64_t limit = std::min(committed, sub.credited[c] + sub.window);
    while (sub.next[c] < limit) {
      SendEvent event;
      event.to = sub.peer;
      event.tag = sub.tag;
      event.request_id = request.row.id;
      event.model_sha = request.row.model_sha;
      event.seq = request.row.seq;
      event.choice = choice.row.choice;
      event.start = sub.next[c];
      event.until = std::min(limit, event.start + config.streams_chunk_tokens);
      // Ended requests have no ids in memory, and extra (logprobs, vectors) is only in the
      // database.
      const bool scored = event.start == 0 && request.sampling.prompt_logprobs >= 0;
      const bool noted = event.start == 0 && choice.noted;
      if (static_cast<std::int64_t>(choice.ids.size()) >= event.until && !scored && !noted &&
          request.sampling.logprobs < 0 && choice.ids[0] != wire::kVectorToken) {
        event.ids.assign(choice.ids.begin() + event.start, choice.ids.begin() + event.until);
      }
      sub.next[c] = event.until;
      out.messages.emplace_back(std::move(event));
    }
    all_sent = all_sent && sub.next[c] >= committed;
  }
  return all_sent;
}

}  // namespace holdfast::core
