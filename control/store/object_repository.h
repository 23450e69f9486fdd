#pragma once
// Objects of gateways: the table objects, rows with a JSON body, and object_parts, their content in
// parts, each with its checksum.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/core/rows.h"
#include "control/store/connection.h"
#include "control/store/select.h"
#include "control/store/store.h"
#include "control/store/summed.h"

namespace holdfast::store {

inline constexpr Columns kObjectColumns{"seq",     "kind",       "id",         "owner",
                                        "version", "created_ms", "changed_ms", "expires_ms",
                                        "bytes",   "crc",        "body"};
inline constexpr Columns kObjectPartColumns{"seq", "at", "data", "crc"};

/// Reads and writes stored objects and the parts of their contents.
class ObjectRepository {
 public:
  explicit ObjectRepository(Connection& connection) : connection_(connection) {}
  Result<void> prepare();

  // ---- inside the transaction of a group
  Result<void> write(const core::PutObject& c);
  Result<void> write(const core::DeleteObject& c);

  // ---- reads; as in Store
  Result<std::optional<core::ObjectRow>> find(const std::string& kind, const std::string& id);
  Result<std::vector<core::ObjectRow>> list(const Store::ObjectQuery& query);
  Result<std::string> content(core::Seq seq, std::int64_t from, std::int64_t limit);
  Result<std::vector<core::Seq>> expired(std::int64_t now_ms, std::int64_t limit);
  Result<Store::ObjectTotals> totals();

 private:
  Connection& connection_;
  SummedInsert<kObjectColumns> put_object_;
  Insert<kObjectPartColumns> append_object_;
  CheckedSelect<kObjectColumns> find_object_;
};

}  // namespace holdfast::store
