#include "control/operator/db_documents.h"

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

std::string text_of(const json& j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

Result<std::string> path_argument(const wire::Op& op) {
  const json j = op.args.empty() ? json::object() : try_parse_json<json>(op.args);
  if (!j.is_object()) return Error{Errc::kUsage, op.verb + ": arguments are not a JSON object"};
  const auto it = j.find("path");
  if (it == j.end()) return std::string();
  if (!it->is_string() || !it->get_ref<const std::string&>().starts_with("/")) {
    return Error{Errc::kUsage, op.verb + ": path: expected an absolute path"};
  }
  return it->get<std::string>();
}

std::string backup_document(const store::BackupReport& report) {
  return text_of({{"path", report.path}, {"pages", report.pages}, {"bytes", report.bytes}});
}

std::string check_document(const std::string& path, const store::CheckReport& report) {
  return text_of({{"path", path},
                  {"ok", true},
                  {"schema", report.schema},
                  {"requests", report.requests},
                  {"prompts_checked", report.payloads},
                  {"chunks_checked", report.chunks},
                  {"objects_checked", report.objects},
                  {"rows_checked", report.rows},
                  {"rows_without_checksum", report.unsummed}});
}

std::string restore_document(const store::RestoreReport& report) {
  return text_of({{"restored", true}, {"epoch", report.epoch}, {"kept", report.previous_dir}});
}

std::string stats_document(const store::Store::Stats& stats) {
  json rows = json::object();
  for (const auto& [table, count] : stats.rows) rows[table] = count;
  return text_of({{"schema", stats.schema},
                  {"size_bytes", stats.pages * stats.page_bytes},
                  {"pages", stats.pages},
                  {"free_pages", stats.free_pages},
                  {"wal_pages", stats.wal_pages},
                  {"disk_free_bytes", stats.disk_free},
                  {"rows", std::move(rows)}});
}

}  // namespace holdfast::daemon
