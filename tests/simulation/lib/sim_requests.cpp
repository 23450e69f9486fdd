#include "tests/simulation/lib/sim_requests.h"

namespace holdfast::simulation {
namespace {

void draw_body(SimRequest& w, SimRandom& r, const Swarm& s) {
  wire::Submit& m = w.submit;
  m.model = r.below(4) == 0 ? "m1" : "m0";
  if (s.aliases && r.below(3) != 0) m.model = kAlias;
  m.n = r.below(5) == 0 ? static_cast<std::int32_t>(r.between(2, 3)) : 1;
  m.max_tokens = r.below(8) == 0 ? r.between(20, 60) : r.between(1, 12);
  if (r.bernoulli(s.zero_tokens)) m.max_tokens = 0;
  m.sampling.seed = r.next();
  m.seed_given = true;
  if (m.sampling.seed % 4 == 0) m.sampling.prompt_logprobs = 0;
  m.priority = static_cast<wire::PriorityClass>(r.below(3));
  m.body_hash = std::to_string(r.next());
  wire::Prompt prompt;
  if (r.bernoulli(s.text_prompt)) {
    prompt.text = "text-" + std::to_string(r.below(1000));
    w.prompt = ids_of_text(*prompt.text);
  } else {
    const std::int64_t length = r.below(6) == 0 ? r.between(20, 63) : r.between(1, 10);
    for (std::int64_t i = 0; i < length; ++i) {
      w.prompt.push_back(static_cast<wire::TokenId>(1000 + r.below(1000)));
    }
    if (r.bernoulli(s.poison)) {
      w.poison_at = r.below(2) == 0 ? 0 : static_cast<int>(r.between(1, kPoisonKinds - 1));
      w.prompt[0] = kPoison + w.poison_at;
      m.max_tokens = std::max(*m.max_tokens, std::int64_t{kPoisonKinds});
    }
    prompt.ids = w.prompt;
  }
  // A request that cannot fit the smallest pool of this seed would be refused.
  const std::int64_t tokens_max = std::min<std::int64_t>(256, s.slots * s.prompt_pages * 64);
  m.max_tokens =
      std::min(*m.max_tokens, tokens_max - static_cast<std::int64_t>(w.prompt.size()) - 1);
  m.prompts = {prompt};
}

void draw_behaviour(SimRequest& w, SimRandom& r, const Swarm& s) {
  wire::Submit& m = w.submit;
  if (r.bernoulli(s.deadline)) {
    if (r.below(2) == 0) m.total_timeout_ms = r.between(10, 8000);
    if (r.below(2) == 0) m.queue_timeout_ms = r.between(10, 4000);
  }
  if (w.poison_at >= 0 && r.below(2) == 0) m.total_timeout_ms = r.between(2000, 9000);
  if (r.below(6) == 0) m.on_disconnect = wire::OnDisconnect::kCancel;
  if (r.bernoulli(s.cancel)) w.cancel_us = r.between(0, 1500) * kMs;
  w.replay = r.bernoulli(s.replay);
  w.slow = r.bernoulli(s.slow_client);
  w.repeat = r.bernoulli(s.repeat_submit);
  w.foreign = r.bernoulli(s.foreign);
  if (r.bernoulli(s.ask_again)) w.again_us = r.between(100, 4000) * kMs;
}

/// Many more choices than slots, of a tenant that has nothing else.
void make_crowd(SimRequest& w, SimRandom& r, const Swarm& s) {
  wire::Submit& m = w.submit;
  m.tenant = kCrowd;
  m.model = "m0";
  m.priority = wire::PriorityClass::kNormal;
  m.n = static_cast<std::int32_t>(40 + 3 * s.slots * s.workers);
  m.max_tokens = r.between(8, 12);
  m.sampling.prompt_logprobs = -1;
  w.prompt.resize(std::min<std::size_t>(w.prompt.size(), 8));
  if (m.prompts[0].text) {
    w.prompt = ids_of_text(*m.prompts[0].text);
  } else {
    m.prompts[0].ids = w.prompt;
  }
  w.cancel_us = -1;
}

}  // namespace

std::vector<SimRequest> draw_requests(World& world) {
  SimRandom& r = world.random;
  const Swarm& s = world.swarm;
  std::vector<SimRequest> requests;
  for (int i = 0; i < s.requests; ++i) {
    SimRequest w;
    draw_body(w, r, s);
    draw_behaviour(w, r, s);
    w.submit.request_id = "r" + std::to_string(i);
    w.submit.tenant = "t" + std::to_string(r.below(3));
    if (r.below(3) == 0) w.submit.idem_key = "k" + std::to_string(i);
    w.at_us = world.now_us + r.between(0, s.submit_over_us);
    const bool same = r.bernoulli(s.same_key);
    const bool other = r.bernoulli(s.other_body);
    if (i > 0 && (same || other)) {
      const auto of = r.below(requests.size());
      const SimRequest& first = requests[of];
      if (!first.submit.idem_key.empty() && first.same_key_as < 0) {
        const std::string id = w.submit.request_id;
        const std::string hash = w.submit.body_hash;
        w.same_key_as = static_cast<int>(of);
        if (other) {
          w.submit.tenant = first.submit.tenant;
          w.submit.idem_key = first.submit.idem_key;
          w.other_body = true;
          world.hit(Fault::kOtherBody);
        } else {
          const std::int64_t at_us = w.at_us;
          w.submit = first.submit;
          w.prompt = first.prompt;
          w.poison_at = first.poison_at;
          w.submit.request_id = id;
          w.at_us = at_us;
          world.hit(Fault::kSameKey);
        }
      }
    }
    if (s.crowd && i == 0) make_crowd(w, r, s);
    requests.push_back(std::move(w));
  }
  return requests;
}

}  // namespace holdfast::simulation
