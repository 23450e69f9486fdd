#include "shared/chat/thinking.h"

#include <algorithm>
#include <utility>

namespace holdfast::chat {
namespace {

/// Returns how many bytes at the end of a text may be the beginning of a mark.
std::size_t begun(std::string_view text, std::string_view mark) {
  for (std::size_t k = std::min(mark.size() - 1, text.size()); k > 0; --k) {
    if (text.substr(text.size() - k) == mark.substr(0, k)) return k;
  }
  return 0;
}

}  // namespace

std::optional<ThinkingMarks> thinking_marks(const OutputKind& kind) {
  if (kind.format == ToolFormat::kHarmony) {
    return ThinkingMarks{"<|channel|>analysis<|message|>", "<|end|>",
                         "<|end|><|start|>assistant<|channel|>final<|message|>", true};
  }
  if (kind.format == ToolFormat::kGemma) {
    return ThinkingMarks{"<|channel>thought\n", "<channel|>", "<channel|>", true};
  }
  if (!kind.reasoning) return std::nullopt;
  return ThinkingMarks{"<think>", "</think>", "</think>", false};
}

ThinkingMeter::ThinkingMeter(ThinkingMarks marks, bool open)
    : marks_(std::move(marks)),
      at_(open              ? At::kInside
          : marks_.anywhere ? At::kOutside
                            : At::kStart) {}

void ThinkingMeter::feed(std::string_view text) {
  if (at_ == At::kOver) return;
  tail_ += text;
  if (at_ == At::kInside) ends_.push_back(tail_.size());
  while (step()) {
  }
}

/// Returns true if a mark was found: the text after it in the same token is scanned next.
bool ThinkingMeter::step() {
  switch (at_) {
    case At::kStart:
      return find_at_start();
    case At::kOutside:
      return find_begin();
    case At::kInside:
      return find_close();
    case At::kOver:
      tail_.clear();
  }
  return false;
}

bool ThinkingMeter::find_at_start() {
  const std::string& mark = marks_.begin;
  tail_.erase(0, std::min(tail_.find_first_not_of(" \n\t\r"), tail_.size()));
  if (tail_.size() < mark.size() && mark.starts_with(tail_)) return false;
  const bool begins = tail_.starts_with(mark);
  if (begins) tail_.erase(0, mark.size());
  at_ = begins ? At::kInside : At::kOver;
  return true;
}

bool ThinkingMeter::find_begin() {
  const std::size_t at = tail_.find(marks_.begin);
  if (at == std::string::npos) {
    tail_.erase(0, tail_.size() - begun(tail_, marks_.begin));
    return false;
  }
  tail_.erase(0, at + marks_.begin.size());
  at_ = At::kInside;
  return true;
}

bool ThinkingMeter::find_close() {
  const std::size_t at = tail_.find(marks_.close);
  const bool found = at != std::string::npos;
  const std::size_t resolved = found ? at : tail_.size() - begun(tail_, marks_.close);
  while (!ends_.empty() && ends_.front() <= resolved) {
    ends_.pop_front();
    ++counted_;
  }
  tail_.erase(0, found ? at + marks_.close.size() : resolved);
  if (!found) {
    for (std::size_t& end : ends_) end -= resolved;
    return false;
  }
  ends_.clear();
  at_ = marks_.anywhere ? At::kOutside : At::kOver;
  return true;
}

}  // namespace holdfast::chat
