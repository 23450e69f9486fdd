#include "control/store/object_repository.h"

#include <algorithm>
#include <utility>

namespace holdfast::store {
namespace {

constexpr const char* kObjectUpsert =
    " ON CONFLICT(seq) DO UPDATE SET version=excluded.version, changed_ms=excluded.changed_ms,"
    " expires_ms=excluded.expires_ms, body=excluded.body, bytes=excluded.bytes, crc=excluded.crc,"
    " checksum=excluded.checksum";

Error damaged(core::Seq seq, const char* what) {
  return {Errc::kCorrupt, "objects: " + std::string(what) + " of row " + std::to_string(seq) +
                              " is damaged; see db check"};
}

Result<core::ObjectRow> object_row(const CheckedRows<kObjectColumns>& rows) {
  core::ObjectRow r;
  r.seq = rows.integer("seq");
  r.kind = rows.text("kind");
  r.id = rows.text("id");
  r.owner = rows.text("owner");
  r.version = rows.integer("version");
  r.created_ms = rows.integer("created_ms");
  r.changed_ms = rows.integer("changed_ms");
  r.expires_ms = rows.integer("expires_ms");
  r.body = rows.text("body");
  r.bytes = rows.integer("bytes");
  if (rows.integer("crc") != std::int64_t{crc32c(r.body)}) return damaged(r.seq, "the body");
  if (!rows.is_sound()) return damaged(r.seq, "the row");
  return r;
}

}  // namespace

Result<void> ObjectRepository::prepare() {
  sqlite3* db = connection_.get();
  HOLDFAST_CHECKED(put_object_.prepare(db, "objects", kObjectUpsert));
  HOLDFAST_CHECKED(append_object_.prepare_plain(db, "object_parts"));
  return find_object_.prepare(db, "objects", "WHERE kind=? AND id=?");
}

Result<void> ObjectRepository::write(const core::PutObject& c) {
  const core::ObjectRow& r = c.row;
  {
    auto values = put_object_.values();
    values.set("seq", r.seq).set("kind", r.kind).set("id", r.id).set("owner", r.owner);
    values.set("version", r.version).set("created_ms", r.created_ms);
    values.set("changed_ms", r.changed_ms).set("expires_ms", r.expires_ms).set("bytes", r.bytes);
    HOLDFAST_CHECKED(values.set("crc", std::int64_t{crc32c(r.body)}).set("body", r.body).run());
  }
  if (c.append.empty()) return {};
  auto values = append_object_.values();
  values.set("seq", r.seq).set("at", r.bytes - static_cast<std::int64_t>(c.append.size()));
  return values.set_blob("data", c.append).set("crc", std::int64_t{crc32c(c.append)}).run();
}

Result<void> ObjectRepository::write(const core::DeleteObject& c) {
  for (const char* sql :
       {"DELETE FROM object_parts WHERE seq=?", "DELETE FROM objects WHERE seq=?"}) {
    HOLDFAST_TRY(Statement remove, Statement::prepare(connection_.get(), sql));
    HOLDFAST_CHECKED(remove.use().bind(c.seq).run());
  }
  return {};
}

Result<std::optional<core::ObjectRow>> ObjectRepository::find(const std::string& kind,
                                                              const std::string& id) {
  auto row = find_object_.rows();
  HOLDFAST_TRY(const bool found, row.bind(kind).bind(id).step());
  if (!found) return std::optional<core::ObjectRow>();
  HOLDFAST_TRY(core::ObjectRow object, object_row(row));
  return std::optional<core::ObjectRow>(std::move(object));
}

Result<std::vector<core::ObjectRow>> ObjectRepository::list(const Store::ObjectQuery& query) {
  std::string rest = "WHERE kind=?";
  if (!query.owner.empty()) rest += " AND owner=?";
  if (query.from > 0) rest += query.newest_first ? " AND seq<?" : " AND seq>?";
  rest += query.newest_first ? " ORDER BY seq DESC LIMIT ?" : " ORDER BY seq LIMIT ?";
  CheckedSelect<kObjectColumns> select;
  HOLDFAST_CHECKED(select.prepare(connection_.get(), "objects", rest));
  auto rows = select.rows();
  rows.bind(query.kind);
  if (!query.owner.empty()) rows.bind(query.owner);
  if (query.from > 0) rows.bind(query.from);
  rows.bind(query.limit);
  std::vector<core::ObjectRow> objects;
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return objects;
    HOLDFAST_TRY(core::ObjectRow object, object_row(rows));
    objects.push_back(std::move(object));
  }
}

Result<std::string> ObjectRepository::content(core::Seq seq, std::int64_t from,
                                              std::int64_t limit) {
  static constexpr Columns kPart{"at", "data", "crc"};
  Select<kPart> select;
  HOLDFAST_CHECKED(
      select.prepare(connection_.get(),
                     "SELECT at, data, crc FROM object_parts WHERE seq=?1 AND at >="
                     " coalesce((SELECT max(at) FROM object_parts WHERE seq=?1 AND at<=?2),"
                     " 0) ORDER BY at"));
  auto rows = select.rows();
  rows.bind(seq).bind(from);
  std::string content;
  while (static_cast<std::int64_t>(content.size()) < limit) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) break;
    const std::int64_t at = rows.integer("at");
    std::string_view data = rows.bytes("data");
    if (rows.integer("crc") != std::int64_t{crc32c(data)}) return damaged(seq, "a part");
    const std::int64_t next = from + static_cast<std::int64_t>(content.size());
    const std::int64_t skip = next - at;
    if (skip < 0) return damaged(seq, "the order of the parts");
    if (skip >= static_cast<std::int64_t>(data.size())) continue;
    data.remove_prefix(static_cast<std::size_t>(skip));
    content += data.substr(0, static_cast<std::size_t>(limit) - content.size());
  }
  return content;
}

Result<std::vector<core::Seq>> ObjectRepository::expired(std::int64_t now_ms, std::int64_t limit) {
  static constexpr Columns kExpired{"seq"};
  Select<kExpired> select;
  HOLDFAST_CHECKED(select.prepare(connection_.get(),
                                  "SELECT seq FROM objects WHERE expires_ms > 0 AND expires_ms <= ?"
                                  " AND " +
                                      sound_row("objects") + " ORDER BY expires_ms LIMIT ?"));
  auto rows = select.rows();
  rows.bind(now_ms).bind(limit);
  std::vector<core::Seq> seqs;
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return seqs;
    seqs.push_back(rows.integer("seq"));
  }
}

Result<Store::ObjectTotals> ObjectRepository::totals() {
  static constexpr Columns kGroup{"kind", "owner", "count", "bytes", "last"};
  Select<kGroup> select;
  HOLDFAST_CHECKED(select.prepare(
      connection_.get(),
      "SELECT kind, owner, count(*) AS count, sum(bytes + length(CAST(body AS BLOB))) AS bytes,"
      " max(seq) AS last FROM objects GROUP BY kind, owner"));
  Store::ObjectTotals totals;
  auto rows = select.rows();
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return totals;
    Store::ObjectGroup& group = totals.groups.emplace_back();
    group.kind = rows.text("kind");
    group.owner = rows.text("owner");
    group.count = rows.integer("count");
    group.bytes = rows.integer("bytes");
    totals.count += group.count;
    totals.bytes += group.bytes;
    totals.last = std::max(totals.last, rows.integer("last"));
  }
}

}  // namespace holdfast::store
