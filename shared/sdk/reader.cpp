#include "shared/sdk/reader.h"

#include <chrono>
#include <utility>

namespace holdfast::sdk {
namespace {

constexpr std::size_t kHeldParts = 256;     // parts that wait, at which the sender is held back
constexpr std::size_t kReleasedParts = 64;  // and at which it goes on

}  // namespace

Reader::Reader(std::vector<std::int64_t> first_tokens) : first_tokens_(std::move(first_tokens)) {}

void Reader::begin(const std::function<std::function<void(bool)>()>& open) {
  const std::lock_guard lock(mutex_);
  hold_ = open();
}

void Reader::on_attached(const wire::RequestInfo& info) {
  const std::lock_guard lock(mutex_);
  stops_ = info.stops;
}

void Reader::on_event(const wire::Event& event) {
  const auto choice = static_cast<std::size_t>(event.choice);
  const std::lock_guard lock(mutex_);
  add_choice(choice);
  Part part;
  part.choice = event.choice;
  part.index = -1;
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < event.ids.size(); ++i) {
    // Text is always made from the first token on, as only whole characters are given.
    std::string text =
        releasers_[choice].feed(std::string_view(event.bytes).substr(begin, event.ends[i] - begin));
    begin = event.ends[i];
    const std::int64_t index = event.start + static_cast<std::int64_t>(i);
    if (index < first_tokens_[choice]) continue;
    if (part.index < 0) part.index = index;
    part.ids.push_back(event.ids[i]);
    part.text += text;
  }
  if (!part.ids.empty()) push(std::move(part));
}

void Reader::on_fin(const wire::RequestInfo& info) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(over_, true)) return;
  for (const wire::ChoiceInfo& choice : info.choices) {
    const auto at = static_cast<std::size_t>(choice.choice);
    add_choice(at);
    if (first_tokens_[at] == HOLDFAST_DONE) continue;
    Part part;
    part.choice = choice.choice;
    part.index = choice.next_index;
    part.finish = wire::finish_name(choice.finish);
    if (!releasers_[at].stopped()) part.text = releasers_[at].finish();
    parts_.push_back(std::move(part));
  }
  changed_.notify_all();
}

void Reader::on_failure(const client::Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(over_, true)) return;
  failure_ = std::make_unique<client::Failure>(failure);
  changed_.notify_all();
}

int Reader::next(int timeout_ms, holdfast_part* part, client::Failure* failure) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return !parts_.empty() || over_; };
  if (timeout_ms < 0) {
    changed_.wait(lock, ready);
  } else if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready)) {
    return HOLDFAST_TIMEOUT;
  }
  if (!parts_.empty()) {
    take();
    show(part);
    return HOLDFAST_PART;
  }
  if (failure_ == nullptr) return HOLDFAST_END;
  *failure = *failure_;
  return HOLDFAST_FAILED;
}

void Reader::add_choice(std::size_t choice) {
  if (releasers_.size() <= choice) releasers_.resize(choice + 1, text::Releaser(stops_));
  if (first_tokens_.size() <= choice) first_tokens_.resize(choice + 1, 0);
}

void Reader::push(Part part) {
  parts_.push_back(std::move(part));
  changed_.notify_all();
  if (parts_.size() >= kHeldParts && !std::exchange(held_, true)) hold_(true);
}

/// Makes the first part that waits the current one.
void Reader::take() {
  current_ = std::move(parts_.front());
  parts_.pop_front();
  if (parts_.size() <= kReleasedParts && std::exchange(held_, false)) hold_(false);
}

/// Points `part` at the current one.
void Reader::show(holdfast_part* part) const {
  *part = {};
  part->choice = current_.choice;
  part->index = current_.index;
  part->ids = current_.ids.data();
  part->id_count = static_cast<std::int32_t>(current_.ids.size());
  part->text = current_.text.data();
  part->text_size = current_.text.size();
  part->finish = current_.finish.empty() ? nullptr : current_.finish.c_str();
}

}  // namespace holdfast::sdk
