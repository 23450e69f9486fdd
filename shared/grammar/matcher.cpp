#include "shared/grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"

namespace holdfast::grammar {

Matcher::Matcher(std::shared_ptr<TokenMasks> masks)
    : masks_(std::move(masks)), machine_(masks_->grammar()) {
  const Grammar& grammar = masks_->grammar();
  configurations_.push_back({grammar.rules[grammar.root].start, Pushdown::kBottom});
  machine_.close(configurations_, 0);
  may_end_ = machine_.ended();
}

bool Matcher::accept(TokenId id) {
  if (ended_) return false;
  if (masks_->table().is_end(id)) {
    ended_ = may_end_;
    return ended_;
  }
  const std::string_view bytes = masks_->table().bytes(id);
  return !bytes.empty() && accept_bytes(bytes);
}

/// Leaves in now_ the configurations after the bytes. False, and no frame stays, if they do not
/// fit.
bool Matcher::read(std::string_view bytes, bool& may_end) {
  const Pushdown::Mark before = machine_.mark();
  std::uint32_t position = position_;
  may_end = may_end_;
  now_ = configurations_;
  for (const char c : bytes) {
    if (!machine_.step(now_, static_cast<std::uint8_t>(c), position, then_)) {
      machine_.rewind(before);
      return false;
    }
    may_end = machine_.ended();
    std::swap(now_, then_);
    ++position;
  }
  return true;
}

bool Matcher::accept_bytes(std::string_view bytes) {
  bool may_end = false;
  if (ended_ || !read(bytes, may_end)) return false;
  std::swap(configurations_, now_);
  may_end_ = may_end;
  position_ += static_cast<std::uint32_t>(bytes.size());
  return true;
}

bool Matcher::ends_within(TokenId id, std::int64_t n) {
  if (masks_->table().is_end(id)) return may_end();
  const Shortest& shortest = masks_->shortest();
  const Pushdown::Mark before = machine_.mark();
  bool may_end = false;
  if (!read(masks_->table().bytes(id), may_end)) return false;
  const std::int64_t bytes = may_end ? 0 : shortest.of(machine_, now_);
  machine_.rewind(before);
  return bytes + 1 <= n;
}

/// Returns the byte that every configuration reads and no other; -1: there is none, or too much to
/// scan.
int Matcher::only_byte(const Configurations& configurations) const {
  constexpr std::size_t kOnlyByteConfigurationsMax = 16;  // a step costs their square
  const Grammar& grammar = masks_->grammar();
  int only = -1;
  if (configurations.size() > kOnlyByteConfigurationsMax) return only;
  for (const Configuration& configuration : configurations) {
    const int byte = grammar.states[configuration.state].only;
    if (byte < 0 || (only >= 0 && only != byte)) return -1;
    only = byte;
  }
  return only;
}

std::string Matcher::forced(std::size_t most) {
  std::string bytes;
  if (ended_) return bytes;
  const Pushdown::Mark before = machine_.mark();
  now_ = configurations_;
  bool may_end = may_end_;
  while (bytes.size() < most && !may_end) {
    const int byte = only_byte(now_);
    const auto position = position_ + static_cast<std::uint32_t>(bytes.size());
    if (byte < 0 || !machine_.step(now_, static_cast<std::uint8_t>(byte), position, then_)) break;
    bytes.push_back(static_cast<char>(byte));
    may_end = machine_.ended();
    std::swap(now_, then_);
  }
  machine_.rewind(before);
  return bytes;
}

bool Matcher::fill_mask(std::span<std::uint64_t> bits) {
  CHECK(bits.size() == masks_->table().mask_words());
  std::fill(bits.begin(), bits.end(), 0);
  if (ended_) return true;
  if (!masks_->fill(machine_, configurations_, bits)) {
    std::fill(bits.begin(), bits.end(), 0);
    return false;
  }
  if (!may_end_) return true;
  for (const TokenId id : masks_->table().end_ids()) {
    const auto at = static_cast<std::size_t>(id);
    bits[at / 64] |= std::uint64_t{1} << (at % 64);
  }
  return true;
}

}  // namespace holdfast::grammar
