#include "worker/link/work_table.h"

#include <algorithm>

#include "shared/base/step_journal.h"
#include "shared/wire/vector_text.h"

namespace holdfast::worker {
namespace {

/// Bytes from which on a message takes no more events: scores of prompts can be long.
constexpr std::size_t kExtraBytesMax = 8 << 20;

/// True if trying again elsewhere or later can help. Every other error would come back for ever: it
/// ends the choice.
bool is_passing(Errc code) {
  return code == Errc::kRateLimited || code == Errc::kConflict || code == Errc::kNotFound;
}

}  // namespace

void WorkTable::dispatch(const wire::Dispatch& dispatch, std::int64_t now_us) {
  const auto it = items_.find({dispatch.request_id, dispatch.choice});
  if (it != items_.end()) {
    if (dispatch.fence <= it->second.fence && it->second.adopted) return;  // running already
    if (dispatch.fence < it->second.fence) return;
    const auto committed = static_cast<std::int64_t>(dispatch.committed_ids.size());
    const bool usable = it->second.finished() || it->second.load_id == dispatch.load_id;
    if (usable && restamp(it->second, dispatch.fence, committed)) return;
    forget(it);  // the ring does not meet what is committed: begin again from there
  }
  start(dispatch, now_us);
}

void WorkTable::start(const wire::Dispatch& dispatch, std::int64_t now_us) {
  Item item;
  item.load_id = dispatch.load_id;
  item.key = ++last_key_;
  item.fence = dispatch.fence;
  item.adopted = true;
  item.base = item.sent_upto = static_cast<std::int64_t>(dispatch.committed_ids.size());
  if (dispatch.time_left_ms >= 0) item.deadline_us = now_us + dispatch.time_left_ms * 1000;
  Order order;
  order.kind = Order::Kind::kAdd;
  order.load_id = dispatch.load_id;
  order.key = order.spec.key = item.key;
  order.mark = step_mark(dispatch.request_id, dispatch.choice);
  order.spec.prompt = dispatch.prompt_ids;
  order.spec.committed = dispatch.committed_ids;
  order.spec.sampling = dispatch.sampling;
  order.spec.choice = dispatch.choice;
  order.spec.stops = dispatch.stops;
  order.spec.max_tokens = dispatch.max_tokens;
  order.spec.priority = dispatch.priority;
  order.spec.prefix_root = dispatch.prefix_root;
  orders_.push_back(std::move(order));
  const Name name{dispatch.request_id, dispatch.choice};
  names_[item.key] = name;
  items_[name] = std::move(item);
}

/// Gives the item a new fence and sends again from `committed`. False if the ring does not reach
/// `committed`, from either side.
bool WorkTable::restamp(Item& item, const wire::Fence& fence, std::int64_t committed) {
  if (committed < item.base || committed > item.next()) return false;
  item.fence = fence;
  item.adopted = true;
  trim(item, committed);
  item.sent_upto = committed;
  item.finish_sent = false;
  return true;
}

void WorkTable::adopt(const wire::Adopt& adopt) {
  const auto it = items_.find({adopt.request_id, adopt.choice});
  if (it == items_.end()) {
    // The daemon believes that this worker has it: without an answer it would wait for ever.
    returned_.push_back({adopt.request_id, adopt.choice, adopt.fence, "not held by this worker"});
    return;
  }
  if (adopt.fence < it->second.fence) return;
  if (restamp(it->second, adopt.fence, adopt.ack_upto)) return;
  it->second.fence = adopt.fence;
  give_back(it->first, it->second,
            "ring holds tokens " + std::to_string(it->second.base) + " to " +
                std::to_string(it->second.next()) + ", committed are " +
                std::to_string(adopt.ack_upto));
  forget(it);
}

void WorkTable::ack(const wire::AckItem& ack) {
  const auto it = items_.find({ack.request_id, ack.choice});
  if (it == items_.end() || it->second.fence != ack.fence) return;
  if (ack.finished) return forget(it);
  trim(it->second, std::min(ack.upto, it->second.next()));
}

void WorkTable::trim(Item& item, std::int64_t upto) {
  const std::int64_t n = upto - item.base;
  if (n > 0) {
    item.ids.erase(item.ids.begin(), item.ids.begin() + n);
    if (!item.extra.empty()) item.extra.erase(item.extra.begin(), item.extra.begin() + n);
    item.base = upto;
  }
  if (item.paused && !item.finished() && item.ids.size() <= ring_tokens_ / 2) {
    item.paused = false;
    orders_.push_back({Order::Kind::kResume, item.load_id, item.key, {}});
  }
}

void WorkTable::cancel(const wire::CancelWork& cancel) {
  const auto it = items_.find({cancel.request_id, cancel.choice});
  if (it != items_.end() && cancel.fence >= it->second.fence) forget(it);
}

void WorkTable::drop(const wire::Drop& drop) {
  const auto it = items_.find({drop.request_id, drop.choice});
  if (it != items_.end()) forget(it);
}

void WorkTable::connection_lost() {
  returned_.clear();
  for (auto& [name, item] : items_) item.adopted = false;
}

void WorkTable::produced(const engine::Produced& produced) {
  const auto name = names_.find(produced.key);
  if (name == names_.end()) return;
  Item& item = items_.at(name->second);
  CHECK_MSG(produced.start == item.next(), "an engine left out or repeated a token");
  CHECK(produced.extra.empty() || produced.extra.size() == produced.ids.size());
  add_tokens(item, produced);
  item.finish = produced.finish;
  item.error = produced.error;
  if (produced.cached_tokens) item.cached_tokens = produced.cached_tokens;
  if (item.finished()) {
    names_.erase(name);
  } else if (!item.paused && item.ids.size() >= ring_tokens_) {
    item.paused = true;
    orders_.push_back({Order::Kind::kPause, item.load_id, item.key, {}});
  }
}

void WorkTable::add_tokens(Item& item, const engine::Produced& produced) {
  if (!produced.embedding.empty()) {
    item.ids.push_back(wire::kVectorToken);
    item.extra.push_back(wire::vector_text(produced.embedding));
  }
  if (item.extra.empty() && !produced.extra.empty()) item.extra.resize(item.ids.size());
  item.ids.insert(item.ids.end(), produced.ids.begin(), produced.ids.end());
  item.extra.insert(item.extra.end(), produced.extra.begin(), produced.extra.end());
  if (!item.extra.empty()) item.extra.resize(item.ids.size());
}

void WorkTable::add_failed(engine::SequenceKey key, const Error& error) {
  const auto name = names_.find(key);
  if (name == names_.end()) return;
  const auto it = items_.find(name->second);
  if (is_passing(error.code)) {
    give_back(it->first, it->second, std::string(errc_name(error.code)) + ": " + error.what);
    names_.erase(name);
    items_.erase(it);
    return;
  }
  it->second.finish = wire::FinishReason::kError;
  it->second.error = error;
  names_.erase(name);
}

void WorkTable::expire(std::int64_t now_us) {
  for (auto& [name, item] : items_) {
    if (item.deadline_us < 0 || item.deadline_us > now_us || item.finished()) continue;
    end_in_engine(item);
    item.finish = wire::FinishReason::kExpired;
  }
}

void WorkTable::return_unfinished(const std::string& load_id, const std::string& reason) {
  for (auto it = items_.begin(); it != items_.end();) {
    const auto here = it++;
    if (here->second.finished()) continue;
    if (!load_id.empty() && here->second.load_id != load_id) continue;
    give_back(here->first, here->second, reason);
    forget(here);
  }
}

void WorkTable::refuse(const wire::Dispatch& dispatch, const std::string& reason) {
  returned_.push_back({dispatch.request_id, dispatch.choice, dispatch.fence, reason});
}

void WorkTable::give_back(const Name& name, const Item& item, const std::string& reason) {
  returned_.push_back({name.first, name.second, item.fence, reason});
}

void WorkTable::end_in_engine(Item& item) {
  if (names_.erase(item.key) == 0) return;
  orders_.push_back({Order::Kind::kCancel, item.load_id, item.key, {}});
}

void WorkTable::forget(std::map<Name, Item>::iterator it) {
  end_in_engine(it->second);
  items_.erase(it);
}

/// Up to `most` of the tokens that were not sent, and the end if they are the last.
wire::TokenEvent WorkTable::event_of(const Name& name, const Item& item, std::int64_t most) {
  wire::TokenEvent event;
  event.request_id = name.first;
  event.choice = name.second;
  event.fence = item.fence;
  event.start = item.sent_upto;
  event.cached_tokens = item.cached_tokens;
  const std::int64_t skip = item.sent_upto - item.base;
  const std::int64_t n = std::min(item.next() - item.sent_upto, most);
  const auto first = item.ids.begin() + skip;
  event.ids.assign(first, first + n);
  if (!item.extra.empty()) {
    const auto extra = item.extra.begin() + skip;
    event.extra.assign(extra, extra + n);
  }
  if (item.sent_upto + n == item.next() && item.finished()) {
    event.finish = item.finish;
    if (item.finish == wire::FinishReason::kError) {
      event.error_code = errc_name(item.error.code);
      event.error = item.error.what;
    }
  }
  return event;
}

wire::Tokens WorkTable::unsent(std::size_t tokens_max) const {
  wire::Tokens out;
  std::size_t tokens = 0;
  std::size_t extra_bytes = 0;
  for (const auto& [name, item] : items_) {
    if (!item.adopted || tokens >= tokens_max || extra_bytes >= kExtraBytesMax) continue;
    if (item.sent_upto == item.next() && (!item.finished() || item.finish_sent)) continue;
    wire::TokenEvent event = event_of(name, item, static_cast<std::int64_t>(tokens_max - tokens));
    for (const std::string& text : event.extra) extra_bytes += text.size();
    tokens += event.ids.size();
    out.events.push_back(std::move(event));
  }
  return out;
}

void WorkTable::mark_sent(const wire::Tokens& tokens) {
  for (const wire::TokenEvent& event : tokens.events) {
    const auto it = items_.find({event.request_id, event.choice});
    if (it == items_.end()) continue;
    it->second.sent_upto = event.start + static_cast<std::int64_t>(event.ids.size());
    it->second.cached_tokens.reset();
    it->second.finish_sent = event.finish != wire::FinishReason::kNone;
  }
}

std::vector<wire::ActiveItem> WorkTable::active() const {
  std::vector<wire::ActiveItem> out;
  for (const auto& [name, item] : items_) {
    out.push_back({name.first, name.second, item.fence, item.base, item.next(), item.finished()});
  }
  return out;
}

bool WorkTable::is_generating() const {
  return std::any_of(items_.begin(), items_.end(), [](const auto& entry) {
    return !entry.second.finished() && !entry.second.paused;
  });
}

}  // namespace holdfast::worker
