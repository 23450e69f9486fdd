#include "shared/text/releaser.h"

#include <algorithm>
#include <utility>

#include "shared/text/utf8.h"

namespace holdfast::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The bytes at the start of `tail`.
struct Part {
  std::uint32_t bytes = 0;  // 0: could still become a whole sequence
  bool valid = false;
};

// Returns the first part. A sequence that can no longer become valid ends before the byte that
// invalidates it (Unicode 3.9, "maximal subpart"), so that byte starts anew.
Part first_part(std::string_view tail) {
  const std::uint32_t whole = utf8_length_at(tail);
  if (whole != 0) return {whole, true};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(tail[i]); };
  const Utf8Lead lead = utf8_lead(byte(0));
  if (lead.length == 0) return {1, false};
  if (tail.size() == 1) return {0, false};
  if (byte(1) < lead.low || byte(1) > lead.high) return {1, false};
  for (std::uint32_t i = 2; i < lead.length; ++i) {
    if (i == tail.size()) return {0, false};
    if ((byte(i) & 0xC0) != 0x80) return {i, false};
  }
  return {lead.length, true};
}

}  // namespace

Releaser::Releaser(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (std::size_t k = 0; k < stops_.size(); ++k) {
    const std::string& stop = stops_[k];
    // Neither an empty stop nor one that is not UTF-8 can appear in released text.
    if (stop.empty() || first_invalid_utf8(stop)) continue;
    Automaton automaton;
    automaton.stop = static_cast<int>(k);
    automaton.border.assign(stop.size() + 1, 0);
    for (std::size_t i = 1, matched = 0; i < stop.size(); ++i) {
      while (matched > 0 && stop[i] != stop[matched]) matched = automaton.border[matched];
      if (stop[i] == stop[matched]) ++matched;
      automaton.border[i + 1] = static_cast<std::uint32_t>(matched);
    }
    automata_.push_back(std::move(automaton));
  }
}

void Releaser::advance(Automaton& automaton, std::string_view character) const {
  const std::string& stop = stops_[static_cast<std::size_t>(automaton.stop)];
  std::uint32_t& matched = automaton.matched;
  for (const char c : character) {
    while (matched > 0 && (matched == stop.size() || stop[matched] != c)) {
      matched = automaton.border[matched];
    }
    if (stop[matched] == c) ++matched;
  }
}

void Releaser::accept(std::string_view character) {
  held_ += character;
  const auto length_of = [this](const Automaton& automaton) {
    return stops_[static_cast<std::size_t>(automaton.stop)].size();
  };
  std::size_t longest = 0;
  const Automaton* hit = nullptr;
  for (Automaton& automaton : automata_) {
    advance(automaton, character);
    longest = std::max<std::size_t>(longest, automaton.matched);
    if (automaton.matched != length_of(automaton)) continue;
    if (hit == nullptr || length_of(automaton) > length_of(*hit)) hit = &automaton;
  }
  if (hit != nullptr) {
    stopped_ = true;
    stop_index_ = hit->stop;
    longest = length_of(*hit);
  }
  released_.append(held_, 0, held_.size() - longest);
  held_.erase(0, held_.size() - longest);
}

std::string Releaser::feed(std::string_view bytes) {
  released_.clear();
  if (stopped_) return {};
  tail_ += bytes;
  std::size_t at = 0;
  while (at < tail_.size() && !stopped_) {
    const std::string_view rest = std::string_view(tail_).substr(at);
    const Part part = first_part(rest);
    if (part.bytes == 0) break;
    accept(part.valid ? rest.substr(0, part.bytes) : kReplacement);
    at += part.bytes;
  }
  tail_.erase(0, at);
  return std::exchange(released_, {});
}

std::string Releaser::finish() {
  released_.clear();
  if (stopped_) return {};
  if (!tail_.empty()) {
    tail_.clear();
    accept(kReplacement);
  }
  if (!stopped_) released_ += held_;
  held_.clear();
  for (Automaton& automaton : automata_) automaton.matched = 0;
  return std::exchange(released_, {});
}

}  // namespace holdfast::text
