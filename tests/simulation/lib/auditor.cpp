#include "tests/simulation/lib/auditor.h"

#include <algorithm>

#include "shared/wire/frame.h"

namespace holdfast::simulation {
namespace {

constexpr const char* kClasses[] = {"c1", "c2"};

std::string place(const std::string& id, std::int64_t choice, std::int64_t index) {
  return id + "/" + std::to_string(choice) + "[" + std::to_string(index) + "]";
}

}  // namespace

void Auditor::attempted(int wish) {
  const Wish& w = wishes_[static_cast<std::size_t>(wish)];
  Known& known = known_[w.submit.request_id];
  if (known.wish >= 0) return;  // tried again: what is known of it stays
  known.wish = wish;
  known.choices.resize(static_cast<std::size_t>(w.choices()));
  known.variants = variants_of(w);
  known.moved = w.submit.model == kAlias;  // its queue is not known before it is accepted
}

/// Bit 0: numerics class "c1" is possible, bit 1: "c2". Where aliases are: bits 0 and 1 of the
/// first model, bits 2 and 3 of the second.
int Auditor::variants_of(const Wish& wish) const {
  if (!world_.swarm.aliases || wish.submit.model == "m0") return 3;
  return wish.submit.model == kAlias ? 15 : 12;
}

bool Auditor::possible(const Known& known, int variant) const {
  return (known.variants & (1 << variant)) != 0 && (variant % 2 == 0 || world_.swarm.two_classes);
}

/// I15: the model that a request is told with, or that its row has, is the one whose tokens it has.
void Auditor::check_model(const std::string& id, const Known& known, const std::string& model) {
  if (!world_.swarm.aliases) return;
  const bool first = (known.variants & 3) != 0;
  const bool second = (known.variants & 12) != 0;
  if ((model == "m0" && first) || (model == "m1" && second)) return;
  world_.fail("I15 " + id + " is said to be of model " + model +
              (first ? ", its tokens are of m0" : ", its tokens are of m1"));
}

Auditor::Known* Auditor::find(const std::string& id, const char* where) {
  const auto it = known_.find(id);
  if (it != known_.end() && it->second.wish >= 0) return &it->second;
  world_.fail("I1 " + std::string(where) + " names request " + id + " that nobody submitted");
  return nullptr;
}

const Answer& Auditor::answer(int wish, std::int32_t choice, int variant) {
  const auto key = std::make_tuple(wish, choice, variant);
  const auto it = answers_.find(key);
  if (it != answers_.end()) return it->second;
  const Wish& w = wishes_[static_cast<std::size_t>(wish)];
  std::string name = kClasses[variant % 2];
  if (world_.swarm.aliases) name += kModelShas[variant / 2];
  Answer& made = answers_[key];
  made = reference_answer(w.submit.sampling.seed, choice, w.prompt, name, *w.submit.max_tokens);
  const bool scores = w.submit.sampling.prompt_logprobs >= 0;
  if (scores && *w.submit.max_tokens == 0) made.ids = {wire::kScoresToken};
  return made;
}

/// Scores of the prompt come with the first token of each choice, and with no other.
void Auditor::check_scores(const Known& known, const wire::Event& m) {
  const Wish& wish = wishes_[static_cast<std::size_t>(known.wish)];
  for (std::size_t i = 0; i < m.ids.size(); ++i) {
    const auto at = m.start + static_cast<std::int64_t>(i);
    const bool wanted = at == 0 && wish.submit.sampling.prompt_logprobs >= 0;
    const std::string got = i < m.extra.size() ? m.extra[i] : "";
    if (got == (wanted ? reference_scores(wish.prompt) : "")) continue;
    world_.fail("I2 " + place(m.request_id, m.choice, at) + " has the scores \"" + got + "\"" +
                (wanted ? ", those of its prompt were wanted" : ", none were wanted"));
  }
}

/// What is said of [start, start + ids) must be the reference, in one numerics class throughout.
void Auditor::check_tokens(const std::string& id, Known& known, std::int32_t choice,
                           std::int64_t start, const std::vector<wire::TokenId>& ids,
                           const char* where) {
  int fitting = 0;
  for (int c = 0; c < kVariants; ++c) {
    if (!possible(known, c)) continue;
    const Answer& want = answer(known.wish, choice, c);
    const auto end = start + static_cast<std::int64_t>(ids.size());
    const bool same = end <= static_cast<std::int64_t>(want.ids.size()) &&
                      std::equal(ids.begin(), ids.end(), want.ids.begin() + start);
    if (same) fitting |= 1 << c;
  }
  if (fitting == 0) {
    world_.fail("I2 " + std::string(where) + " of " + place(id, choice, start) + " (" +
                std::to_string(ids.size()) + " tokens) is not what the model says");
    return;
  }
  // What was seen binds the class, also through a power failure.
  known.variants = fitting;
}

// ---- what leaves the daemon

void Auditor::left(core::PeerId to, const wire::Message& message) {
  if (const auto* m = std::get_if<wire::Event>(&message)) {
    on_event(*m);
  } else if (const auto* m = std::get_if<wire::Ack>(&message)) {
    for (const wire::AckItem& item : m->items) on_ack(to, item);
  } else if (const auto* m = std::get_if<wire::Accepted>(&message)) {
    on_accepted(*m);
  } else if (const auto* m = std::get_if<wire::Fin>(&message)) {
    on_fin(m->info);
  } else if (const auto* m = std::get_if<wire::Attached>(&message)) {
    on_info(m->info);
  } else if (const auto* m = std::get_if<wire::StatusReply>(&message)) {
    on_status(*m);
  } else if (const auto* m = std::get_if<wire::Dispatch>(&message)) {
    on_dispatch(to, *m);
  } else if (const auto* m = std::get_if<wire::Adopt>(&message)) {
    on_fence(to, m->request_id, m->choice, m->fence);
  }
}

void Auditor::all_is_durable() {
  for (auto& [id, known] : known_) {
    for (Seen& seen : known.choices) seen.durable = seen.emitted;
  }
}

/// One that can have been deleted may begin anew: then nothing that was known of it counts.
void Auditor::on_submit(const wire::Submit& m) {
  const auto it = known_.find(m.request_id);
  if (it == known_.end() || it->second.wish < 0) return;
  Known& known = it->second;
  if (!gone_is_lawful(known)) return;
  known.accepted = known.first_answer = known.lived = known.dispatched = false;
  known.moved = true;
  known.fin.reset();
  known.variants = variants_of(wishes_[static_cast<std::size_t>(known.wish)]);
  for (Seen& seen : known.choices) {
    seen.emitted = seen.durable = 0;
    seen.frozen = -1;
  }
}

/// One key is one request, until that one can have been deleted.
void Auditor::check_key(const Wish& wish, const std::string& id) {
  const auto key = std::make_pair(wish.submit.tenant, wish.submit.idem_key);
  std::string& holder = keys_[key];
  if (!holder.empty() && holder != id) {
    world_.hit(Fault::kKeyFreed);
    if (!gone_is_lawful(known_[holder])) {
      world_.fail("I8 key " + key.second + " is request " + holder + " and " + id);
    }
  }
  holder = id;
}

void Auditor::on_accepted(const wire::Accepted& m) {
  Known* known = find(m.info.request_id, "ACCEPTED");
  if (known == nullptr) return;
  const Wish& wish = wishes_[static_cast<std::size_t>(known->wish)];
  if (!wish.submit.idem_key.empty()) check_key(wish, m.info.request_id);
  if (!m.duplicate) {
    if (known->first_answer || known->lived) {
      world_.fail("I8 " + m.info.request_id + " was accepted twice");
    }
    known->first_answer = true;
    known->accept_order = ++accepts_;
    all_is_durable();
  } else if (!known->accepted) {
    known->accept_order = ++accepts_;
    known->moved = true;  // its place in the queue is older than this answer
  }
  known->accepted = true;
  on_info(m.info);
}

/// Whatever tells of a request: an end that was told stays.
void Auditor::on_info(const wire::RequestInfo& info) {
  Known* known = find(info.request_id, "an answer");
  if (known == nullptr) return;
  if (info.choices.size() != known->choices.size()) {
    world_.fail("I2 " + info.request_id + " is told with " + std::to_string(info.choices.size()) +
                " choices");
    return;
  }
  check_model(info.request_id, *known, info.model);
  if (known->fin && info.state != known->fin->state) {
    world_.fail("I6 " + info.request_id + " ended as " +
                std::string(wire::state_name(known->fin->state)) + " and is told as " +
                std::string(wire::state_name(info.state)));
  }
  if (info.state == wire::RequestState::kQuarantined) check_quarantine(info.request_id, *known);
  if (!wire::is_terminal(info.state)) known->alive_us = world_.now_us;
  if (wire::is_terminal(info.state) && !known->fin) {
    check_end(info.request_id, *known, info);
    known->fin = info;
  }
}

void Auditor::on_event(const wire::Event& m) {
  Known* known = find(m.request_id, "EVENT");
  if (known == nullptr || m.choice < 0 ||
      static_cast<std::size_t>(m.choice) >= known->choices.size()) {
    return world_.fail("I2 EVENT of a choice that " + m.request_id + " does not have");
  }
  Seen& seen = known->choices[static_cast<std::size_t>(m.choice)];
  const auto end = m.start + static_cast<std::int64_t>(m.ids.size());
  check_tokens(m.request_id, *known, m.choice, m.start, m.ids, "EVENT");
  check_scores(*known, m);
  if (seen.frozen >= 0 && end > seen.frozen) {
    world_.fail("I9 " + place(m.request_id, m.choice, end - 1) +
                " was sent after its cancel was answered with " + std::to_string(seen.frozen));
  }
  seen.left(end);
}

void Auditor::on_fin(const wire::RequestInfo& info) {
  on_info(info);
  Known* known = find(info.request_id, "FIN");
  if (known == nullptr || !known->fin) {
    return world_.fail("I6 FIN of " + info.request_id + ", which has not ended");
  }
  for (std::size_t c = 0; c < info.choices.size(); ++c) {
    const wire::ChoiceInfo& now = info.choices[c];
    const wire::ChoiceInfo& first = known->fin->choices[c];
    if (now.next_index != first.next_index || now.finish != first.finish) {
      world_.fail("I6 two different FINs of " + info.request_id);
    }
  }
}

void Auditor::on_status(const wire::StatusReply& m) {
  on_info(m.info);
  Known* known = find(m.info.request_id, "STATUS_REPLY");
  if (known == nullptr || m.info.state != wire::RequestState::kCancelled) return;
  for (std::size_t c = 0; c < m.info.choices.size() && c < known->choices.size(); ++c) {
    Seen& seen = known->choices[c];
    const std::int64_t index = m.info.choices[c].next_index;
    if (seen.frozen >= 0 && seen.frozen != index) {
      world_.fail("I9 the index of " +
                  place(m.info.request_id, static_cast<std::int64_t>(c), index) +
                  " was frozen at " + std::to_string(seen.frozen));
    }
    seen.frozen = index;
  }
}

/// A new right to compute a choice: always later than every one before it, of any choice.
void Auditor::on_fence(core::PeerId to, const std::string& id, std::int32_t choice,
                       core::Fence fence) {
  Known* known = find(id, "a fence");
  if (known == nullptr) return;
  if (fence <= newest_fence_) {
    world_.fail("I4 fence " + std::to_string(fence.epoch) + "." + std::to_string(fence.counter) +
                " of " + place(id, choice, 0) + " is not newer than the last one");
  }
  newest_fence_ = std::max(newest_fence_, fence);
  Seen& seen = known->choices.at(static_cast<std::size_t>(choice));
  seen.fence = fence;
  seen.worker = to;
  known->lived = true;
  known->alive_us = world_.now_us;
  if (known->fin) world_.fail("I6 " + id + " runs again after its end");
  if (seen.frozen >= 0) world_.fail("I9 " + id + " runs again after its cancel");
}

void Auditor::on_dispatch(core::PeerId to, const wire::Dispatch& m) {
  Known* known = find(m.request_id, "DISPATCH");
  if (known == nullptr) return;
  on_fence(to, m.request_id, m.choice, m.fence);
  Seen& seen = known->choices.at(static_cast<std::size_t>(m.choice));
  const Wish& wish = wishes_[static_cast<std::size_t>(known->wish)];
  if (m.prompt_ids != wish.prompt) world_.fail("I2 DISPATCH of " + m.request_id + ": other prompt");
  if (m.sampling.seed != wish.submit.sampling.seed) {
    world_.fail("I2 DISPATCH of " + m.request_id + ": other seed");
  }
  if (m.max_tokens != *wish.submit.max_tokens) {
    world_.fail("I2 DISPATCH of " + m.request_id + ": other max_tokens");
  }
  if (static_cast<std::int64_t>(m.committed_ids.size()) < seen.durable) {
    world_.fail("I3 " + place(m.request_id, m.choice, seen.durable) + " is computed again");
  }
  check_tokens(m.request_id, *known, m.choice, 0, m.committed_ids, "DISPATCH");
  if (m.model_sha.size() == std::string("sha-m0").size()) {
    check_model(m.request_id, *known, m.model_sha.substr(4));
  }
  if (!known->model_sha.empty() && known->model_sha != m.model_sha) world_.hit(Fault::kRerouted);
  known->model_sha = m.model_sha;
  if (paused_ && pauses_open_ == 0)
    world_.fail("I6 " + m.request_id + " started in a paused queue");
  check_shares(m.request_id, *known, m.choice);
  check_order(m.request_id, *known);
  check_killer(m.request_id, seen);
}

/// Within a model: by priority class, and by age within a tenant.
void Auditor::check_order(const std::string& id, Known& known) {
  if (known.dispatched) return;
  known.dispatched = true;
  const wire::Submit& mine = wishes_[static_cast<std::size_t>(known.wish)].submit;
  if (!known.overtaken_by.empty() && !known.moved) {
    const std::string by = *known.overtaken_by.begin();
    const Known& other = known_[by];
    const wire::Submit& theirs = wishes_[static_cast<std::size_t>(other.wish)].submit;
    const auto rank = [](const Known& k, const wire::Submit& s) {
      return " (class " + std::to_string(static_cast<int>(s.priority)) + ", tenant " + s.tenant +
             ", accepted " + std::to_string(k.accept_order) + ")";
    };
    if (!other.moved) {
      world_.fail("I14 " + by + rank(other, theirs) + " went before " + id + rank(known, mine));
    }
  }
  if (known.moved || !known.accepted) return;
  for (auto& [other, waits] : known_) {
    if (!waits.first_answer || waits.dispatched || waits.fin || waits.wish < 0) continue;
    const wire::Submit& theirs = wishes_[static_cast<std::size_t>(waits.wish)].submit;
    if (theirs.model != mine.model) continue;
    const bool older = theirs.tenant == mine.tenant && waits.accept_order < known.accept_order;
    const bool before =
        theirs.priority < mine.priority || (theirs.priority == mine.priority && older);
    if (before) waits.overtaken_by.insert(id);
  }
}

void Auditor::on_ack(core::PeerId, const wire::AckItem& item) {
  Known* known = find(item.request_id, "ACK");
  if (known == nullptr) return;
  Seen& seen = known->choices.at(static_cast<std::size_t>(item.choice));
  if (seen.fence != item.fence) {
    world_.fail("I5 ACK of " + place(item.request_id, item.choice, item.upto) +
                " under a fence that is not the current one");
  }
  // Of one that has ended it says no more than that the worker may forget it.
  const bool lied =
      lies_.count({item.request_id + "/" + std::to_string(item.choice), item.fence}) > 0;
  if (lied && !known->fin) {
    world_.fail("I5 ACK of " + place(item.request_id, item.choice, item.upto) +
                " although its worker sent two tokens for one index");
  }
  if (seen.frozen >= 0 && item.upto > seen.frozen) {
    world_.fail("I9 " + place(item.request_id, item.choice, item.upto) + " grew after its cancel");
  }
  // An acknowledged token is gone from its worker: it must be in the database.
  seen.left(item.upto);
}

// ---- what reaches it

void Auditor::arrived(core::PeerId from, const wire::Message& message) {
  if (const auto* submit = std::get_if<wire::Submit>(&message)) return on_submit(*submit);
  const auto* tokens = std::get_if<wire::Tokens>(&message);
  if (tokens == nullptr) return;
  for (const wire::TokenEvent& event : tokens->events) {
    look_for_lie(from, event);
    look_for_end(event);
    if (const auto known = known_.find(event.request_id); known != known_.end()) {
      has_a_share(known->second);
    }
  }
}

/// A worker that says another token than the one that it said before under the same fence: from the
/// next group on nothing of that attempt may count.
void Auditor::look_for_lie(core::PeerId from, const wire::TokenEvent& event) {
  const auto it = known_.find(event.request_id);
  if (it == known_.end() || it->second.fin) return;
  Known& known = it->second;
  const Seen& seen = known.choices.at(static_cast<std::size_t>(event.choice));
  if (seen.fence != event.fence || seen.worker != from) return;
  const std::int64_t n =
      std::min(seen.emitted - event.start, static_cast<std::int64_t>(event.ids.size()));
  for (int c = 0; n > 0 && c < kVariants; ++c) {
    if ((known.variants & (1 << c)) == 0) continue;
    const Answer& want = answer(known.wish, event.choice, c);
    if (event.start + n > static_cast<std::int64_t>(want.ids.size())) continue;
    if (std::equal(event.ids.begin(), event.ids.begin() + n, want.ids.begin() + event.start))
      return;
  }
  if (n > 0) new_lies_.insert({event.request_id + "/" + std::to_string(event.choice), event.fence});
}

bool Auditor::may_fail(const std::string& id) const {
  const auto it = known_.find(id);
  return it != known_.end() && it->second.may_fail;
}

}  // namespace holdfast::simulation
