#pragma once
// The database as an outsider reads it: with SQL of its own, on a connection of its own.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/wire/messages.h"

namespace holdfast::simulation {

struct StoredRows {
  struct Choice {
    std::int64_t next_index = 0;
    std::string finish;
    std::int64_t deaths = 0;
    std::int64_t open_attempts = 0;
    std::vector<std::pair<std::int64_t, std::vector<wire::TokenId>>> chunks;
  };
  struct Request {
    std::string id, tenant, key, state, numerics_class, model;
    bool started = false;
    std::vector<Choice> choices;
  };
  struct Canary {
    std::int64_t id = 0;
    std::string state;
    std::int64_t windows = 0;
  };
  std::string trouble;  // what SQLite says against the file; empty = all is well
  bool has_tables = false;
  bool paused = false;
  std::vector<Request> requests;
  std::vector<Canary> canaries;
};

/// Reads `path` on the vfs without changing any file.
StoredRows read_rows(const char* vfs, const std::string& path);

}  // namespace holdfast::simulation
