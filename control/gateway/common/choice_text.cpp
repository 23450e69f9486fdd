#include "control/gateway/common/choice_text.h"

#include <algorithm>

namespace holdfast::gateway {
namespace {

void append(Delta& to, Delta&& from) {
  if (to.text.empty()) {
    to.text = std::move(from.text);
  } else {
    to.text += from.text;
  }
  for (TokenLog& log : from.logs) to.logs.push_back(std::move(log));
  from = {};
}

}  // namespace

std::int64_t count_characters(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string clean_utf8(std::string_view bytes) {
  text::Releaser releaser;
  std::string out = releaser.feed(bytes);
  out += releaser.finish();
  return out;
}

wire::Event one_token(const wire::Event& event, std::size_t i) {
  wire::Event one;
  one.request_id = event.request_id;
  one.choice = event.choice;
  one.start = event.start + static_cast<std::int64_t>(i);
  one.ids = {event.ids[i]};
  const std::uint32_t begin = i == 0 ? 0 : event.ends[i - 1];
  one.bytes = event.bytes.substr(begin, event.ends[i] - begin);
  one.ends = {static_cast<std::uint32_t>(one.bytes.size())};
  if (i < event.extra.size()) one.extra = {event.extra[i]};
  if (i < event.special.size()) one.special = {event.special[i]};
  return one;
}

ChoiceText::ChoiceText(std::vector<std::string> stops, std::int64_t resume_from, bool with_logprobs)
    : releaser_(std::move(stops)),
      resume_from_(resume_from),
      with_logprobs_(with_logprobs),
      sent_(resume_from) {}

bool ChoiceText::holds() const {
  if (releaser_.stopped()) return false;
  text::Releaser copy = releaser_;
  return !copy.finish().empty();
}

void ChoiceText::take(wire::TokenId id, std::string_view bytes, const std::string* extra,
                      Delta* out) {
  std::string text = releaser_.feed(bytes);
  const bool is_new = considered_ >= resume_from_;
  ++considered_;
  if (is_new) out->text += text;
  if (!with_logprobs_ || id == wire::kScoresToken) return;
  if (is_new) out->logs.push_back({std::string(bytes), characters_, extra ? *extra : ""});
  characters_ += count_characters(bytes);
}

Delta ChoiceText::feed(const wire::Event& event, bool hold_last) {
  Delta out;
  for (std::size_t i = 0; i < event.ids.size(); ++i) {
    if (event.start + static_cast<std::int64_t>(i) < considered_) continue;
    append(out, std::move(waiting_));
    const std::size_t size = event.bytes.size();
    const std::size_t end =
        i < event.ends.size() ? std::min<std::size_t>(event.ends[i], size) : size;
    const std::size_t begin =
        i == 0 ? 0
               : std::min<std::size_t>(i - 1 < event.ends.size() ? event.ends[i - 1] : size, end);
    take(event.ids[i], std::string_view(event.bytes).substr(begin, end - begin),
         i < event.extra.size() ? &event.extra[i] : nullptr, &waiting_);
  }
  if (hold_last && holds()) {
    sent_ = std::max(sent_, considered_ - 1);
  } else {
    append(out, std::move(waiting_));
    sent_ = std::max(sent_, considered_);
  }
  return out;
}

Delta ChoiceText::finish() {
  Delta out;
  append(out, std::move(waiting_));
  std::string rest = releaser_.stopped() ? std::string() : releaser_.finish();
  // A client that has seen all tokens has seen the rest with the last of them, unless there was no
  // token at all.
  if (resume_from_ < considered_ || considered_ == 0) out.text += rest;
  sent_ = std::max(sent_, considered_);
  return out;
}

}  // namespace holdfast::gateway
