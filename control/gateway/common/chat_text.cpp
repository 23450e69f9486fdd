#include "control/gateway/common/chat_text.h"

#include <algorithm>
#include <iterator>

#include "shared/wire/cached_tokens.h"

namespace holdfast::gateway {
namespace {

void append(ChatDelta& to, ChatDelta&& from) {
  to.out.content += from.out.content;
  to.out.reasoning += from.out.reasoning;
  for (chat::CallDelta& call : from.out.calls) {
    const bool goes_on =
        !to.out.calls.empty() && to.out.calls.back().index == call.index && call.name.empty();
    if (goes_on) {
      to.out.calls.back().arguments += call.arguments;
    } else {
      to.out.calls.push_back(std::move(call));
    }
  }
  std::move(from.logs.begin(), from.logs.end(), std::back_inserter(to.logs));
  from = {};
}

}  // namespace

// With a parser the text is taken from its start, whatever the client has seen: all of it forms the
// parser's state.
ChatText::ChatText(std::vector<std::string> stops, std::int64_t resume_from, bool with_logprobs,
                   const std::optional<chat::OutputOptions>& parse)
    : text_(std::move(stops), parse ? 0 : resume_from, with_logprobs),
      resume_from_(resume_from),
      sent_(resume_from) {
  if (!parse) return;
  parser_.emplace(*parse);
  const auto marks = chat::thinking_marks({parse->format, parse->reasoning});
  if (marks) meter_.emplace(*marks, parse->starts_in_reasoning);
}

/// Parses token i of an event by itself, control tokens by their names.
ChatDelta ChatText::parse_token(const wire::Event& event, std::size_t i) {
  const bool is_new = text_.considered() >= resume_from_;
  const std::size_t size = event.bytes.size();
  const std::size_t end = i < event.ends.size() ? std::min<std::size_t>(event.ends[i], size) : size;
  const std::size_t begin = i == 0 ? 0 : std::min<std::size_t>(event.ends[i - 1], end);
  wire::Event one;
  one.choice = event.choice;
  one.start = event.start + static_cast<std::int64_t>(i);
  one.ids = {event.ids[i]};
  one.bytes = i < event.special.size() && !event.special[i].empty()
                  ? event.special[i]
                  : event.bytes.substr(begin, end - begin);
  one.ends = {static_cast<std::uint32_t>(one.bytes.size())};
  if (i < event.extra.size()) one.extra = {event.extra[i]};
  if (meter_) meter_->feed(one.bytes);
  Delta delta = text_.feed(one, false);
  ChatDelta out;
  out.out = parser_->feed(delta.text);
  out.logs = std::move(delta.logs);
  return is_new ? std::move(out) : ChatDelta();
}

ChatDelta ChatText::feed(const wire::Event& event, bool hold_last) {
  ChatDelta out;
  if (event.start == 0 && !event.extra.empty()) cached_ = wire::cached_tokens_of(event.extra[0]);
  if (!parser_) {
    Delta delta = text_.feed(event, hold_last);
    out.out.content = std::move(delta.text);
    out.logs = std::move(delta.logs);
    return out;
  }
  for (std::size_t i = 0; i < event.ids.size(); ++i) {
    if (event.start + static_cast<std::int64_t>(i) < text_.considered()) continue;
    append(out, std::move(waiting_));
    waiting_ = parse_token(event, i);
  }
  if (hold_last && (text_.holds() || parser_->pending())) {
    sent_ = std::max(sent_, text_.considered() - 1);
  } else {
    append(out, std::move(waiting_));
    sent_ = std::max(sent_, text_.considered());
  }
  return out;
}

ChatDelta ChatText::finish() {
  ChatDelta out;
  Delta rest = text_.finish();
  if (!parser_) {
    out.out.content = std::move(rest.text);
    out.logs = std::move(rest.logs);
    return out;
  }
  append(out, std::move(waiting_));
  ChatDelta last;
  last.out = parser_->feed(rest.text);
  append(out, std::move(last));
  last.out = parser_->finish();
  append(out, std::move(last));
  sent_ = std::max(sent_, text_.considered());
  // A client that has seen every token has seen all of this with the last of them.
  const bool has_it = resume_from_ >= text_.considered() && text_.considered() > 0;
  return has_it ? ChatDelta() : std::move(out);
}

}  // namespace holdfast::gateway
