#include "tests/simulation/lib/auditor.h"

#include <algorithm>

#include "shared/wire/frame.h"

namespace holdfast::simulation {
namespace {

constexpr const char* kClasses[] = {"c1", "c2"};

std::string describe_position(const std::string& id, std::int64_t choice, std::int64_t index) {
  return id + "/" + std::to_string(choice) + "[" + std::to_string(index) + "]";
}

}  // namespace

void Auditor::attempted(int request) {
  const SimRequest& w = requests_[static_cast<std::size_t>(request)];
  TrackedRequest& tracked = tracked_[w.submit.request_id];
  if (tracked.request >= 0) return;  // tried again: what is on record of it stays
  tracked.request = request;
  tracked.choices.resize(static_cast<std::size_t>(w.choices()));
  tracked.variants = variants_of(w);
  tracked.moved = w.submit.model == kAlias;  // its queue is not known before it is accepted
}

/// The numerics classes that are possible: bit 0 is "c1", bit 1 is "c2". With aliases bits 0 and 1
/// are of the first model, bits 2 and 3 of the second.
int Auditor::variants_of(const SimRequest& request) const {
  if (!world_.swarm.aliases || request.submit.model == "m0") return 3;
  return request.submit.model == kAlias ? 15 : 12;
}

bool Auditor::possible(const TrackedRequest& tracked, int variant) const {
  return (tracked.variants & (1 << variant)) != 0 && (variant % 2 == 0 || world_.swarm.two_classes);
}

/// I15: the model that a request is told with, or that its row has, is the one whose tokens it has.
void Auditor::check_model(const std::string& id, const TrackedRequest& tracked,
                          const std::string& model) {
  if (!world_.swarm.aliases) return;
  const bool first = (tracked.variants & 3) != 0;
  const bool second = (tracked.variants & 12) != 0;
  if ((model == "m0" && first) || (model == "m1" && second)) return;
  world_.fail("I15 " + id + " is said to be of model " + model +
              (first ? ", its tokens are of m0" : ", its tokens are of m1"));
}

Auditor::TrackedRequest* Auditor::find(const std::string& id, const char* where) {
  const auto it = tracked_.find(id);
  if (it != tracked_.end() && it->second.request >= 0) return &it->second;
  world_.fail("I1 " + std::string(where) + " names request " + id + " that nobody submitted");
  return nullptr;
}

const Answer& Auditor::answer(int request, std::int32_t choice, int variant) {
  const auto key = std::make_tuple(request, choice, variant);
  const auto it = answers_.find(key);
  if (it != answers_.end()) return it->second;
  const SimRequest& w = requests_[static_cast<std::size_t>(request)];
  std::string name = kClasses[variant % 2];
  if (world_.swarm.aliases) name += kModelShas[variant / 2];
  Answer& made = answers_[key];
  made = reference_answer(w.submit.sampling.seed, choice, w.prompt, name, *w.submit.max_tokens);
  const bool scores = w.submit.sampling.prompt_logprobs >= 0;
  if (scores && *w.submit.max_tokens == 0) made.ids = {wire::kScoresToken};
  return made;
}

/// Scores of the prompt come with the first token of each choice, and with no other.
void Auditor::check_scores(const TrackedRequest& tracked, const wire::Event& m) {
  const SimRequest& request = requests_[static_cast<std::size_t>(tracked.request)];
  for (std::size_t i = 0; i < m.ids.size(); ++i) {
    const auto at = m.start + static_cast<std::int64_t>(i);
    const bool requested = at == 0 && request.submit.sampling.prompt_logprobs >= 0;
    const std::string got = i < m.extra.size() ? m.extra[i] : "";
    if (got == (requested ? reference_scores(request.prompt) : "")) continue;
    world_.fail("I2 " + describe_position(m.request_id, m.choice, at) + " has the scores \"" + got +
                "\"" + (requested ? ", those of its prompt were wanted" : ", none were wanted"));
  }
}

/// The tokens [start, start + ids) must be the reference's, in one numerics class throughout.
void Auditor::check_tokens(const std::string& id, TrackedRequest& tracked, std::int32_t choice,
                           std::int64_t start, const std::vector<wire::TokenId>& ids,
                           const char* where) {
  int fitting = 0;
  for (int c = 0; c < kVariants; ++c) {
    if (!possible(tracked, c)) continue;
    const Answer& want = answer(tracked.request, choice, c);
    const auto end = start + static_cast<std::int64_t>(ids.size());
    const bool same = end <= static_cast<std::int64_t>(want.ids.size()) &&
                      std::equal(ids.begin(), ids.end(), want.ids.begin() + start);
    if (same) fitting |= 1 << c;
  }
  if (fitting == 0) {
    world_.fail("I2 " + std::string(where) + " of " + describe_position(id, choice, start) + " (" +
                std::to_string(ids.size()) + " tokens) is not what the model says");
    return;
  }
  // An observed token binds the numerics class, also through a power failure.
  tracked.variants = fitting;
}

// ---- what leaves the daemon

void Auditor::left(core::PeerId to, const wire::Message& message, std::uint64_t term) {
  if (!is_current(term)) return old_primary_says(message, term);
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
  for (auto& [id, tracked] : tracked_) {
    for (ObservedChoice& observed : tracked.choices) observed.durable = observed.emitted;
  }
}

/// A request that can have been deleted may begin anew: then no earlier observation of it counts.
void Auditor::on_submit(const wire::Submit& m) {
  const auto it = tracked_.find(m.request_id);
  if (it == tracked_.end() || it->second.request < 0) return;
  TrackedRequest& tracked = it->second;
  if (gone_is_lawful(tracked)) begin_anew(tracked);
}

void Auditor::begin_anew(TrackedRequest& tracked) {
  tracked.accepted = tracked.first_answer = tracked.lived = tracked.dispatched = false;
  tracked.moved = true;
  tracked.fin.reset();
  tracked.variants = variants_of(requests_[static_cast<std::size_t>(tracked.request)]);
  for (ObservedChoice& observed : tracked.choices) {
    observed.emitted = observed.durable = 0;
    observed.frozen = -1;
  }
}

/// One key is one request, until that one can have been deleted.
void Auditor::check_key(const SimRequest& request, const std::string& id) {
  const auto key = std::make_pair(request.submit.tenant, request.submit.idem_key);
  std::string& holder = keys_[key];
  if (!holder.empty() && holder != id) {
    world_.hit(Fault::kKeyFreed);
    if (!gone_is_lawful(tracked_[holder])) {
      world_.fail("I8 key " + key.second + " is request " + holder + " and " + id);
    }
  }
  holder = id;
}

void Auditor::on_accepted(const wire::Accepted& m) {
  TrackedRequest* tracked = find(m.info.request_id, "ACCEPTED");
  if (tracked == nullptr) return;
  const SimRequest& request = requests_[static_cast<std::size_t>(tracked->request)];
  if (!request.submit.idem_key.empty()) check_key(request, m.info.request_id);
  if (!m.duplicate) {
    // In a pair a request may be begun while its answer waits.
    if (tracked->first_answer || (tracked->lived && !world_.swarm.pair)) {
      world_.fail("I8 " + m.info.request_id + " was accepted twice");
    }
    tracked->first_answer = true;
    tracked->accept_order = ++accepts_;
    // In a pair this answer may have waited while tokens went on.
    if (!world_.swarm.pair) all_is_durable();
  } else if (!tracked->accepted) {
    tracked->accept_order = ++accepts_;
    tracked->moved = true;  // its position in the queue is older than this answer
  }
  tracked->accepted = true;
  on_info(m.info);
}

/// Checks whatever tells of a request: an end that was told stays.
void Auditor::on_info(const wire::RequestInfo& info) {
  TrackedRequest* tracked = find(info.request_id, "an answer");
  if (tracked == nullptr) return;
  if (info.choices.size() != tracked->choices.size()) {
    world_.fail("I2 " + info.request_id + " is told with " + std::to_string(info.choices.size()) +
                " choices");
    return;
  }
  check_model(info.request_id, *tracked, info.model);
  if (tracked->fin && info.state != tracked->fin->state) {
    world_.fail("I6 " + info.request_id + " ended as " +
                std::string(wire::state_name(tracked->fin->state)) + " and is told as " +
                std::string(wire::state_name(info.state)));
  }
  if (info.state == wire::RequestState::kQuarantined) check_quarantine(info.request_id, *tracked);
  if (!wire::is_terminal(info.state)) tracked->alive_us = world_.now_us;
  if (wire::is_terminal(info.state) && !tracked->fin) {
    check_end(info.request_id, *tracked, info);
    tracked->fin = info;
  }
}

void Auditor::on_event(const wire::Event& m) {
  TrackedRequest* tracked = find(m.request_id, "EVENT");
  if (tracked == nullptr || m.choice < 0 ||
      static_cast<std::size_t>(m.choice) >= tracked->choices.size()) {
    return world_.fail("I2 EVENT of a choice that " + m.request_id + " does not have");
  }
  ObservedChoice& observed = tracked->choices[static_cast<std::size_t>(m.choice)];
  const auto end = m.start + static_cast<std::int64_t>(m.ids.size());
  check_tokens(m.request_id, *tracked, m.choice, m.start, m.ids, "EVENT");
  check_scores(*tracked, m);
  if (observed.frozen >= 0 && end > observed.frozen) {
    world_.fail("I9 " + describe_position(m.request_id, m.choice, end - 1) +
                " was sent after its cancel was answered with " + std::to_string(observed.frozen));
  }
  observed.left(end);
}

void Auditor::on_fin(const wire::RequestInfo& info) {
  on_info(info);
  TrackedRequest* tracked = find(info.request_id, "FIN");
  if (tracked == nullptr || !tracked->fin) {
    return world_.fail("I6 FIN of " + info.request_id + ", which has not ended");
  }
  for (std::size_t c = 0; c < info.choices.size(); ++c) {
    const wire::ChoiceInfo& now = info.choices[c];
    const wire::ChoiceInfo& first = tracked->fin->choices[c];
    if (now.next_index != first.next_index || now.finish != first.finish) {
      world_.fail("I6 two different FINs of " + info.request_id);
    }
  }
}

void Auditor::on_status(const wire::StatusReply& m) {
  on_info(m.info);
  TrackedRequest* tracked = find(m.info.request_id, "STATUS_REPLY");
  if (tracked == nullptr || m.info.state != wire::RequestState::kCancelled) return;
  for (std::size_t c = 0; c < m.info.choices.size() && c < tracked->choices.size(); ++c) {
    ObservedChoice& observed = tracked->choices[c];
    const std::int64_t index = m.info.choices[c].next_index;
    if (observed.frozen >= 0 && observed.frozen != index) {
      world_.fail("I9 the index of " +
                  describe_position(m.info.request_id, static_cast<std::int64_t>(c), index) +
                  " was frozen at " + std::to_string(observed.frozen));
    }
    observed.frozen = index;
  }
}

/// A new lease of a choice: its fence is always later than every one before it, of any choice.
void Auditor::on_fence(core::PeerId to, const std::string& id, std::int32_t choice,
                       core::Fence fence) {
  TrackedRequest* tracked = find(id, "a fence");
  if (tracked == nullptr) return;
  if (fence <= newest_fence_) {
    world_.fail("I4 fence " + std::to_string(fence.epoch) + "." + std::to_string(fence.counter) +
                " of " + describe_position(id, choice, 0) + " is not newer than the last one");
  }
  newest_fence_ = std::max(newest_fence_, fence);
  ObservedChoice& observed = tracked->choices.at(static_cast<std::size_t>(choice));
  observed.fence = fence;
  observed.worker = to;
  tracked->lived = true;
  tracked->alive_us = world_.now_us;
  if (tracked->fin) world_.fail("I6 " + id + " runs again after its end");
  if (observed.frozen >= 0) world_.fail("I9 " + id + " runs again after its cancel");
}

void Auditor::on_dispatch(core::PeerId to, const wire::Dispatch& m) {
  TrackedRequest* tracked = find(m.request_id, "DISPATCH");
  if (tracked == nullptr) return;
  on_fence(to, m.request_id, m.choice, m.fence);
  check_node(to, m.request_id);
  ObservedChoice& observed = tracked->choices.at(static_cast<std::size_t>(m.choice));
  const SimRequest& request = requests_[static_cast<std::size_t>(tracked->request)];
  if (m.prompt_ids != request.prompt)
    world_.fail("I2 DISPATCH of " + m.request_id + ": other prompt");
  if (m.sampling.seed != request.submit.sampling.seed) {
    world_.fail("I2 DISPATCH of " + m.request_id + ": other seed");
  }
  if (m.max_tokens != *request.submit.max_tokens) {
    world_.fail("I2 DISPATCH of " + m.request_id + ": other max_tokens");
  }
  if (static_cast<std::int64_t>(m.committed_ids.size()) < observed.durable) {
    world_.fail("I3 " + describe_position(m.request_id, m.choice, observed.durable) +
                " is computed again");
  }
  check_tokens(m.request_id, *tracked, m.choice, 0, m.committed_ids, "DISPATCH");
  if (m.model_sha.size() == std::string("sha-m0").size()) {
    check_model(m.request_id, *tracked, m.model_sha.substr(4));
  }
  if (!tracked->model_sha.empty() && tracked->model_sha != m.model_sha)
    world_.hit(Fault::kRerouted);
  tracked->model_sha = m.model_sha;
  if (paused_ && pauses_open_ == 0)
    world_.fail("I6 " + m.request_id + " started in a paused queue");
  check_shares(m.request_id, *tracked, m.choice);
  check_order(m.request_id, *tracked);
  check_killer(m.request_id, observed);
}

/// Order within a model: by priority class, and by age within a tenant.
void Auditor::check_order(const std::string& id, TrackedRequest& tracked) {
  if (tracked.dispatched) return;
  tracked.dispatched = true;
  const wire::Submit& mine = requests_[static_cast<std::size_t>(tracked.request)].submit;
  if (!tracked.overtaken_by.empty() && !tracked.moved) {
    const std::string by = *tracked.overtaken_by.begin();
    const TrackedRequest& other = tracked_[by];
    const wire::Submit& theirs = requests_[static_cast<std::size_t>(other.request)].submit;
    const auto rank = [](const TrackedRequest& k, const wire::Submit& s) {
      return " (class " + std::to_string(static_cast<int>(s.priority)) + ", tenant " + s.tenant +
             ", accepted " + std::to_string(k.accept_order) + ")";
    };
    if (!other.moved) {
      world_.fail("I14 " + by + rank(other, theirs) + " went before " + id + rank(tracked, mine));
    }
  }
  if (tracked.moved || !tracked.accepted) return;
  for (auto& [other, waits] : tracked_) {
    if (!waits.first_answer || waits.dispatched || waits.fin || waits.request < 0) continue;
    const wire::Submit& theirs = requests_[static_cast<std::size_t>(waits.request)].submit;
    if (theirs.model != mine.model) continue;
    const bool older = theirs.tenant == mine.tenant && waits.accept_order < tracked.accept_order;
    const bool before =
        theirs.priority < mine.priority || (theirs.priority == mine.priority && older);
    if (before) waits.overtaken_by.insert(id);
  }
}

void Auditor::on_ack(core::PeerId, const wire::AckItem& item) {
  TrackedRequest* tracked = find(item.request_id, "ACK");
  if (tracked == nullptr) return;
  ObservedChoice& observed = tracked->choices.at(static_cast<std::size_t>(item.choice));
  if (observed.fence != item.fence) {
    world_.fail("I5 ACK of " + describe_position(item.request_id, item.choice, item.upto) +
                " under a fence that is not the current one");
  }
  // An ACK of an ended choice says no more than that the worker may forget it.
  const bool lied =
      lies_.count({item.request_id + "/" + std::to_string(item.choice), item.fence}) > 0;
  if (lied && !tracked->fin) {
    world_.fail("I5 ACK of " + describe_position(item.request_id, item.choice, item.upto) +
                " although its worker sent two tokens for one index");
  }
  if (observed.frozen >= 0 && item.upto > observed.frozen) {
    world_.fail("I9 " + describe_position(item.request_id, item.choice, item.upto) +
                " grew after its cancel");
  }
  // An acknowledged token is gone from its worker: it must be in the database.
  observed.left(item.upto);
}

// ---- what reaches it

void Auditor::arrived(core::PeerId from, const wire::Message& message) {
  if (const auto* submit = std::get_if<wire::Submit>(&message)) return on_submit(*submit);
  if (const auto* hello = std::get_if<wire::Hello>(&message))
    worker_keys_[from] = hello->worker_key;
  const auto* tokens = std::get_if<wire::Tokens>(&message);
  if (tokens == nullptr) return;
  for (const wire::TokenEvent& event : tokens->events) {
    look_for_lie(from, event);
    look_for_end(event);
    if (const auto tracked = tracked_.find(event.request_id); tracked != tracked_.end()) {
      has_a_share(tracked->second);
    }
  }
}

/// Finds a worker that says another token than the one that it said before under the same fence:
/// from the next group on nothing of that attempt may count.
void Auditor::look_for_lie(core::PeerId from, const wire::TokenEvent& event) {
  const auto it = tracked_.find(event.request_id);
  if (it == tracked_.end() || it->second.fin) return;
  TrackedRequest& tracked = it->second;
  const ObservedChoice& observed = tracked.choices.at(static_cast<std::size_t>(event.choice));
  if (observed.fence != event.fence || observed.worker != from) return;
  const std::int64_t n =
      std::min(observed.emitted - event.start, static_cast<std::int64_t>(event.ids.size()));
  for (int c = 0; n > 0 && c < kVariants; ++c) {
    if ((tracked.variants & (1 << c)) == 0) continue;
    const Answer& want = answer(tracked.request, event.choice, c);
    if (event.start + n > static_cast<std::int64_t>(want.ids.size())) continue;
    if (std::equal(event.ids.begin(), event.ids.begin() + n, want.ids.begin() + event.start))
      return;
  }
  if (n > 0) new_lies_.insert({event.request_id + "/" + std::to_string(event.choice), event.fence});
}

bool Auditor::may_fail(const std::string& id) const {
  const auto it = tracked_.find(id);
  return it != tracked_.end() && it->second.may_fail;
}

}  // namespace holdfast::simulation
