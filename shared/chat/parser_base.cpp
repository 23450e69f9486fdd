#include "shared/chat/parser_base.h"

#include <algorithm>

namespace holdfast::chat {

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \n\t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \n\t\r") + 1 - first));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out;
}

Family::Found Family::find(std::initializer_list<std::string_view> marks) const {
  Found best;
  int which = 0;
  for (const std::string_view mark : marks) {
    const std::size_t at = buffer.find(mark);
    if (at < best.at) best = {at, which};
    ++which;
  }
  return best;
}

std::size_t Family::held(std::initializer_list<std::string_view> marks) const {
  if (last) return 0;
  std::size_t most = 0;
  for (const std::string_view mark : marks) {
    for (std::size_t n = std::min(mark.size() - 1, buffer.size()); n > most; --n) {
      if (buffer.compare(buffer.size() - n, n, mark.substr(0, n)) == 0) most = n;
    }
  }
  return most;
}

std::string Family::take(std::size_t bytes) {
  std::string text = buffer.substr(0, bytes);
  buffer.erase(0, bytes);
  return text;
}

void Family::skip_space() {
  std::size_t n = 0;
  while (n < buffer.size() &&
         (buffer[n] == ' ' || buffer[n] == '\n' || buffer[n] == '\t' || buffer[n] == '\r')) {
    ++n;
  }
  buffer.erase(0, n);
}

void Family::say(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \n\t\r");
  if (end == std::string_view::npos) {
    space_ += text;
    return;
  }
  out.content += space_;
  out.content += text.substr(0, end + 1);
  space_ = text.substr(end + 1);
}

void Family::end_text() {
  out.content += space_;
  space_.clear();
}

void Family::begin_call(const std::string& name) {
  space_.clear();
  out.calls.push_back({calls++, name, {}});
}

void Family::arguments(std::string_view text) {
  if (text.empty()) return;
  if (out.calls.empty() || out.calls.back().index != calls - 1) {
    out.calls.push_back({calls - 1, {}, {}});
  }
  out.calls.back().arguments += text;
}

void Family::start_scan(std::string before) {
  scanner_ = CallScanner();
  announced_ = false;
  raw_ = std::move(before);
}

int Family::reach_any(std::initializer_list<std::string_view> marks) {
  const Found found = find(marks);
  say(take(found.which < 0 ? buffer.size() - held(marks) : found.at));
  if (found.which >= 0) take(std::data(marks)[found.which].size());
  return found.which;
}

std::optional<bool> Family::read_call() {
  using Status = CallScanner::Status;
  Status status = Status::kIncomplete;
  std::size_t n = 0;
  while (n < buffer.size() && status == Status::kIncomplete) status = scanner_.feed(buffer[n++]);
  raw_ += take(n);
  if (status != Status::kBroken) announce_call();
  if (status == Status::kIncomplete && !last) return std::nullopt;
  if (status != Status::kDone && !announced_) say(raw_);
  raw_.clear();
  return status == Status::kDone;
}

void Family::announce_call() {
  if (!announced_ && !scanner_.name().empty()) {
    announced_ = true;
    begin_call(scanner_.name());
  }
  if (announced_) arguments(scanner_.take_arguments());
}

bool Family::scan_value() {
  std::size_t n = 0;
  bool ended = false;
  while (n < buffer.size() && !ended) ended = value_.feed(buffer[n++]);
  if (ended && value_.ended_before()) --n;
  arguments(take(n));
  return ended;
}

}  // namespace holdfast::chat
