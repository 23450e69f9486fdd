#include "control/store/tail.h"

#include <algorithm>

#include "control/store/encode.h"

namespace holdfast::store {
namespace {

std::uint32_t checksum(const ChunkRow& row) {
  return crc32c(row.extra ? *row.extra : std::string(), crc32c(row.ids));
}

Error wrong(const char* what) {
  return Error{Errc::kCorrupt, std::string("tokens: ") + what};
}

std::int64_t size_of(const ChunkRow& row) {
  return static_cast<std::int64_t>(row.ids.size() + (row.extra ? row.extra->size() : 0));
}

}  // namespace

ChunkRow encode_chunk(const core::InsertChunk& chunk) {
  ChunkRow row;
  row.start = chunk.start;
  row.ids = encode_ids(chunk.ids);
  if (!chunk.extra.empty()) row.extra = encode_strings(chunk.extra);
  row.crc = checksum(row);
  return row;
}

Result<void> append_chunk(const ChunkRow& row, std::int64_t end, std::int64_t& next,
                          domain::TokenRun& span) {
  if (checksum(row) != row.crc) return wrong("the checksum differs");
  HOLDFAST_TRY(const std::vector<core::TokenId> ids, decode_ids(row.ids));
  std::vector<std::string> extra;
  if (row.extra) {
    HOLDFAST_TRY(extra, decode_strings(*row.extra));
  }
  const std::int64_t last = std::min(end, row.start + static_cast<std::int64_t>(ids.size()));
  if (row.start > next || last <= next) return wrong("a gap");
  for (; next < last; ++next) {
    const auto i = static_cast<std::size_t>(next - row.start);
    span.ids.push_back(ids[i]);
    span.extra.push_back(i < extra.size() ? extra[i] : std::string());
  }
  return {};
}

std::vector<ChunkRow> merge_chunks(const std::vector<ChunkRow>& rows) {
  core::InsertChunk whole;
  domain::TokenRun span;
  std::int64_t next = rows.front().start;
  whole.start = next;
  bool any_extra = false;
  for (const ChunkRow& row : rows) {
    if (row.start != next || !append_chunk(row, INT64_MAX, next, span)) return rows;
    any_extra = any_extra || row.extra.has_value();
  }
  whole.ids = std::move(span.ids);
  if (any_extra) whole.extra = std::move(span.extra);
  std::vector<ChunkRow> merged;
  merged.push_back(encode_chunk(whole));
  return merged;
}

void Tail::add(Key key, ChunkRow row) {
  staged_.push_back({key, std::move(row)});
}

void Tail::commit() {
  if (cleared_) {
    streams_.clear();
    rows_ = bytes_ = 0;
  }
  for (Staged& change : staged_) {
    if (!change.row) {
      erase_now(change.key.first);
      continue;
    }
    ++rows_;
    bytes_ += size_of(*change.row);
    streams_[change.key].push_back(std::move(*change.row));
  }
  rollback();
}

void Tail::rollback() {
  staged_.clear();
  cleared_ = false;
}

void Tail::erase_now(core::Seq seq) {
  const auto first = streams_.lower_bound({seq, 0});
  auto last = first;
  for (; last != streams_.end() && last->first.first == seq; ++last) {
    for (const ChunkRow& row : last->second) {
      --rows_;
      bytes_ -= size_of(row);
    }
  }
  streams_.erase(first, last);
}

const std::vector<ChunkRow>* Tail::of(Key key) const {
  const auto found = streams_.find(key);
  return found == streams_.end() ? nullptr : &found->second;
}

bool Tail::has(core::Seq seq) const {
  const auto first = streams_.lower_bound({seq, 0});
  if (!cleared_ && first != streams_.end() && first->first.first == seq) return true;
  return std::any_of(staged_.begin(), staged_.end(),
                     [&](const Staged& change) { return change.key.first == seq && change.row; });
}

}  // namespace holdfast::store
