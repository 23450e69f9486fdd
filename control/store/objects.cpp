// Objects of gateways: rows with a JSON body, and content in parts, each with its checksum.
#include <algorithm>

#include "control/store/row_checksum.h"
#include "control/store/sqlite_store.h"

namespace holdfast::store {
namespace {

std::string select_objects() {
  return "SELECT seq, kind, id, owner, version, created_ms, changed_ms, expires_ms, body, bytes,"
         " crc, " +
         sound_row("objects") + " FROM objects ";
}

Error damaged(core::Seq seq, const char* what) {
  return {Errc::kCorrupt, "objects: " + std::string(what) + " of row " + std::to_string(seq) +
                              " is damaged; see db check"};
}

Result<core::ObjectRow> object_row(const Statement::Use& use) {
  core::ObjectRow r;
  r.seq = use.integer(0);
  r.kind = use.text(1);
  r.id = use.text(2);
  r.owner = use.text(3);
  r.version = use.integer(4);
  r.created_ms = use.integer(5);
  r.changed_ms = use.integer(6);
  r.expires_ms = use.integer(7);
  r.body = use.text(8);
  r.bytes = use.integer(9);
  if (use.integer(10) != std::int64_t{crc32c(r.body)}) return damaged(r.seq, "the body");
  if (use.integer(11) == 0) return damaged(r.seq, "the row");
  return r;
}

}  // namespace

Result<void> SqliteStore::write(const core::PutObject& c) {
  const core::ObjectRow& r = c.row;
  {
    auto use = put_object_.use();
    use.bind(r.seq).bind(r.kind).bind(r.id).bind(r.owner).bind(r.version).bind(r.created_ms);
    use.bind(r.changed_ms).bind(r.expires_ms).bind(r.bytes);
    HOLDFAST_CHECKED(use.bind(std::int64_t{crc32c(r.body)}).bind(r.body).run());
  }
  if (c.append.empty()) return {};
  auto use = append_object_.use();
  use.bind(r.seq).bind(r.bytes - static_cast<std::int64_t>(c.append.size())).bind_blob(c.append);
  return use.bind(std::int64_t{crc32c(c.append)}).run();
}

Result<void> SqliteStore::write(const core::DeleteObject& c) {
  for (const char* sql :
       {"DELETE FROM object_parts WHERE seq=?", "DELETE FROM objects WHERE seq=?"}) {
    HOLDFAST_TRY(Statement remove, Statement::prepare(db_.get(), sql));
    HOLDFAST_CHECKED(remove.use().bind(c.seq).run());
  }
  return {};
}

Result<std::optional<core::ObjectRow>> SqliteStore::find_object(const std::string& kind,
                                                                const std::string& id) {
  auto use = find_object_.use();
  use.bind(kind).bind(id);
  HOLDFAST_TRY(const bool found, use.step());
  if (!found) return std::optional<core::ObjectRow>();
  HOLDFAST_TRY(core::ObjectRow row, object_row(use));
  return std::optional<core::ObjectRow>(std::move(row));
}

Result<std::vector<core::ObjectRow>> SqliteStore::list_objects(const ObjectQuery& query) {
  std::string sql = select_objects() + "WHERE kind=?";
  if (!query.owner.empty()) sql += " AND owner=?";
  if (query.from > 0) sql += query.newest_first ? " AND seq<?" : " AND seq>?";
  sql += query.newest_first ? " ORDER BY seq DESC LIMIT ?" : " ORDER BY seq LIMIT ?";
  HOLDFAST_TRY(Statement select, Statement::prepare(db_.get(), sql.c_str()));
  auto use = select.use();
  use.bind(query.kind);
  if (!query.owner.empty()) use.bind(query.owner);
  if (query.from > 0) use.bind(query.from);
  use.bind(query.limit);
  std::vector<core::ObjectRow> rows;
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return rows;
    HOLDFAST_TRY(core::ObjectRow row, object_row(use));
    rows.push_back(std::move(row));
  }
}

Result<std::string> SqliteStore::object_content(core::Seq seq, std::int64_t from,
                                                std::int64_t limit) {
  HOLDFAST_TRY(
      Statement select,
      Statement::prepare(db_.get(),
                         "SELECT at, data, crc FROM object_parts WHERE seq=?1 AND at >="
                         " coalesce((SELECT max(at) FROM object_parts WHERE seq=?1 AND at<=?2),"
                         " 0) ORDER BY at"));
  auto use = select.use();
  use.bind(seq).bind(from);
  std::string content;
  while (static_cast<std::int64_t>(content.size()) < limit) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) break;
    const std::int64_t at = use.integer(0);
    std::string_view data = use.bytes(1);
    if (use.integer(2) != std::int64_t{crc32c(data)}) return damaged(seq, "a part");
    const std::int64_t next = from + static_cast<std::int64_t>(content.size());
    const std::int64_t skip = next - at;
    if (skip < 0) return damaged(seq, "the order of the parts");
    if (skip >= static_cast<std::int64_t>(data.size())) continue;
    data.remove_prefix(static_cast<std::size_t>(skip));
    content += data.substr(0, static_cast<std::size_t>(limit) - content.size());
  }
  return content;
}

Result<std::vector<core::Seq>> SqliteStore::expired_objects(std::int64_t now_ms,
                                                            std::int64_t limit) {
  HOLDFAST_TRY(Statement select,
               Statement::prepare(
                   db_.get(), ("SELECT seq FROM objects WHERE expires_ms > 0 AND expires_ms <= ?"
                               " AND " +
                               sound_row("objects") + " ORDER BY expires_ms LIMIT ?")
                                  .c_str()));
  auto use = select.use();
  use.bind(now_ms).bind(limit);
  std::vector<core::Seq> seqs;
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return seqs;
    seqs.push_back(use.integer(0));
  }
}

Result<Store::ObjectTotals> SqliteStore::object_totals() {
  HOLDFAST_TRY(
      Statement select,
      Statement::prepare(db_.get(),
                         "SELECT kind, owner, count(*), sum(bytes + length(CAST(body AS BLOB))),"
                         " max(seq) FROM objects GROUP BY kind, owner"));
  ObjectTotals totals;
  auto use = select.use();
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return totals;
    totals.groups.push_back({use.text(0), use.text(1), use.integer(2), use.integer(3)});
    totals.count += use.integer(2);
    totals.bytes += use.integer(3);
    totals.last = std::max(totals.last, use.integer(4));
  }
}

}  // namespace holdfast::store
