#include "control/daemon/model_relay.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace holdfast::daemon {
namespace {

using nlohmann::json;

constexpr std::size_t kOffersMax = 8;  // of a node

std::string document_of(const RelayJob& job) {
  json document = {{"job", job.id}, {"sha", job.sha}, {"kind", "list"}};
  if (job.kind == RelayJob::Kind::kRange) {
    document["kind"] = "range";
    document["file"] = job.file;
    document["offset"] = job.offset;
    document["bytes"] = job.bytes;
  }
  return document.dump();
}

}  // namespace

void ModelRelay::offer(core::PeerId peer, std::uint64_t tag, const std::string& node,
                       std::int64_t now_us) {
  const auto count = std::count_if(offers_.begin(), offers_.end(),
                                   [&](const Offer& offer) { return offer.node == node; });
  const bool waits = count < static_cast<std::ptrdiff_t>(kOffersMax);
  offers_.push_back({peer, tag, node, waits ? now_us + kOfferUs : now_us});
}

std::optional<RelayJob> ModelRelay::take(std::uint64_t id, const std::string& node) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.node != node) return std::nullopt;
  RelayJob job = std::move(found->second);
  jobs_.erase(found);
  return job;
}

RelayJob* ModelRelay::next_for(const std::string& node) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    return entry.second.node == node && entry.second.given_to == 0;
  });
  return found == jobs_.end() ? nullptr : &found->second;
}

std::vector<OfferAnswer> ModelRelay::match(std::int64_t now_us) {
  std::vector<OfferAnswer> answers;
  std::deque<Offer> waiting;
  for (Offer& offer : offers_) {
    RelayJob* job = next_for(offer.node);
    if (job != nullptr) {
      job->given_to = offer.peer;
      answers.push_back({offer.peer, offer.tag, document_of(*job)});
    } else if (offer.until_us <= now_us) {
      answers.push_back({offer.peer, offer.tag, "{}"});
    } else {
      waiting.push_back(std::move(offer));
    }
  }
  offers_ = std::move(waiting);
  return answers;
}

std::vector<RelayJob> ModelRelay::take_late(std::int64_t now_us) {
  std::vector<RelayJob> late;
  std::erase_if(jobs_, [&](auto& entry) {
    if (entry.second.deadline_us > now_us) return false;
    late.push_back(std::move(entry.second));
    return true;
  });
  return late;
}

std::vector<RelayJob> ModelRelay::peer_gone(core::PeerId peer) {
  std::erase_if(offers_, [&](const Offer& offer) { return offer.peer == peer; });
  std::vector<RelayJob> had;
  std::erase_if(jobs_, [&](auto& entry) {
    if (entry.second.given_to != peer) return false;
    had.push_back(std::move(entry.second));
    return true;
  });
  return had;
}

}  // namespace holdfast::daemon
