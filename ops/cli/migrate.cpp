// `holdfast migrate from SERVER -- FLAGS…`.

#include "ops/migrate/migrate.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "ops/cli/suggest.h"
#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "ops/terminal/width.h"

namespace holdfast::cli {
namespace {

using migrate::Environment;
using migrate::Migration;
using migrate::ServerTable;
using nlohmann::json;

Error unknown_server(const std::string& given) {
  std::vector<std::string> names;
  std::string list;
  for (const ServerTable& table : migrate::server_tables()) {
    names.emplace_back(table.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::string near = nearest(given, names);
  return {Errc::kUsage, "migrate from " + given + ": expected one of " + list +
                            (near.empty() ? "" : "; did you mean " + near + "?")};
}

/// The variables of this process, and over them those of --env; nullopt for one that is no
/// NAME=VALUE.
Result<Environment> environment_of(const Call& call) {
  Environment all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const std::string& text : call.list("env")) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return Error{Errc::kUsage, "--env " + text + ": expected NAME=VALUE"};
    }
    all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return all;
}

json remarks_json(const std::vector<Migration::Remark>& remarks) {
  json out = json::array();
  for (const auto& [given, why] : remarks) out.push_back({{"given", given}, {"why", why}});
  return out;
}

/// Remarks as comments of a shell, so that all of the output can be a script.
std::string remarks_text(const std::string& title, const std::vector<Migration::Remark>& remarks) {
  if (remarks.empty()) return {};
  std::string out = "\n# " + title + "\n";
  for (const auto& [given, why] : remarks) {
    out.append("#   ").append(given).append(": ").append(why).append("\n");
  }
  return out;
}

}  // namespace

int migrate_from(const Call& call) {
  const ServerTable* server = migrate::find_server(call.text("SERVER"));
  if (server == nullptr) return report_error(call, unknown_server(call.text("SERVER")));
  const auto environment = environment_of(call);
  if (!environment) return report_error(call, environment.error());
  const Migration migration =
      migrate::migrate(*server, call.list("FLAGS"), migrate::variables_of(*server, *environment));
  if (call.json) {
    print_document(call, {{"server", server->name},
                          {"commands", migration.commands},
                          {"remarks", remarks_json(migration.remarks)},
                          {"unmapped", remarks_json(migration.unmapped)}});
  } else {
    std::string text;
    for (const std::string& command : migration.commands) text += command + "\n";
    text += remarks_text("differences, and what has no need here:", migration.remarks);
    text += remarks_text("could not be mapped:", migration.unmapped);
    std::fputs(text.c_str(), stdout);
  }
  return migration.unmapped.empty() ? kExitDone : kExitFailed;
}

}  // namespace holdfast::cli
