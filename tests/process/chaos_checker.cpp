#include "tests/process/chaos_checker.h"

#include <sqlite3.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

namespace holdfast::process {
namespace {

using nlohmann::json;

struct RequestLog {
  std::size_t spec = 0;
  bool acked = false;
  bool cancels = false;
  std::string end;  // the state that a client was told
  std::int64_t tokens = -1;
};

struct History {
  std::map<std::string, RequestLog> requests;  // by id
  std::set<std::string> keys;
};

History read_logs(const std::vector<std::string>& paths, Verdict& verdict) {
  History history;
  for (const std::string& path : paths) {
    std::istringstream lines(read_file(path));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string what;
      std::string id;
      words >> what >> id;
      if (what == "key") {
        history.keys.insert(id);
      } else if (what == "wrong") {
        verdict.wrong.push_back(line);
      } else {
        RequestLog& logged = history.requests[id];
        if (what == "try" || what == "ack") words >> logged.spec;
        if (what == "ack") logged.acked = true;
        if (what == "cancel") logged.cancels = true;
        if (what == "end") words >> logged.end >> logged.tokens;
      }
    }
  }
  return history;
}

bool wait_until_idle(TestServer& server) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < until) {
    const auto answer =
        server.operator_client()->op(client::AllTenants::local(), "queue.stats", "{}");
    const auto* text = std::get_if<std::string>(&answer);
    if (text != nullptr && json::parse(*text)["live_requests"] == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

/// Reads one acknowledged request from its first token to its end, as any client could.
void read_back(client::Client& client, const std::string& id, const RequestLog& logged,
               const Spec& spec, Verdict& verdict) {
  ChoiceIds ids;
  std::string wrong;
  const auto ended = client.stream(client::AllTenants::local(), id, {},
                                   [&](const wire::Event& event) { wrong += ids.add(event); });
  if (const auto* failure = std::get_if<client::Failure>(&ended)) {
    ++verdict.lost;
    verdict.wrong.push_back("lost " + id + ": " + std::string(errc_name(failure->code)));
    return;
  }
  const auto& info = std::get<wire::RequestInfo>(ended);
  const std::string state(wire::state_name(info.state));
  const bool cut = info.state == wire::RequestState::kCancelled && logged.cancels;
  const bool whole =
      info.state == wire::RequestState::kSucceeded && ids.count() == spec.tokens_of_all();
  wrong += ids.difference(spec);
  const bool as_told = logged.end.empty() || (logged.end == state && logged.tokens == ids.count());
  if (wrong.empty() && (whole || cut) && as_told) return;
  ++verdict.differing;
  verdict.wrong.push_back("differs " + id + ": " + state + ", " + std::to_string(ids.count()) +
                          " tokens; " + wrong + "; a client was told \"" + logged.end + "\", " +
                          std::to_string(logged.tokens));
}

/// Rows of one text column, each with a second one.
std::vector<std::pair<std::string, std::string>> query(sqlite3* db, const char* sql) {
  std::vector<std::pair<std::string, std::string>> rows;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) != SQLITE_OK) {
    return {{std::string("cannot read: ") + sqlite3_errmsg(db), ""}};
  }
  const auto text = [&](int i) {
    const auto* value = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
    return std::string(value != nullptr ? value : "");
  };
  while (sqlite3_step(statement) == SQLITE_ROW) rows.emplace_back(text(0), text(1));
  sqlite3_finalize(statement);
  return rows;
}

void read_database(const std::string& state, const History& history, Verdict& verdict) {
  sqlite3* db = nullptr;
  if (sqlite3_open_v2((state + "/control.db").c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) !=
      SQLITE_OK) {
    verdict.wrong.emplace_back("the database cannot be opened");
  } else if (const auto whole = query(db, "PRAGMA integrity_check"); whole[0].first != "ok") {
    verdict.wrong.push_back("integrity_check: " + whole[0].first);
  } else {
    std::map<std::string, int> by_key;
    for (const auto& [id, key] : query(db, "SELECT id, idem_key FROM requests")) {
      const auto logged = history.requests.find(id);
      const bool recorded = logged != history.requests.end();
      if (!recorded && history.keys.count(key) == 0) {
        ++verdict.unexpected;
        verdict.wrong.push_back("unexpected " + id);
      }
      if (!recorded || !logged->second.acked) ++verdict.recovered;
      if (!key.empty() && ++by_key[key] == 2) {
        ++verdict.repeated;
        verdict.wrong.push_back("two requests of key " + key);
      }
    }
    const auto open = query(db,
                            "SELECT id, state FROM requests"
                            " WHERE finished_ms IS NULL OR finished_ms = 0");
    for (const auto& [id, state] : open) verdict.wrong.push_back("not ended: " + id + " " + state);
  }
  sqlite3_close(db);
}

}  // namespace

std::string Verdict::str() const {
  std::ostringstream out;
  out << "attempted " << attempted << ", acknowledged " << acknowledged << ", ended " << ended
      << ", recovered " << recovered << "; lost " << lost << ", repeated " << repeated
      << ", differing " << differing << ", unexpected " << unexpected;
  for (std::size_t i = 0; i < wrong.size() && i < 40; ++i) out << "\n  " << wrong[i];
  if (wrong.size() > 40) out << "\n  … " << wrong.size() << " in all";
  return out.str();
}

Verdict check_everything(TestServer& server, const std::vector<Spec>& specs,
                         const std::vector<std::string>& logs) {
  Verdict verdict;
  const History history = read_logs(logs, verdict);
  if (!wait_until_idle(server)) verdict.wrong.emplace_back("work is left after 60 s of quiet");
  const auto client = server.client();
  for (const auto& [id, logged] : history.requests) {
    verdict.ended += logged.end.empty() ? 0 : 1;
    if (!logged.acked) continue;
    ++verdict.acknowledged;
    read_back(*client, id, logged, specs[logged.spec], verdict);
  }
  verdict.attempted = static_cast<std::int64_t>(history.requests.size());
  if (const int code = server.stop(); code != 0) {
    verdict.wrong.push_back("the house stopped with status " + std::to_string(code));
  }
  read_database(server.state(), history, verdict);
  return verdict;
}

}  // namespace holdfast::process
